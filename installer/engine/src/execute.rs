//! Carries a plan out. All choices are the plan's; all memory is the journal.
//!
//! Everything runs on the caller's task: dropping the future is what a crash of the program is, and the tests use
//! it so.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kubexm_plan::CheckedPlan;
use kubexm_spec::event::{EventKind, StepOutcome};

use crate::events::EventSink;
use crate::failure_domain::Judged;
use crate::journal::{Ended, Record, Scope};
use crate::link::BlobSource;
pub use crate::options::{Drill, ExecuteOptions, Hook, OnFailure, Outcome};
use crate::replay::RunState;
pub use crate::run_context::Links;
use crate::run_context::RunContext;
use crate::schedule::Schedule;
use crate::slots::{SlotSource, Slots};
use crate::step_runner::{StepEnd, StepRunner};
use crate::survey_cache::SurveyCache;
use crate::undo::UndoResult;
use crate::{EngineError, Run};

/// Carries a plan out, from the start or from where the run's journal ends, in the direction that it went.
///
/// Whatever an earlier attempt did, every step is looked at again before it is trusted; the before-state of a
/// step's first change stays the one an undo will restore. A run that has succeeded is left alone; one that was being
/// rolled back continues being rolled back; one that has been rolled back is refused. One that stood (it ended without some
/// hosts, or was kept) is not rolled back by itself any more, whatever the options say: people use the cluster.
pub async fn execute(
    plan: &CheckedPlan,
    links: &Links,
    run: &mut Run,
    slots: &dyn SlotSource,
    blobs: &dyn BlobSource,
    events: &dyn EventSink,
    mut options: ExecuteOptions,
) -> Result<Outcome, EngineError> {
    let plan = plan.plan();
    let (state, id) = (run.replay().state, run.id().to_string());
    if run.replay().stood || state == RunState::Failed {
        options.on_failure = OnFailure::Keep;
    }
    let attempt = RunContext::new(plan, links, run, events, &options)?;
    let outcome = match state {
        RunState::Succeeded => return Ok(Outcome::Succeeded),
        RunState::RolledBack => return Err(EngineError::RolledBack { run: id }),
        state if state.goes_back() => attempt.roll_back("it was started before").await?,
        _ => {
            let (slots, seen) = (Slots::new(plan, links, slots), SurveyCache::nothing());
            forward(StepRunner { attempt: &attempt, slots, blobs, seen }).await?
        }
    };
    attempt.lock().write_report(plan)?;
    Ok(outcome)
}

/// Rolls back whatever a run has changed and is still there; continues with a rollback that was interrupted or is
/// stuck.
///
/// What other runs have changed since is not known to this one: roll back the last run of a cluster first.
pub async fn roll_back(
    plan: &CheckedPlan,
    links: &Links,
    run: &mut Run,
    events: &dyn EventSink,
    options: ExecuteOptions,
) -> Result<Outcome, EngineError> {
    let plan = plan.plan();
    let state = run.replay().state;
    match state {
        RunState::RolledBack => return Ok(Outcome::RolledBack),
        RunState::New => return Err(EngineError::NotBegun { run: run.id().to_string() }),
        _ => {}
    }
    let attempt = RunContext::new(plan, links, run, events, &options)?;
    let outcome = attempt.roll_back("the operator asked for it").await?;
    attempt.lock().write_report(plan)?;
    Ok(outcome)
}

/// Something that continues while a plan is executed.
enum Job<'p> {
    Step(usize),
    /// A host that was left out is rolled back.
    Host(&'p str),
}

enum Done<'p> {
    Step(usize, StepEnd),
    Host(&'p str, UndoResult),
}

async fn forward(mut carrier: StepRunner<'_, '_>) -> Result<Outcome, EngineError> {
    let attempt = carrier.attempt;
    attempt.emit(EventKind::Phase { name: "run".to_owned() });
    begin(attempt)?;
    carrier.seen = SurveyCache::look(attempt, &carrier.slots).await?;
    let carrier = &carrier;
    let mut schedule = Schedule::of(attempt.plan, attempt.options.max_failed_hosts)?;
    let first = carrier.run_steps(&mut schedule).await?;
    let outcome = end(attempt, &schedule)?;
    if outcome == Outcome::Succeeded {
        carrier.seen.remember(attempt).await;
    }
    if outcome != Outcome::Failed {
        return Ok(outcome);
    }
    for host in schedule.failed_hosts() {
        attempt.collect_evidence(host).await;
    }
    match attempt.options.on_failure {
        OnFailure::Keep => Ok(outcome),
        OnFailure::Rollback => {
            let why = first.map(|index| format!("{} failed", attempt.plan.steps[index].id));
            attempt.roll_back(&why.unwrap_or_else(|| "a step failed".to_owned())).await
        }
    }
}

fn begin(attempt: &RunContext<'_>) -> Result<(), EngineError> {
    let (state, plan) = {
        let run = attempt.lock();
        (run.replay().state, run.plan_digest())
    };
    let options = attempt.options;
    let tool = options.tool.clone();
    attempt.record(match state {
        RunState::New => Record::RunStarted {
            plan,
            tool,
            resume: options.resume_command.clone(),
            rollback: options.rollback_command.clone(),
        },
        _ => Record::Resumed { tool },
    })
}

fn end(attempt: &RunContext<'_>, schedule: &Schedule<'_>) -> Result<Outcome, EngineError> {
    let (record, outcome) = if schedule.all_hold() {
        (Record::RunEnded { outcome: Ended::Succeeded }, Outcome::Succeeded)
    } else if schedule.others_hold() {
        (Record::RunEnded { outcome: Ended::Partial }, Outcome::Partial)
    } else if attempt.options.cancel.is_cancelled() {
        (Record::Interrupted, Outcome::Interrupted)
    } else {
        (Record::RunEnded { outcome: Ended::Failed }, Outcome::Failed)
    };
    attempt.record(record)?;
    Ok(outcome)
}

impl<'p> StepRunner<'_, 'p> {
    /// Runs what may run until nothing is left. Returns the step whose failure failed the run, when there is one.
    async fn run_steps(&self, schedule: &mut Schedule<'p>) -> Result<Option<usize>, EngineError> {
        let options = self.attempt.options;
        let mut fatal = None;
        let mut running = FuturesUnordered::new();
        loop {
            // What will be rolled back anyway is not begun.
            let goes_on =
                || !options.cancel.is_cancelled() && (fatal.is_none() || options.on_failure == OnFailure::Keep);
            while goes_on()
                && let Some(host) = schedule.take_drained()
            {
                running.push(self.work(Job::Host(host)));
            }
            while goes_on()
                && let Some(index) = schedule.take()
            {
                running.push(self.work(Job::Step(index)));
            }
            let Some(done) = running.next().await else { return Ok(fatal) };
            match done? {
                Done::Step(index, StepEnd::Holds) => schedule.holds(index),
                Done::Step(index, StepEnd::Interrupted) => schedule.gave_up(index),
                Done::Step(index, StepEnd::Failed) => {
                    let (judged, blocked) = schedule.failed(index);
                    self.block(blocked, index)?;
                    if judged == Judged::Fatal {
                        fatal.get_or_insert(index);
                    }
                }
                Done::Host(_, UndoResult::Interrupted) => {}
                Done::Host(host, UndoResult::RolledBack | UndoResult::Stuck) => schedule.settled(host),
            }
        }
    }

    async fn work(&self, job: Job<'p>) -> Result<Done<'p>, EngineError> {
        match job {
            Job::Step(index) => Ok(Done::Step(index, self.carry(&self.attempt.plan.steps[index]).await?)),
            Job::Host(host) => {
                let _changing = self.seen.changing();
                self.attempt.collect_evidence(host).await;
                let why = self.attempt.lock().replay().first_failure_of(self.attempt.plan, host);
                let scope = Scope::Host { host: host.to_owned() };
                // All of it was there when an earlier attempt ended: people use its node.
                let in_use = self.attempt.lock().replay().held_whole(self.attempt.plan, host);
                Ok(Done::Host(
                    host,
                    match in_use {
                        true => self.attempt.leave(scope, &why)?,
                        false => self.attempt.undo(scope, &why).await?,
                    },
                ))
            }
        }
    }

    fn block(&self, blocked: Vec<usize>, on: usize) -> Result<(), EngineError> {
        let on = &self.attempt.plan.steps[on].id;
        for index in blocked {
            let step = &self.attempt.plan.steps[index];
            self.attempt.record(Record::StepBlocked { step: step.id.clone(), on: on.clone() })?;
            self.attempt.emit_end(step, StepOutcome::Blocked, 0, Some(format!("{on} failed")));
        }
        Ok(())
    }
}
