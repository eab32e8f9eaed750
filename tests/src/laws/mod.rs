//! The laws of every pipeline, over any kind of fleet. A checker returns what does not hold, so that it can be shown to
//! refuse what is broken.

mod adopted;
mod again;
mod authorities;
mod case;
mod compare;
mod crashes;
mod cut_off;
mod failures;
mod fleet;
mod foreign;
mod left_out;
mod lost;
mod plans;
mod recorded;
mod rooted;
mod run;
mod simulated;

pub use case::Case;
pub use compare::differences;
pub use fleet::Fleet;
pub use recorded::{Recorded, record};
pub use rooted::Rooted;
pub use run::{Carried, How};
pub use simulated::Simulated;

/// Which of many points are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// All.
    Every,
    /// Every `of`-th, from this one on: `of` such parts are all of them.
    Part { part: usize, of: usize },
    /// So many, drawn by this seed; all where there are no more.
    Drawn {
        count: usize,
        /// Of the draw.
        seed: u64,
    },
}

impl Points {
    /// The points of 1 to `last` that are tried, in order.
    pub fn of(self, last: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (1..=last).collect();
        let (count, mut seed) = match self {
            Self::Every => return all,
            Self::Part { part, of } => return all.into_iter().skip(part - 1).step_by(of).collect(),
            Self::Drawn { count, seed } => (count, seed),
        };
        let mut drawn = Vec::new();
        while drawn.len() < count && !all.is_empty() {
            // Knuth's MMIX generator; its high bits are the good ones.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(seed >> 33).unwrap_or(0) % all.len();
            drawn.push(all.swap_remove(at));
        }
        drawn.sort_unstable();
        drawn
    }
}

/// A folder in memory where there is one: the laws sync some ten thousand times, which a disk makes minutes of.
#[expect(clippy::expect_used, reason = "without a folder no test can begin")]
pub fn scratch() -> tempfile::TempDir {
    let memory = tempfile::Builder::new().prefix("kubexm-laws-").tempdir_in("/dev/shm");
    memory.or_else(|_| tempfile::tempdir()).expect("a folder")
}
