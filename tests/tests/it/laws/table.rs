//! Which law is held against which pipeline, where, and how often. The one table of the laws.

use kubexm_tests::laws::{Pipeline, Points};
use kubexm_tests::samples::{FLEETS, SAMPLES, Sample};

/// A law of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// 1: a failure of any change, before and after it was made, unwinds to the state before the run.
    Unwinds,
    /// 2: a crash before and after any record resumes to the same end, and can be taken back then.
    CrashResumes,
    /// 2: a failure of any change that is kept resumes to the same end.
    FailureResumes,
    /// 3: a crash before and after any record of a rollback is gone on with.
    RollbackGoesOn,
    /// 3: a failure of any undo, before and after it, is gone on with.
    UndoFails,
    /// 4: a second run changes nothing.
    SecondRun,
    /// 5: the invariants hold at every point. (They are asked after every run of all other laws, too.)
    Invariants,
    /// With one host that may fail: a failure of any step of an expendable host leaves that one out, as it was.
    LeavesOut,
    /// Every host is as it was before the cluster was made.
    AsBefore,
}

impl Law {
    pub const ALL: [Self; 9] = [
        Self::Unwinds,
        Self::CrashResumes,
        Self::FailureResumes,
        Self::RollbackGoesOn,
        Self::UndoFails,
        Self::SecondRun,
        Self::Invariants,
        Self::LeavesOut,
        Self::AsBefore,
    ];
}

/// What a law is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Every point of the samples of these names, so many drawn ones of each other. `KUBEXM_LAWS=every` tries every point
    /// of every sample; how long that takes was not measured.
    At { every: &'static [&'static str], drawn: usize },
    /// So many drawn points of these samples alone, or every point of every sample, as above.
    Of { samples: &'static [&'static str], drawn: usize },
    /// It has no points: every sample, whole.
    Whole,
    /// It is not, for this reason.
    Not(&'static str),
}

/// One line of the table.
pub struct Row {
    pub law: Law,
    pub pipeline: Pipeline,
    /// On the strict simulated fleet.
    pub simulated: Held,
    /// With the real ops on machines rooted in directories.
    pub rooted: Held,
}

const ONE: &str = "defaults";
const THREE: &str = "two control planes and a worker";
const STORE: &str = "a registry host of its own";
const SEED: u64 = 4;

const fn at(every: &'static [&'static str], drawn: usize) -> Held {
    Held::At { every, drawn }
}

const fn of(samples: &'static [&'static str], drawn: usize) -> Held {
    Held::Of { samples, drawn }
}

/// A run of real ops takes several times as long as a simulated one: these have all kinds of hosts between them.
const REAL: &[&str] = &[ONE, THREE, STORE];

const NOBODY: Held = Held::Not("reset plans no host as expendable: what is left on one host is told, and reset again");
const OF_RESET: Held =
    Held::Not("the state before anything is what reset alone promises; law 1 is about what was before the run");
const NO_UNDO: Held = Held::Not("faults of the real ops strike at converges; a kill inside an undo is law 3's crash");

#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    Row { law: Law::Unwinds, pipeline: Pipeline::Create, simulated: at(&[ONE], 3), rooted: of(REAL, 2) },
    Row { law: Law::Unwinds, pipeline: Pipeline::Join, simulated: at(&[THREE], 3), rooted: of(REAL, 2) },
    Row { law: Law::Unwinds, pipeline: Pipeline::Reset, simulated: at(&[ONE, THREE], 3), rooted: of(REAL, 4) },
    Row { law: Law::CrashResumes, pipeline: Pipeline::Create, simulated: at(&[ONE], 3), rooted: of(REAL, 2) },
    Row { law: Law::CrashResumes, pipeline: Pipeline::Join, simulated: at(&[THREE], 3), rooted: of(REAL, 2) },
    Row { law: Law::CrashResumes, pipeline: Pipeline::Reset, simulated: at(&[ONE, THREE], 3), rooted: of(REAL, 2) },
    Row { law: Law::FailureResumes, pipeline: Pipeline::Create, simulated: at(&[ONE], 3), rooted: of(REAL, 2) },
    Row { law: Law::FailureResumes, pipeline: Pipeline::Join, simulated: at(&[THREE], 3), rooted: of(REAL, 2) },
    Row { law: Law::FailureResumes, pipeline: Pipeline::Reset, simulated: at(&[ONE, THREE], 3), rooted: of(REAL, 2) },
    Row { law: Law::RollbackGoesOn, pipeline: Pipeline::Create, simulated: at(&[ONE], 3), rooted: of(REAL, 2) },
    Row { law: Law::RollbackGoesOn, pipeline: Pipeline::Join, simulated: at(&[THREE], 3), rooted: of(REAL, 2) },
    Row { law: Law::RollbackGoesOn, pipeline: Pipeline::Reset, simulated: at(&[ONE, THREE], 3), rooted: of(REAL, 2) },
    Row { law: Law::UndoFails, pipeline: Pipeline::Create, simulated: at(&[], 8), rooted: NO_UNDO },
    Row { law: Law::UndoFails, pipeline: Pipeline::Join, simulated: at(&[THREE], 3), rooted: NO_UNDO },
    Row { law: Law::UndoFails, pipeline: Pipeline::Reset, simulated: at(&[ONE, THREE], 3), rooted: NO_UNDO },
    Row { law: Law::SecondRun, pipeline: Pipeline::Create, simulated: Held::Whole, rooted: Held::Whole },
    Row { law: Law::SecondRun, pipeline: Pipeline::Join, simulated: Held::Whole, rooted: Held::Whole },
    Row { law: Law::SecondRun, pipeline: Pipeline::Reset, simulated: Held::Whole, rooted: Held::Whole },
    Row { law: Law::Invariants, pipeline: Pipeline::Create, simulated: Held::Whole, rooted: Held::Whole },
    Row { law: Law::Invariants, pipeline: Pipeline::Join, simulated: Held::Whole, rooted: Held::Whole },
    // Of the files of units and what they loaded. etcd's quorum and the API's name are not asked: the cluster goes away.
    Row { law: Law::Invariants, pipeline: Pipeline::Reset, simulated: Held::Whole, rooted: Held::Whole },
    Row { law: Law::LeavesOut, pipeline: Pipeline::Create, simulated: at(&[], 6), rooted: of(&[THREE], 2) },
    Row { law: Law::LeavesOut, pipeline: Pipeline::Join, simulated: at(&[THREE], 4), rooted: of(&[THREE], 2) },
    Row { law: Law::LeavesOut, pipeline: Pipeline::Reset, simulated: NOBODY, rooted: NOBODY },
    Row { law: Law::AsBefore, pipeline: Pipeline::Create, simulated: OF_RESET, rooted: OF_RESET },
    Row { law: Law::AsBefore, pipeline: Pipeline::Join, simulated: OF_RESET, rooted: OF_RESET },
    Row { law: Law::AsBefore, pipeline: Pipeline::Reset, simulated: Held::Whole, rooted: Held::Whole },
];

/// The line of a law and a pipeline.
pub fn row(law: Law, pipeline: Pipeline) -> &'static Row {
    let mut rows = TABLE.iter().filter(|row| row.law == law && row.pipeline == pipeline);
    rows.next().unwrap_or_else(|| panic!("the table has no line for {law:?} of {pipeline:?}"))
}

/// The samples that a line is about, with the points that are tried; none where the law is not held.
pub fn samples(held: Held, pipeline: Pipeline) -> Vec<(&'static Sample, Points)> {
    let all = SAMPLES.iter().chain(&FLEETS).filter(|sample| pipeline != Pipeline::Join || !sample.added.is_empty());
    let all_points = std::env::var("KUBEXM_LAWS").is_ok_and(|laws| laws == "every");
    all.filter_map(|sample| match held {
        Held::Not(_) => None,
        Held::Whole => Some((sample, Points::Every)),
        Held::At { .. } | Held::Of { .. } if all_points => Some((sample, Points::Every)),
        Held::At { every, .. } if every.contains(&sample.name) => Some((sample, Points::Every)),
        Held::Of { samples, .. } if !samples.contains(&sample.name) => None,
        Held::At { drawn, .. } | Held::Of { drawn, .. } => Some((sample, Points::Drawn { count: drawn, seed: SEED })),
    })
    .collect()
}

#[test]
fn every_law_is_held_against_every_pipeline_or_the_table_says_why_not() {
    for law in Law::ALL {
        for pipeline in Pipeline::ALL {
            let rows: Vec<&Row> = TABLE.iter().filter(|row| row.law == law && row.pipeline == pipeline).collect();
            let [row] = rows.as_slice() else { panic!("{law:?} of {pipeline:?} has {} lines", rows.len()) };
            for held in [row.simulated, row.rooted] {
                match held {
                    Held::Not(why) => assert!(why.len() > 20, "{law:?} of {pipeline:?}: {why:?} is no reason"),
                    held => {
                        assert!(!samples(held, pipeline).is_empty(), "{law:?} of {pipeline:?} is held against nothing")
                    }
                }
            }
        }
    }
    for name in [ONE, THREE, STORE] {
        assert!(SAMPLES.iter().chain(&FLEETS).any(|sample| sample.name == name), "there is no sample {name:?}");
    }
}
