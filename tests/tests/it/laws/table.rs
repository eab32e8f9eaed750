//! Which law is checked for which pipeline, where, and how often.

use kubexm_plan::Pipeline;
use kubexm_tests::laws::Points;
use kubexm_tests::samples::{FLEETS, SAMPLES, Sample};

/// A law of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// 1: a failure of any change, before and after it was made, unwinds to the state before the run.
    Unwinds,
    /// 2: a crash before and after any record resumes to the same end, and can be rolled back then.
    CrashResumes,
    /// 2: a failure of any change that is kept resumes to the same end.
    FailureResumes,
    /// 3: a crash before and after any record of a rollback is resumed.
    RollbackResumes,
    /// 3: a failure of any undo, before and after it, is resumed.
    UndoFails,
    /// 4: a second run changes nothing.
    SecondRun,
    /// 5: the invariants hold at every point. (They are asked after every run of all other laws, too.)
    Invariants,
    /// With one host that may fail: a failure of any step of an optional host leaves that one out, as it was.
    LeavesOut,
    /// Every host is as it was before the cluster was made.
    AsBefore,
}

impl Law {
    pub const ALL: [Self; 9] = [
        Self::Unwinds,
        Self::CrashResumes,
        Self::FailureResumes,
        Self::RollbackResumes,
        Self::UndoFails,
        Self::SecondRun,
        Self::Invariants,
        Self::LeavesOut,
        Self::AsBefore,
    ];
}

/// What a law is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Every point of the samples of these names, so many drawn ones of each other. `KUBEXM_LAWS=every` tries every point
    /// of every sample; how long that takes was not measured. `KUBEXM_LAWS_OF=proxy` tries samples with that word in their name alone. `KUBEXM_LAWS=2/3` tries a third of the points of the former.
    At { every: &'static [&'static str], drawn: usize },
    /// So many drawn points of these samples alone, or every point of every sample, as above.
    Of { samples: &'static [&'static str], drawn: usize },
    /// It has no points: every sample, whole.
    Whole,
    /// It is not, for this reason.
    Not(&'static str),
}

/// Where a law is held for a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// On the strict simulated fleet.
    pub simulated: Held,
    /// With the real ops on machines rooted in directories.
    pub rooted: Held,
}

const ONE: &str = "defaults";
const THREE: &str = "two control planes and a worker";
const STORE: &str = "a registry host of its own that demands a login";
const HARBOR: &str = "Harbor on a host of its own";
const SEED: u64 = 4;

const fn at(every: &'static [&'static str], drawn: usize) -> Held {
    Held::At { every, drawn }
}

const fn of(samples: &'static [&'static str], drawn: usize) -> Held {
    Held::Of { samples, drawn }
}

/// A run of real ops takes several times as long as a simulated one: these have all kinds of hosts between them.
const REAL: &[&str] = &[ONE, THREE, STORE];
/// Where something is done on Harbor's host, or a node gets its images from it.
const REAL_WITH_HARBOR: &[&str] = &[ONE, THREE, STORE, HARBOR];

const fn real(pipeline: Pipeline) -> &'static [&'static str] {
    match pipeline {
        Pipeline::Create | Pipeline::AddNode | Pipeline::Reset => REAL_WITH_HARBOR,
        _ => REAL,
    }
}

const NOBODY: Held = Held::Not(
    "reset, delete-node, certs-renew, registry-prune, restore and adopt plan no host as optional: what is left on one host is reported, and they run again",
);
const OF_RESET: Held =
    Held::Not("the state before anything is what removals alone promise; law 1 is about what was before the run");
const NO_UNDO: Held = Held::Not("faults of the real ops strike at converges; a kill inside an undo is law 3's crash");

const ON_ONE: &[&str] = &[ONE];
const ON_THREE: &[&str] = &[THREE];
const ON_BOTH: &[&str] = &[ONE, THREE];

/// Samples of which every point is tried. A new pipeline is tried on the smallest that it has something to do in.
fn whole(pipeline: Pipeline) -> &'static [&'static str] {
    match pipeline {
        Pipeline::Create => ON_ONE,
        Pipeline::Reset => ON_BOTH,
        _ if all().any(|sample| sample.name == ONE && sample.is_for(pipeline)) => ON_ONE,
        _ => ON_THREE,
    }
}

/// Where and how often a law is held for a pipeline: one rule a law, and what is special of a pipeline.
pub fn row(law: Law, pipeline: Pipeline) -> Row {
    let both = |held| Row { simulated: held, rooted: held };
    let usual = |rooted| Row { simulated: at(whole(pipeline), 3), rooted };
    match (law, pipeline) {
        // What is deleted for good comes at its end: more points lie before that.
        (Law::Unwinds, Pipeline::Reset) => usual(of(real(pipeline), 4)),
        (Law::Unwinds | Law::CrashResumes | Law::FailureResumes | Law::RollbackResumes, _) => {
            usual(of(real(pipeline), 2))
        }
        (Law::UndoFails, Pipeline::Create) => Row { simulated: at(&[], 8), rooted: NO_UNDO },
        (Law::UndoFails, _) => usual(NO_UNDO),
        // Of reset: the files of units and what they loaded. etcd's quorum and the API's name are not asked, the cluster goes.
        (Law::SecondRun | Law::Invariants, _) => both(Held::Whole),
        (
            Law::LeavesOut,
            Pipeline::DeleteNode
            | Pipeline::CertsRenew
            | Pipeline::RegistryPrune
            | Pipeline::Restore
            | Pipeline::Adopt
            | Pipeline::Reset,
        ) => both(NOBODY),
        (Law::LeavesOut, Pipeline::Create) => Row { simulated: at(&[], 6), rooted: of(ON_THREE, 2) },
        (Law::LeavesOut, _) => Row { simulated: at(ON_THREE, 4), rooted: of(ON_THREE, 2) },
        (Law::AsBefore, Pipeline::DeleteNode | Pipeline::Reset) => both(Held::Whole),
        (Law::AsBefore, _) => both(OF_RESET),
    }
}

fn all() -> impl Iterator<Item = &'static Sample> {
    SAMPLES.iter().chain(&FLEETS)
}

/// The samples that a line is about, with the points that are tried; none where the law is not held.
pub fn samples(held: Held, pipeline: Pipeline) -> Vec<(&'static Sample, Points)> {
    let all = all().filter(|sample| sample.is_for(pipeline));
    let which = std::env::var("KUBEXM_LAWS").unwrap_or_default();
    let (all_points, part) = (which == "every", part(&which));
    let word = std::env::var("KUBEXM_LAWS_OF").unwrap_or_default();
    let all = all.filter(|sample| sample.name.contains(&word));
    all.filter_map(|sample| match held {
        Held::Not(_) => None,
        Held::Whole => Some((sample, Points::Every)),
        Held::At { .. } | Held::Of { .. } if all_points => Some((sample, Points::Every)),
        Held::At { every, .. } if every.contains(&sample.name) => Some((sample, part)),
        Held::Of { samples, .. } if !samples.contains(&sample.name) => None,
        Held::At { drawn, .. } | Held::Of { drawn, .. } => Some((sample, Points::Drawn { count: drawn, seed: SEED })),
    })
    .collect()
}

/// `2/3`: the second third of the points that would be all. Anything else that is set is a mistake.
fn part(which: &str) -> Points {
    if ["", "every"].contains(&which) {
        return Points::Every;
    }
    let numbers = which.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    match numbers {
        Some((part, of)) if (1..=of).contains(&part) => Points::Part { part, of },
        _ => panic!("KUBEXM_LAWS is {which:?}: it takes `every`, or a part such as 2/3"),
    }
}

#[test]
fn the_parts_of_the_points_are_all_of_them() {
    let mut tried: Vec<usize> = ["1/3", "2/3", "3/3"].iter().flat_map(|which| part(which).of(100)).collect();
    tried.sort_unstable();
    assert_eq!(tried, Points::Every.of(100));
}

#[test]
fn every_law_is_tested_on_every_pipeline_or_the_table_says_why_not() {
    for law in Law::ALL {
        for pipeline in Pipeline::ALL.iter().copied() {
            let row = row(law, pipeline);
            for held in [row.simulated, row.rooted] {
                match held {
                    Held::Not(why) => assert!(why.len() > 20, "{law:?} of {pipeline:?}: {why:?} is no reason"),
                    held => {
                        assert!(!samples(held, pipeline).is_empty(), "{law:?} of {pipeline:?} is compared with nothing")
                    }
                }
            }
        }
    }
    for name in [ONE, THREE, STORE, HARBOR] {
        assert!(all().any(|sample| sample.name == name), "there is no sample {name:?}");
    }
}
