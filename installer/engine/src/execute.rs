//! Executes a plan. The plan contains all choices, and the journal the whole state.
//!
//! Everything runs on the caller's task: dropping the future has the same effect as a crash of the program, which the
//! tests use.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kubexm_plan::CheckedPlan;
use kubexm_spec::event::{EventKind, StepOutcome};

use crate::events::EventSink;
use crate::failure_domain::Judged;
use crate::journal::{Ended, Record, Scope};
use crate::link::BlobSource;
pub use crate::options::{Drill, ExecuteOptions, Hook, OnFailure, Outcome};
use crate::reach::{Cause, Watch, lost_hosts};
use crate::replay::RunState;
pub use crate::run_context::Links;
use crate::run_context::RunContext;
use crate::schedule::Schedule;
use crate::slots::{SlotSource, Slots};
use crate::spread::Spread;
use crate::step_runner::{StepEnd, StepRunner};
use crate::survey_cache::SurveyCache;
use crate::undo::UndoResult;
use crate::{EngineError, Run};

/// Executes a plan, from the start or from the end of the run's journal, in the direction of the run.
///
/// Every step is observed again, whatever an earlier attempt did; an undo always restores the state before a step's
/// first change in the run. A run that has succeeded is left alone; a rollback that was interrupted is continued; a run
/// that was rolled back is refused. A run that failed since hosts are out of reach is kept, and [`Run::lost`] names
/// them. A run that ended without some hosts, or was kept after a failure, is no longer
/// rolled back automatically, whatever the options say: its cluster is in use.
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
            let spread = Spread::of(plan, links, options.fan_out);
            forward(StepRunner { attempt: &attempt, slots, blobs, seen, spread }).await?
        }
    };
    attempt.lock().write_report(plan)?;
    Ok(outcome)
}

/// Rolls back what a run has changed, or continues a rollback that was interrupted or is stuck.
///
/// Changes of later runs are not known to this one: roll back the last run of a cluster first.
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

/// A task during the execution of a plan.
enum Job<'p> {
    Step(usize),
    /// The rollback of a host that was left out.
    Host(&'p str),
}

enum Done<'p> {
    Step(usize, StepEnd),
    Host(&'p str, UndoResult),
}

/// The failure that failed a run.
#[derive(Clone, Copy)]
struct Fatal {
    /// Its position in the plan.
    step: usize,
    cause: Cause,
}

async fn forward(mut carrier: StepRunner<'_, '_>) -> Result<Outcome, EngineError> {
    let attempt = carrier.attempt;
    attempt.emit(EventKind::Phase { name: "run".to_owned() });
    begin(attempt)?;
    carrier.seen = SurveyCache::look(attempt, &carrier.slots).await?;
    let carrier = &carrier;
    let mut schedule = Schedule::of(attempt.plan, attempt.options.max_failed_hosts)?;
    let first = carrier.run_steps(&mut schedule).await?;
    if let Some(text) = carrier.spread.brought().summary() {
        attempt.emit(EventKind::Note { text });
    }
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
        OnFailure::Rollback if first.is_some_and(|failed| failed.cause == Cause::Unreachable) => {
            if let Some(failed) = first {
                attempt.lock().set_lost(lost_hosts(attempt.links, &attempt.plan.steps[failed.step]));
            }
            let text = format!(
                "the run failed since a host is out of reach, and what was done on the others is sound. To keep that and go on \
                 when the host answers: `{}`; to roll the others back without it: `{} --unreachable skip`",
                attempt.options.resume_command, attempt.options.rollback_command
            );
            attempt.emit(EventKind::Warning { text });
            Ok(outcome)
        }
        OnFailure::Rollback => {
            let why = first.map(|failed| format!("{} failed", attempt.plan.steps[failed.step].id));
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
    /// Runs steps until none can run. Returns the failure that failed the run, if any.
    async fn run_steps(&self, schedule: &mut Schedule<'p>) -> Result<Option<Fatal>, EngineError> {
        let options = self.attempt.options;
        let mut fatal: Option<Fatal> = None;
        let mut running = FuturesUnordered::new();
        let mut watch = Watch::new();
        loop {
            // No step is started that will be rolled back anyway.
            let continues =
                || !options.cancel.is_cancelled() && (fatal.is_none() || options.on_failure == OnFailure::Keep);
            while continues()
                && let Some(host) = schedule.take_drained()
            {
                running.push(self.work(Job::Host(host)));
            }
            while continues()
                && let Some(index) = schedule.take()
            {
                running.push(self.work(Job::Step(index)));
            }
            let done = tokio::select! {
                biased;
                never = watch.report(self.attempt) => match never {},
                done = running.next() => done,
            };
            let Some(done) = done else { return Ok(fatal) };
            match done? {
                Done::Step(index, StepEnd::Holds) => schedule.holds(index),
                Done::Step(index, StepEnd::Interrupted) => schedule.gave_up(index),
                Done::Step(index, StepEnd::Failed(cause)) => {
                    let (judged, blocked) = schedule.failed(index);
                    self.block(blocked, index)?;
                    // The first that says something about what was done on hosts, if there is one: only where every host
                    // that failed is out of reach, what was done on the others is known to be sound.
                    if judged == Judged::Fatal
                        && fatal.is_none_or(|earlier: Fatal| {
                            earlier.cause == Cause::Unreachable && cause != Cause::Unreachable
                        })
                    {
                        fatal = Some(Fatal { step: index, cause });
                    }
                }
                Done::Host(_, UndoResult::Interrupted) => {}
                Done::Host(host, UndoResult::RolledBack | UndoResult::Stuck) => schedule.rolled_back(host),
            }
        }
    }

    async fn work(&self, job: Job<'p>) -> Result<Done<'p>, EngineError> {
        match job {
            Job::Step(index) => Ok(Done::Step(index, self.carry(&self.attempt.plan.steps[index]).await?)),
            Job::Host(host) => {
                let _changing = self.seen.changing_host();
                self.attempt.collect_evidence(host).await;
                let why = self.attempt.lock().replay().first_failure_of(self.attempt.plan, host);
                let scope = Scope::Host { host: host.to_owned() };
                // All steps of the host were satisfied when an earlier attempt ended, so its node is in use.
                let in_use = self.attempt.lock().replay().all_satisfied(self.attempt.plan, host);
                Ok(Done::Host(
                    host,
                    match in_use {
                        true => self.attempt.leave(scope, &why)?,
                        false => {
                            self.spread.forget(host).await;
                            self.attempt.undo(scope, &why).await?
                        }
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
