//! How large the chunks of uploads are: each costs the registry a write to its disk, and what is on its way is lost with a cut.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The largest chunk, also that a registry may ask for (`OCI-Chunk-Min-Length`): what a cut costs at most.
pub(super) const CHUNK_MOST: u64 = 64 << 20;

/// What a chunk may take, and a cut cost.
const TIME: Duration = Duration::from_millis(500);
/// Of less, the time is that of a request and says nothing of the rate.
const MEASURED: u64 = 1 << 20;

/// How much a registry takes in half a second, as seen of its last uploads. Shared by all that go there.
#[derive(Debug)]
pub struct Pace {
    least: u64,
    now: AtomicU64,
    most: AtomicU64,
}

impl Pace {
    /// Chunks have so many bytes until one was taken faster.
    #[must_use]
    pub fn starting(chunk: u64) -> Self {
        Self { least: chunk, now: AtomicU64::new(chunk), most: AtomicU64::new(CHUNK_MOST) }
    }

    /// Bytes of the next chunk.
    #[must_use]
    pub fn chunk(&self) -> u64 {
        self.now.load(Ordering::Relaxed).min(self.most.load(Ordering::Relaxed))
    }

    /// The registry took this many bytes in that time.
    pub(super) fn took(&self, bytes: u64, time: Duration) {
        if bytes < MEASURED {
            return;
        }
        let in_time = u128::from(bytes) * TIME.as_micros() / time.as_micros().max(1);
        let now = u64::try_from(in_time).unwrap_or(CHUNK_MOST).clamp(self.least, CHUNK_MOST.max(self.least));
        self.now.store(now, Ordering::Relaxed);
    }

    /// An upload broke off.
    pub(super) fn broke(&self) {
        self.now.store(self.least, Ordering::Relaxed);
    }

    /// Something before the registry takes no more at a time.
    pub(super) fn at_most(&self, bytes: u64) {
        self.most.fetch_min(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 4 << 20;

    fn after(took: &[(u64, u64)]) -> u64 {
        let pace = Pace::starting(START);
        for (bytes, ms) in took {
            pace.took(*bytes, Duration::from_millis(*ms));
        }
        pace.chunk()
    }

    #[test]
    fn a_chunk_is_what_the_registry_takes_in_half_a_second_within_bounds() {
        assert_eq!(after(&[]), START);
        assert_eq!(after(&[(START, 200)]), 10 << 20);
        assert_eq!(after(&[(START, 10)]), CHUNK_MOST);
        assert_eq!(after(&[(START, 0)]), CHUNK_MOST);
        assert_eq!(after(&[(START, 60_000)]), START);
        assert_eq!(after(&[(START, 10), (CHUNK_MOST, 3_200)]), 10 << 20, "it has become slower");
        assert_eq!(after(&[(START, 10), (MEASURED - 1, 500)]), CHUNK_MOST, "the time of a request alone");
    }

    #[test]
    fn what_broke_off_or_was_refused_makes_the_next_ones_smaller() {
        let pace = Pace::starting(START);
        pace.took(START, Duration::from_millis(10));
        pace.broke();
        assert_eq!(pace.chunk(), START);
        pace.at_most(1 << 20);
        pace.took(START, Duration::from_millis(10));
        assert_eq!(pace.chunk(), 1 << 20);
    }
}
