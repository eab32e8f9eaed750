//! The state of a run and its steps, computed from the journal. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::{Plan, StepId, Wave};
use kubexm_spec::Digest;

use crate::journal::{Ended, Entry, Record, UndoEnd};
use crate::link::ObservedState;
pub use crate::transitions::{RunState, StepState};
use crate::transitions::{RunVerb, StepVerb, run_after, step_after};

/// The state of one step, from the journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepStory {
    /// In the current attempt.
    pub state: StepState,
    /// Number and before-state of its first change in this run, which an undo restores. A later, half-changed state
    /// never replaces them.
    pub before: Option<(u64, Vec<ObservedState>)>,
    /// The last error.
    pub error: Option<String>,
    /// Number of attempts when it failed.
    pub tries: u32,
    /// The failed step it waits for.
    pub blocked_on: Option<StepId>,
    /// Milliseconds of the last attempt that changed it, or failed; of the observation, if nothing had to be changed.
    pub duration_ms: Option<u64>,
    /// Rolled back up to this wave.
    pub wave: Option<Wave>,
    /// The wave in which its last rollback failed, and why.
    pub undo_error: Option<(Wave, String)>,
}

impl StepStory {
    /// Whether something that this run has changed, or may have changed, still exists.
    pub const fn changed(&self) -> bool {
        self.before.is_some() && !self.rolled_back()
    }

    /// Whether it was changed and then restored.
    pub const fn rolled_back(&self) -> bool {
        matches!(self.wave, Some(Wave::Start))
    }

    /// Prepares for a further attempt: the step is observed again. A step that was rolled back completely has no
    /// before-state any more; others keep the first one.
    fn prepare_for_attempt(&mut self) {
        if self.rolled_back() {
            self.before = None;
        }
        self.state = StepState::Waiting;
        self.blocked_on = None;
        self.wave = None;
        self.undo_error = None;
    }
}

/// An undo, of the run or of one host that was left out.
#[derive(Clone, Debug, PartialEq)]
pub struct UndoStory {
    pub why: String,
    /// The steps to roll back.
    pub steps: BTreeSet<StepId>,
    /// How it ended; none while it is running, or if the program crashed.
    pub end: Option<UndoEnd>,
}

/// The state of a run, from its journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    pub state: RunState,
    /// The plan's digest.
    pub plan: Option<Digest>,
    /// Program that started it.
    pub tool: String,
    /// The command that resumes it.
    pub resume: String,
    /// The command that rolls it back.
    pub rollback: String,
    /// Time of the first record.
    pub started: Option<String>,
    /// Time of the last record.
    pub last: Option<String>,
    /// Number of resumes.
    pub resumes: u32,
    /// Steps with records.
    pub steps: BTreeMap<StepId, StepStory>,
    /// The undo of the whole run, once it was started.
    pub undo: Option<UndoStory>,
    /// Hosts that were left out in this attempt, with their undo.
    pub left_out: BTreeMap<String, UndoStory>,
    /// Whether an attempt ended and its changes were kept (without some hosts, or after a failure), so that the cluster
    /// may be in use.
    pub stood: bool,
    /// Steps that were satisfied then.
    pub held: BTreeSet<StepId>,
    /// Number of the next change.
    pub next_sequence: u64,
    /// Number of records.
    pub records: usize,
}

/// A record that cannot follow the earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct IllegalTransition(pub String);

mod undo;

impl Replay {
    /// Processes a whole journal; an error has the line, from 1.
    pub fn of(entries: &[Entry]) -> Result<Self, (usize, IllegalTransition)> {
        let mut replay = Self { next_sequence: 1, ..Self::default() };
        for (index, entry) in entries.iter().enumerate() {
            replay.apply(entry).map_err(|e| (index + 1, e))?;
        }
        Ok(replay)
    }

    /// The state of a step.
    pub fn step(&self, id: &StepId) -> StepStory {
        self.steps.get(id).cloned().unwrap_or_default()
    }

    /// Why a host was left out: its first failed step in the order of the plan, and the error.
    pub(crate) fn first_failure_of(&self, plan: &Plan, domain: &str) -> String {
        let mut steps = plan.steps.iter().filter(|step| step.domain() == domain);
        let failed = steps.find_map(|step| {
            let story = self.steps.get(&step.id).filter(|story| story.state == StepState::Failed)?;
            Some(format!("{} failed: {}", step.id, story.error.as_deref().unwrap_or("no reason was given")))
        });
        failed.unwrap_or_else(|| format!("a step of {domain} failed"))
    }

    /// Processes one record, or refuses it and stays unchanged.
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
        let verb = RunVerb::of(record);
        run_after(self.state, verb)
            .ok_or_else(|| IllegalTransition(format!("a run that is {:?} cannot {verb:?}", self.state)))
    }

    fn apply_record(&mut self, record: &Record) -> Result<(), IllegalTransition> {
        match record {
            Record::RunStarted { plan, tool, resume, rollback } => {
                self.plan = Some(*plan);
                self.tool.clone_from(tool);
                self.resume.clone_from(resume);
                self.rollback.clone_from(rollback);
            }
            Record::Resumed { .. } => {
                if self.state == RunState::Failed {
                    self.stand();
                }
                self.resumes += 1;
                self.left_out.clear();
                self.steps.values_mut().for_each(StepStory::prepare_for_attempt);
            }
            Record::StepPrepared { step, sequence, before } => self.prepare(step, *sequence, before)?,
            Record::StepSatisfied { step, duration_ms } => {
                let story = self.step_to(step, StepVerb::Satisfy)?;
                // Of a step that this run has changed, the time is that of the change, not of the look that found it in place.
                let change = story.duration_ms.filter(|_| story.changed() && story.error.is_none());
                story.duration_ms = change.or(Some(*duration_ms));
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
            Record::UndoBegan { scope, why, steps } => self.begin_undo(scope, why, steps)?,
            Record::WaveDone { step, wave } => self.wave_done(step, *wave)?,
            Record::UndoFailed { step, wave, error, .. } => {
                self.in_undo(step)?;
                self.steps.entry(step.clone()).or_default().undo_error = Some((*wave, error.clone()));
            }
            Record::UndoEnded { scope, end } => self.end_undo(scope, end)?,
            Record::Interrupted => {}
            Record::RunEnded { outcome } => {
                self.may_end(*outcome)?;
                if *outcome == Ended::Partial {
                    self.stand();
                }
            }
        }
        Ok(())
    }

    /// Whether all steps of a host were satisfied when an attempt ended and its changes were kept.
    pub(crate) fn all_satisfied(&self, plan: &Plan, host: &str) -> bool {
        let mut own = plan.steps.iter().filter(|step| step.domain() == host).peekable();
        own.peek().is_some() && own.all(|step| self.held.contains(&step.id))
    }

    fn stand(&mut self) {
        let holds = |story: &StepStory| matches!(story.state, StepState::Satisfied | StepState::Done);
        self.stood = true;
        self.held.extend(self.steps.iter().filter(|(_, story)| holds(story)).map(|(id, _)| id.clone()));
    }

    fn prepare(&mut self, step: &StepId, sequence: u64, before: &[ObservedState]) -> Result<(), IllegalTransition> {
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
        let Some(to) = step_after(from, verb) else {
            return Err(IllegalTransition(format!("step {id}, which is {from:?}, cannot {verb:?}")));
        };
        let story = self.steps.entry(id.clone()).or_default();
        story.state = to;
        Ok(story)
    }

    fn may_end(&self, outcome: Ended) -> Result<(), IllegalTransition> {
        if outcome == Ended::Partial && self.left_out.is_empty() {
            return Err(IllegalTransition("the run cannot end Partial with no host left out".to_owned()));
        }
        let wrong = |story: &StepStory| match outcome {
            Ended::Succeeded => !matches!(story.state, StepState::Satisfied | StepState::Done),
            Ended::Failed | Ended::Partial => matches!(story.state, StepState::Prepared),
        };
        match self.steps.iter().find(|(_, story)| wrong(story)) {
            Some((id, story)) => {
                Err(IllegalTransition(format!("the run cannot end {outcome:?} while {id} is {:?}", story.state)))
            }
            None => Ok(()),
        }
    }
}
