//! The state of a run as data, computed from plan and journal, for `status`, `--json` and the report. Pure.

use kubexm_plan::{Op, Pipeline, Plan, Reset, Step, Undo};
use kubexm_spec::names;
use serde::Serialize;

use crate::journal::UndoEnd;
use crate::replay::{Replay, RunState, StepState, UndoStory};

/// The schema of [`Status`] as JSON. Before v2 the pipeline `add-node` was called `join`.
pub const SCHEMA: &str = "kubexm.io/run-status/v2";

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// Run id.
    pub run: String,
    pub pipeline: Pipeline,
    /// `metadata.name`.
    pub cluster: String,
    /// Its state. A crash also leaves `running`.
    pub state: RunState,
    /// RFC 3339; none before the first record.
    pub started: Option<String>,
    /// Time of the last record.
    pub last: Option<String>,
    /// Number of resumes.
    pub resumes: u32,
    /// Program that started it.
    pub tool: String,
    /// Number of steps in each state.
    pub counts: Counts,
    /// The undo of the whole run, once it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<UndoStatus>,
    /// Hosts that the current attempt has left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// In the order of the plan.
    pub steps: Vec<StepStatus>,
    /// The complete command that continues the run, forward or with its rollback, if it can be continued.
    pub go_on: Option<String>,
    /// The complete command that rolls the run back, if there is something to roll back.
    #[serde(rename = "takeBack")]
    pub roll_back: Option<String>,
}

/// The undo of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UndoStatus {
    pub why: String,
    /// Why it could not be completed, if it is stuck.
    pub stuck: Option<String>,
}

/// A host that the run has left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// Its name.
    pub host: String,
    /// The step that failed, and why.
    pub why: String,
    /// Whether everything that the run has changed for it was restored.
    #[serde(rename = "takenBack")]
    pub rolled_back: bool,
    /// Why not, if it was attempted: the host is left as it is.
    pub left_as_it_is: Option<String>,
}

/// Number of steps in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Satisfied without a change.
    pub satisfied: usize,
    /// Changed by this run.
    pub done: usize,
    /// Changed by this run and rolled back.
    pub undone: usize,
    /// Failed.
    pub failed: usize,
    /// Waiting for a failed one.
    pub blocked: usize,
    /// Not started, or started and not finished.
    pub open: usize,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepStatus {
    /// Its id.
    pub step: String,
    /// Host.
    pub host: String,
    /// Title, for people.
    pub title: String,
    /// In the current attempt; a step that an earlier attempt changed and that is still satisfied is `done`.
    pub state: StepState,
    /// Milliseconds of the last attempt that changed it, or failed; of the observation, if nothing had to be changed.
    pub duration_ms: Option<u64>,
    /// The error.
    pub error: Option<String>,
    /// Why it could not be rolled back.
    pub undo_error: Option<String>,
    /// Number of attempts when it failed.
    pub tries: u32,
    /// The failed step it waits for.
    pub blocked_on: Option<String>,
    /// What this run has changed or may have changed: `file /etc/hosts`.
    pub changes: Vec<String>,
    /// Why it cannot be rolled back, if it cannot.
    pub irreversible: Option<String>,
}

impl StepStatus {
    /// Whether it failed, even if it was rolled back since.
    pub fn failed(&self) -> bool {
        self.state == StepState::Failed || (self.state == StepState::Undone && self.error.is_some())
    }
}

/// Computes the state of a run.
pub fn of(run: &str, plan: &Plan, replay: &Replay) -> Status {
    let steps: Vec<StepStatus> = plan.steps.iter().map(|step| step_status(step, replay)).collect();
    let mut counts = Counts::default();
    for step in &steps {
        *match step.state {
            StepState::Satisfied => &mut counts.satisfied,
            StepState::Done => &mut counts.done,
            StepState::Undone => &mut counts.undone,
            StepState::Failed => &mut counts.failed,
            StepState::Blocked => &mut counts.blocked,
            StepState::Waiting | StepState::Prepared => &mut counts.open,
        } += 1;
    }
    let command = |verb: &str, given: &str| match given {
        "" => format!("{} {verb} {run}", names::INSTALLER),
        given => given.to_owned(),
    };
    let state = replay.state;
    let back = || command("rollback", &replay.rollback);
    let go_on = match () {
        () if state.goes_forward() => Some(command("resume", &replay.resume)),
        () if state.goes_back() => Some(back()),
        () => None,
    };
    Status {
        schema: SCHEMA,
        run: run.to_owned(),
        pipeline: plan.pipeline,
        cluster: plan.cluster_name.clone(),
        state,
        started: replay.started.clone(),
        last: replay.last.clone(),
        resumes: replay.resumes,
        tool: replay.tool.clone(),
        counts,
        undo: replay.undo.as_ref().map(|undo| UndoStatus { why: undo.why.clone(), stuck: stuck(undo) }),
        left_out: replay.left_out.iter().map(left_out).collect(),
        steps,
        go_on,
        roll_back: state.can_be_rolled_back().then(back),
    }
}

fn stuck(undo: &UndoStory) -> Option<String> {
    match &undo.end {
        Some(UndoEnd::Stuck { why }) => Some(why.clone()),
        Some(UndoEnd::RolledBack) | None => None,
    }
}

fn left_out((host, undo): (&String, &UndoStory)) -> LeftOut {
    LeftOut {
        host: host.clone(),
        why: undo.why.clone(),
        rolled_back: undo.end == Some(UndoEnd::RolledBack),
        left_as_it_is: stuck(undo),
    }
}

fn step_status(step: &Step, replay: &Replay) -> StepStatus {
    let story = replay.step(&step.id);
    let state = match story.state {
        StepState::Satisfied if story.changed() => StepState::Done,
        other => other,
    };
    let unsatisfied = |before: &(u64, Vec<crate::link::ObservedState>)| {
        let pairs = step.ops.iter().zip(&before.1);
        pairs.filter(|(_, found)| !found.satisfied).map(|(op, _)| describe(op)).collect()
    };
    StepStatus {
        step: step.id.to_string(),
        host: step.host.clone(),
        title: step.title.clone(),
        state,
        duration_ms: story.duration_ms,
        error: story.error.clone(),
        undo_error: story.undo_error.as_ref().map(|(_, error)| error.clone()),
        tries: story.tries,
        blocked_on: story.blocked_on.as_ref().map(ToString::to_string),
        changes: story.before.as_ref().map(unsatisfied).unwrap_or_default(),
        irreversible: match &step.undo {
            Undo::Irreversible { why } => Some(why.clone()),
            _ => None,
        },
    }
}

/// An op in a few words: its kind and subject.
pub fn describe(op: &Op) -> String {
    // No field names a part of a reset.
    match op {
        Op::Reset(Reset::Reverted { ops, .. }) => {
            let ops: Vec<String> = ops.iter().map(describe).collect();
            return format!("as found before: {}", ops.join(", "));
        }
        Op::Reset(reset) => return reset.to_string(),
        _ => {}
    }
    let Ok(value) = serde_json::to_value(op) else { return "an op".to_owned() };
    let field = |name: &str| value.get(name).and_then(serde_json::Value::as_str);
    let kind = field("act").or_else(|| field("op")).unwrap_or("op");
    match ["path", "name", "reference", "key", "user", "cluster", "ownName"].into_iter().find_map(field) {
        Some(subject) => format!("{kind} {subject}"),
        None => kind.to_owned(),
    }
}
