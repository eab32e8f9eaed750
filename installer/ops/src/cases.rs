//! How every op kind and every act is tested. The cases of a kind are in its own file; a kind without them does not compile here.

use std::collections::BTreeSet;

use kubexm_plan::Op;
use kubexm_plan::op::{self, Act, Progress};

use crate::fake::host::{Host, same};
use crate::{Converge, Wave, dispatch};

/// Where a kind is tested.
pub(crate) enum Tested<C: 'static> {
    /// By these cases.
    Here(&'static [C]),
    /// By a file of `tests/it`, since it needs more than one host, or a control plane that runs.
    In(&'static str),
}

/// What a case is called, and a host on which its op would change something.
pub(crate) type Case<K> = (&'static str, fn(&mut Host) -> K);

/// The cases of an op kind: it converges, changes nothing the second time, and restores the tree byte for byte.
pub(crate) trait Cases: Converge + Into<Op> + 'static {
    const TESTED: Tested<Case<Self>>;
}

/// A host on which an act has not happened, or was interrupted.
pub(crate) struct ActCase<A> {
    pub(crate) name: &'static str,
    pub(crate) host: fn(&mut Host) -> A,
    /// The progress that is observed there.
    pub(crate) progress: Progress,
    /// The act that rolls it back, after which it has not begun.
    pub(crate) undo: Option<fn() -> Act>,
}

/// The cases of an act: its progress is observed, it is done afterwards, and its undo takes it back.
pub(crate) trait ActCases: Into<Op> + 'static {
    const TESTED: Tested<ActCase<Self>>;
}

/// A case of some kind.
struct AnyCase {
    name: &'static str,
    op: Box<dyn Fn(&mut Host) -> Op>,
}

/// A case of some act.
struct AnyActCase {
    case: AnyCase,
    progress: Progress,
    undo: Option<fn() -> Act>,
}

fn cases_of<K: Cases>(kind: &str) -> Vec<AnyCase> {
    let any = |&(name, arrange): &Case<K>| AnyCase { name, op: Box::new(move |host| arrange(host).into()) };
    match K::TESTED {
        Tested::Here(cases) => cases.iter().map(any).collect(),
        Tested::In(file) => is_named_in(file, kind),
    }
}

fn cases_of_act<A: ActCases>(kind: &str) -> Vec<AnyActCase> {
    let any = |act: &'static ActCase<A>| {
        let case = AnyCase { name: act.name, op: Box::new(|host| (act.host)(host).into()) };
        AnyActCase { case, progress: act.progress, undo: act.undo }
    };
    match A::TESTED {
        Tested::Here(cases) => cases.iter().map(any).collect(),
        Tested::In(file) => is_named_in(file, kind),
    }
}

/// Nothing, if that file has the kind.
fn is_named_in<T>(file: &str, kind: &str) -> Vec<T> {
    let path = format!("{}/tests/it/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{kind}: {path}: {error}"));
    let has = text.split(|c: char| !c.is_alphanumeric()).any(|word| word == kind);
    assert!(has, "{kind} is not in {path}, where it should be tested");
    Vec::new()
}

macro_rules! all_cases {
    ([] $($kind:ident)*) => {
        fn all_cases() -> Vec<AnyCase> {
            let kinds = [$(cases_of::<op::$kind>(stringify!($kind))),*];
            kinds.into_iter().flatten().collect()
        }
    };
}
kubexm_plan::ops!([all_cases]);

macro_rules! all_act_cases {
    ([] $($kind:ident $(($wire:literal))?)*) => {
        fn all_act_cases() -> Vec<AnyActCase> {
            let kinds = [$(cases_of_act::<op::$kind>(stringify!($kind))),*];
            kinds.into_iter().flatten().collect()
        }
    };
}
kubexm_plan::acts!([all_act_cases]);

/// Those of the acts have a list of their own.
impl Cases for Act {
    const TESTED: Tested<Case<Self>> = Tested::Here(&[]);
}

fn progress(op: &Op, host: &Host) -> Progress {
    dispatch::observe(op, &host.machine).expect("a look").state::<Act>().expect("a progress")
}

#[test]
fn no_two_cases_have_one_name() {
    let ops = all_cases().into_iter().map(|case| case.name);
    let names: Vec<&str> = ops.chain(all_act_cases().into_iter().map(|case| case.case.name)).collect();
    assert!(names.len() > 50, "{names:?}");
    let different: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(different.len(), names.len(), "{names:#?}");
}

#[test]
fn every_op_converges_once_and_comes_back_byte_for_byte() {
    for AnyCase { name, op } in all_cases() {
        let mut host = Host::fresh();
        let op = op(&mut host);
        let machine = host.machine.clone();
        let before = host.tree();
        let found = dispatch::observe(&op, &machine).unwrap_or_else(|e| panic!("{name}: {}", e.full()));
        same(&before, &host.tree(), &format!("{name}: observe changed something"));

        dispatch::keep(&op, &machine).unwrap_or_else(|e| panic!("{name}: {}", e.full()));
        dispatch::converge(&op, &machine).unwrap_or_else(|e| panic!("{name}: {}", e.full()));
        let after = dispatch::observe(&op, &machine).expect("observe");
        assert!(after.satisfied, "{name}: not satisfied after converge: {}", after.raw());

        let traces = host.traces();
        assert!(dispatch::observe(&op, &machine).expect("observe").satisfied, "{name}");
        same(&traces, &host.traces(), &format!("{name}: looking again changed something"));
        dispatch::converge(&op, &machine).unwrap_or_else(|e| panic!("{name}, again: {}", e.full()));
        assert!(dispatch::observe(&op, &machine).expect("observe").satisfied, "{name}: twice is not once");

        for wave in Wave::ALL {
            dispatch::restore(&op, &machine, &found, wave).unwrap_or_else(|e| panic!("{name}, {wave:?}: {}", e.full()));
        }
        same(&before, &host.tree(), &format!("{name}: restore left a difference"));
        let back = dispatch::observe(&op, &machine).expect("observe");
        // What was pushed into a registry stays with its data, and nobody needs back that a unit without a file has failed.
        let stays = matches!(op, Op::HarborImages(_)) || name.ends_with("whose file is gone");
        assert_eq!(back.satisfied, stays || found.satisfied, "{name}: {}", back.raw());
    }
}

#[test]
fn every_op_can_be_restored_twice() {
    for AnyCase { name, op } in all_cases() {
        let mut host = Host::fresh();
        let op = op(&mut host);
        let before = host.tree();
        let found = dispatch::observe(&op, &host.machine).expect("observe");
        dispatch::keep(&op, &host.machine).expect("keep");
        dispatch::converge(&op, &host.machine).expect("converge");
        for wave in [Wave::Stop, Wave::Stop, Wave::Data, Wave::Data, Wave::Start, Wave::Start] {
            dispatch::restore(&op, &host.machine, &found, wave)
                .unwrap_or_else(|e| panic!("{name}, {wave:?}: {}", e.full()));
        }
        same(&before, &host.tree(), name);
    }
}

#[test]
fn every_act_is_done_once_and_taken_back_by_its_undo() {
    for AnyActCase { case: AnyCase { name, op }, progress: expected, undo } in all_act_cases() {
        let mut host = Host::fresh();
        let op = op(&mut host);
        assert_eq!(progress(&op, &host), expected, "{name}");
        dispatch::converge(&op, &host.machine).unwrap_or_else(|e| panic!("{name}: {}", e.full()));
        assert_eq!(progress(&op, &host), Progress::Done, "{name}");
        let traces = host.traces();
        assert_eq!(progress(&op, &host), Progress::Done, "{name}");
        same(&traces, &host.traces(), &format!("{name}: looking changed something"));

        let Some(undo) = undo.map(|undo| Op::from(undo())) else { continue };
        // Its own progress may be Done: a record of a node that is not there yet belongs to the undo of a lookup all the same.
        dispatch::converge(&undo, &host.machine).unwrap_or_else(|e| panic!("{name}, undone: {}", e.full()));
        assert_eq!(progress(&undo, &host), Progress::Done, "{name}, undone");
        assert_ne!(progress(&op, &host), Progress::Done, "{name}, undone");
    }
}
