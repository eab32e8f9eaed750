//! Where a run stands, as data: a pure fold of plan and journal, for `status`, `--json` and the report.

use kubexm_plan::{Op, Plan, Step, Undo};
use kubexm_spec::names;
use serde::Serialize;

use crate::replay::{Replay, RunState, StepState};

/// The schema of [`Status`] as JSON.
pub const SCHEMA: &str = "kubexm.io/run-status/v1";

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// Run id.
    pub run: String,
    /// `create`.
    pub pipeline: String,
    /// `metadata.name`.
    pub cluster: String,
    /// Where it stands. `running` is also what a crash leaves behind.
    pub state: RunState,
    /// RFC 3339, none before the first record.
    pub started: Option<String>,
    /// Time of the last record.
    pub last: Option<String>,
    /// How often it was resumed.
    pub resumes: u32,
    /// Program that started it.
    pub tool: String,
    /// How many steps stand where.
    pub counts: Counts,
    /// In the order of the plan.
    pub steps: Vec<StepStatus>,
    /// The exact command that goes on, when there is something to go on with.
    pub go_on: Option<String>,
}

/// How many steps stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Held already.
    pub satisfied: usize,
    /// Changed by this run.
    pub done: usize,
    /// Failed.
    pub failed: usize,
    /// Wait for a failed one.
    pub blocked: usize,
    /// Not begun, or begun and not ended.
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
    /// For people.
    pub title: String,
    /// In the current attempt; a step that an earlier attempt of the run changed and that held is `done`.
    pub state: StepState,
    /// Milliseconds of the last attempt at it.
    pub duration_ms: Option<u64>,
    /// What went wrong.
    pub error: Option<String>,
    /// How often it was tried when it failed.
    pub tries: u32,
    /// The failed step it waits for.
    pub blocked_on: Option<String>,
    /// What this run changed or may have changed: `file /etc/hosts`.
    pub changes: Vec<String>,
    /// Why it cannot be taken back, when that is so.
    pub irreversible: Option<String>,
}

/// Folds a run.
pub fn of(run: &str, plan: &Plan, replay: &Replay) -> Status {
    let steps: Vec<StepStatus> = plan.steps.iter().map(|step| step_status(step, replay)).collect();
    let mut counts = Counts::default();
    for step in &steps {
        *match step.state {
            StepState::Satisfied => &mut counts.satisfied,
            StepState::Done => &mut counts.done,
            StepState::Failed => &mut counts.failed,
            StepState::Blocked => &mut counts.blocked,
            StepState::Waiting | StepState::Prepared => &mut counts.open,
        } += 1;
    }
    let command = || match replay.resume.as_str() {
        "" => format!("{} resume {run}", names::INSTALLER),
        given => given.to_owned(),
    };
    Status {
        schema: SCHEMA,
        run: run.to_owned(),
        pipeline: plan.pipeline.clone(),
        cluster: plan.cluster_name.clone(),
        state: replay.state,
        started: replay.started.clone(),
        last: replay.last.clone(),
        resumes: replay.resumes,
        tool: replay.tool.clone(),
        counts,
        steps,
        go_on: (replay.state != RunState::Succeeded).then(command),
    }
}

fn step_status(step: &Step, replay: &Replay) -> StepStatus {
    let story = replay.step(&step.id);
    let state = match story.state {
        StepState::Satisfied if story.changed() => StepState::Done,
        other => other,
    };
    let unsatisfied = |before: &(u64, Vec<crate::link::Found>)| {
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
        tries: story.tries,
        blocked_on: story.blocked_on.as_ref().map(ToString::to_string),
        changes: story.before.as_ref().map(unsatisfied).unwrap_or_default(),
        irreversible: match &step.undo {
            Undo::Irreversible { why } => Some(why.clone()),
            _ => None,
        },
    }
}

/// An op in a few words: its kind and what it is about.
pub fn describe(op: &Op) -> String {
    let Ok(value) = serde_json::to_value(op) else { return "an op".to_owned() };
    let field = |name: &str| value.get(name).and_then(serde_json::Value::as_str);
    let kind = field("act").or_else(|| field("op")).unwrap_or("op");
    match ["path", "name", "reference", "key", "user", "cluster", "ownName"].into_iter().find_map(field) {
        Some(subject) => format!("{kind} {subject}"),
        None => kind.to_owned(),
    }
}
