//! The fold of a journal: where a run and each of its steps stand. Pure.
//!
//! The two tables below are the whole law of what may follow what; anything else is an error.

use std::collections::BTreeMap;

use kubexm_plan::StepId;
use kubexm_spec::Digest;
use serde::Serialize;

use crate::journal::{Ended, Entry, Record};
use crate::link::Found;

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RunState {
    /// Nothing was written yet.
    #[default]
    New,
    /// An attempt is going on, or died.
    Running,
    /// The operator interrupted it.
    Interrupted,
    /// A step failed.
    Failed,
    /// Every step holds.
    Succeeded,
}

/// Where a step stands in the current attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepState {
    /// Not looked at in this attempt.
    #[default]
    Waiting,
    /// Its before-state is written down; it may be half changed.
    Prepared,
    /// Held without a change in this attempt.
    Satisfied,
    /// Changed and seen to hold.
    Done,
    /// Failed after its tries.
    Failed,
    /// A step it needs failed.
    Blocked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunVerb {
    Start,
    Resume,
    Step,
    Interrupt,
    Succeed,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepVerb {
    Prepare,
    Satisfy,
    Finish,
    Fail,
    Block,
}

const RUN_TABLE: [(RunState, RunVerb, RunState); 8] = [
    (RunState::New, RunVerb::Start, RunState::Running),
    (RunState::Running, RunVerb::Step, RunState::Running),
    (RunState::Running, RunVerb::Interrupt, RunState::Interrupted),
    (RunState::Running, RunVerb::Succeed, RunState::Succeeded),
    (RunState::Running, RunVerb::Fail, RunState::Failed),
    // A crash leaves `Running` behind.
    (RunState::Running, RunVerb::Resume, RunState::Running),
    (RunState::Interrupted, RunVerb::Resume, RunState::Running),
    (RunState::Failed, RunVerb::Resume, RunState::Running),
];

const STEP_TABLE: [(StepState, StepVerb, StepState); 6] = [
    (StepState::Waiting, StepVerb::Satisfy, StepState::Satisfied),
    (StepState::Waiting, StepVerb::Prepare, StepState::Prepared),
    (StepState::Waiting, StepVerb::Fail, StepState::Failed),
    (StepState::Waiting, StepVerb::Block, StepState::Blocked),
    (StepState::Prepared, StepVerb::Finish, StepState::Done),
    (StepState::Prepared, StepVerb::Fail, StepState::Failed),
];

/// What the journal says of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepStory {
    /// In the current attempt.
    pub state: StepState,
    /// Number and before-state of its first change in this run. A later, half-changed state never replaces them:
    /// they are what an undo brings back.
    pub before: Option<(u64, Vec<Found>)>,
    /// What went wrong last.
    pub error: Option<String>,
    /// How often it was tried when it failed.
    pub tries: u32,
    /// The failed step it waits for.
    pub blocked_on: Option<StepId>,
    /// Milliseconds of the last attempt at it.
    pub duration_ms: Option<u64>,
}

impl StepStory {
    /// Whether this run has changed something here, or may have.
    pub const fn changed(&self) -> bool {
        self.before.is_some()
    }
}

/// A run as its journal tells it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// Where it stands.
    pub state: RunState,
    /// Plan it carries out.
    pub plan: Option<Digest>,
    /// Program that started it.
    pub tool: String,
    /// Command that goes on.
    pub resume: String,
    /// Time of the first record.
    pub started: Option<String>,
    /// Time of the last record.
    pub last: Option<String>,
    /// How often it was resumed.
    pub resumes: u32,
    /// Steps that were touched.
    pub steps: BTreeMap<StepId, StepStory>,
    /// Number of the next change.
    pub next_sequence: u64,
    /// Records so far.
    pub records: usize,
}

/// A record that cannot follow what was before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct IllegalTransition(pub String);

impl Replay {
    /// Folds a whole journal; the error comes with the line, from 1.
    pub fn of(entries: &[Entry]) -> Result<Self, (usize, IllegalTransition)> {
        let mut replay = Self { next_sequence: 1, ..Self::default() };
        for (index, entry) in entries.iter().enumerate() {
            replay.apply(entry).map_err(|e| (index + 1, e))?;
        }
        Ok(replay)
    }

    /// Where a step stands.
    pub fn step(&self, id: &StepId) -> StepStory {
        self.steps.get(id).cloned().unwrap_or_default()
    }

    /// Takes one record, or refuses it and stays as it was.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), IllegalTransition> {
        let next = self.next_run_state(&entry.record)?;
        self.apply_record(&entry.record)?;
        self.state = next;
        self.records += 1;
        self.started.get_or_insert_with(|| entry.time.clone());
        self.last = Some(entry.time.clone());
        Ok(())
    }

    fn next_run_state(&self, record: &Record) -> Result<RunState, IllegalTransition> {
        let verb = match record {
            Record::RunStarted { .. } => RunVerb::Start,
            Record::Resumed { .. } => RunVerb::Resume,
            Record::Interrupted => RunVerb::Interrupt,
            Record::RunEnded { outcome: Ended::Succeeded } => RunVerb::Succeed,
            Record::RunEnded { outcome: Ended::Failed } => RunVerb::Fail,
            Record::StepPrepared { .. }
            | Record::StepSatisfied { .. }
            | Record::StepDone { .. }
            | Record::StepFailed { .. }
            | Record::StepBlocked { .. } => RunVerb::Step,
        };
        let next = RUN_TABLE.iter().find(|(from, v, _)| *from == self.state && *v == verb).map(|(.., to)| *to);
        next.ok_or_else(|| IllegalTransition(format!("a run that is {:?} cannot {verb:?}", self.state)))
    }

    fn apply_record(&mut self, record: &Record) -> Result<(), IllegalTransition> {
        match record {
            Record::RunStarted { plan, tool, resume } => {
                self.plan = Some(*plan);
                self.tool.clone_from(tool);
                self.resume.clone_from(resume);
            }
            Record::Resumed { .. } => {
                self.resumes += 1;
                for story in self.steps.values_mut() {
                    story.state = StepState::Waiting;
                    story.blocked_on = None;
                }
            }
            Record::StepPrepared { step, sequence, before } => self.prepare(step, *sequence, before)?,
            Record::StepSatisfied { step, duration_ms } => {
                let story = self.step_to(step, StepVerb::Satisfy)?;
                story.duration_ms = Some(*duration_ms);
                story.error = None;
            }
            Record::StepDone { step, duration_ms } => {
                let story = self.step_to(step, StepVerb::Finish)?;
                story.duration_ms = Some(*duration_ms);
                story.error = None;
            }
            Record::StepFailed { step, error, tries, duration_ms } => {
                let story = self.step_to(step, StepVerb::Fail)?;
                story.duration_ms = Some(*duration_ms);
                story.error = Some(error.clone());
                story.tries = *tries;
            }
            Record::StepBlocked { step, on } => {
                let failed = self.step(on).state;
                if failed != StepState::Failed {
                    return Err(IllegalTransition(format!("{step} cannot be blocked on {on}, which is {failed:?}")));
                }
                self.step_to(step, StepVerb::Block)?.blocked_on = Some(on.clone());
            }
            Record::Interrupted => {}
            Record::RunEnded { outcome } => self.may_end(*outcome)?,
        }
        Ok(())
    }

    fn prepare(&mut self, step: &StepId, sequence: u64, before: &[Found]) -> Result<(), IllegalTransition> {
        let expected = self.step(step).before.map_or(self.next_sequence, |(first, _)| first);
        if sequence != expected {
            return Err(IllegalTransition(format!("{step} is prepared as change {sequence}, not {expected}")));
        }
        let story = self.step_to(step, StepVerb::Prepare)?;
        if story.before.is_none() {
            story.before = Some((sequence, before.to_vec()));
            self.next_sequence += 1;
        }
        Ok(())
    }

    fn step_to(&mut self, id: &StepId, verb: StepVerb) -> Result<&mut StepStory, IllegalTransition> {
        let from = self.step(id).state;
        let Some((.., to)) = STEP_TABLE.iter().find(|(f, v, _)| *f == from && *v == verb) else {
            return Err(IllegalTransition(format!("step {id}, which is {from:?}, cannot {verb:?}")));
        };
        let story = self.steps.entry(id.clone()).or_default();
        story.state = *to;
        Ok(story)
    }

    fn may_end(&self, outcome: Ended) -> Result<(), IllegalTransition> {
        let wrong = |story: &StepStory| match outcome {
            Ended::Succeeded => !matches!(story.state, StepState::Satisfied | StepState::Done),
            Ended::Failed => matches!(story.state, StepState::Prepared),
        };
        match self.steps.iter().find(|(_, story)| wrong(story)) {
            Some((id, story)) => {
                Err(IllegalTransition(format!("the run cannot end {outcome:?} while {id} is {:?}", story.state)))
            }
            None => Ok(()),
        }
    }
}
