//! Carries a plan out. All choices are the plan's; all memory is the journal.
//!
//! Everything runs on the caller's task: dropping the future is what a crash of the program is, and the tests use
//! it so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kubexm_plan::{CheckedPlan, Plan};
use kubexm_spec::ExitCode;
use kubexm_spec::event::{EventKind, StepOutcome};
use tokio_util::sync::CancellationToken;

use crate::carry::StepEnd;
use crate::events::{EventSink, event};
use crate::journal::{Ended, Record};
use crate::link::{BlobSource, Link};
use crate::replay::RunState;
use crate::schedule::Schedule;
use crate::slots::SlotSource;
use crate::{EngineError, Run};

/// How long evidence of one host may take.
const EVIDENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// The links to the hosts, by host name.
pub type Links = BTreeMap<String, Arc<dyn Link>>;

/// Where tests stop a run as a crash would: before or after a journal record reaches the disk.
pub trait Hook: Send + Sync {
    /// Before the `nth` record of the journal (from 1) is written; `false` ends the run there.
    fn before_record(&self, nth: usize, record: &Record) -> bool;
    /// After it was written.
    fn after_record(&self, nth: usize, record: &Record) -> bool;
}

/// What happens when a step failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Everything stays as it is, for `resume`.
    #[default]
    Keep,
    /// The run is taken back. Known, not built yet.
    Rollback,
}

/// How a plan is carried out, beside what the plan says itself.
#[derive(Clone)]
pub struct ExecuteOptions {
    /// Program and version, for the journal.
    pub tool: String,
    /// The exact command that goes on with this run, for report and status.
    pub resume_command: String,
    /// When a step failed.
    pub on_failure: OnFailure,
    /// Cancelled by Ctrl-C: the op that runs is finished, nothing new begins.
    pub cancel: CancellationToken,
    /// Time between two looks of a probe.
    pub poll: Duration,
    /// Pause before the second try of a step; doubled for each further one, up to a minute.
    pub backoff: Duration,
    /// For tests.
    pub hook: Option<Arc<dyn Hook>>,
}

impl ExecuteOptions {
    /// The usual ones: probes every second, two seconds before the second try.
    pub fn new(tool: impl Into<String>, resume_command: impl Into<String>) -> Self {
        Self {
            tool: tool.into(),
            resume_command: resume_command.into(),
            on_failure: OnFailure::Keep,
            cancel: CancellationToken::new(),
            poll: Duration::from_secs(1),
            backoff: Duration::from_secs(2),
            hook: None,
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every step holds.
    Succeeded,
    /// A step failed; the report tells which, and how to go on.
    Failed,
    /// The operator interrupted; `resume` goes on.
    Interrupted,
}

impl Outcome {
    /// The exit code of the program.
    pub const fn exit_code(self) -> ExitCode {
        match self {
            Self::Succeeded => ExitCode::Ok,
            Self::Failed => ExitCode::RunFailed,
            Self::Interrupted => ExitCode::Declined,
        }
    }
}

/// Carries a plan out, from the start or from where the run's journal ends.
///
/// Whatever an earlier attempt did, every step is looked at again before it is believed; the before-state of a
/// step's first change stays the one an undo will bring back. A run that has succeeded is left alone.
pub async fn execute(
    plan: &CheckedPlan,
    links: &Links,
    run: &mut Run,
    slots: &dyn SlotSource,
    blobs: &dyn BlobSource,
    events: &dyn EventSink,
    options: ExecuteOptions,
) -> Result<Outcome, EngineError> {
    let plan = plan.plan();
    refuse(plan, links, run, &options)?;
    if run.replay().state == RunState::Succeeded {
        return Ok(Outcome::Succeeded);
    }
    let mut schedule = Schedule::of(plan)?;
    let carrier = Carrier { plan, links, run: Mutex::new(run), slots, blobs, events, options: &options };
    events.emit(event(EventKind::Phase { name: "run".to_owned() }));
    carrier.begin()?;
    carrier.run_steps(&mut schedule).await?;
    let outcome = carrier.end(&schedule)?;
    if outcome == Outcome::Failed {
        carrier.collect_evidence(&schedule).await;
    }
    carrier.lock().write_report(plan)?;
    Ok(outcome)
}

/// What can be known before anything is journalled.
fn refuse(plan: &Plan, links: &Links, run: &Run, options: &ExecuteOptions) -> Result<(), EngineError> {
    if options.on_failure == OnFailure::Rollback {
        return Err(EngineError::NotBuiltYet {
            what: "--on-failure rollback",
            instead: "run with --on-failure keep, mend what failed and resume",
        });
    }
    let given = plan.digest().map_err(|source| EngineError::Serialise { what: "the plan", source })?;
    if given != run.plan_digest() {
        return Err(EngineError::PlanMismatch {
            run: run.id().to_string(),
            what: "plan",
            planned: run.plan_digest().to_string(),
            given: given.to_string(),
            hint: "carry out the plan of the run's own folder",
        });
    }
    match plan.steps.iter().find(|s| !links.contains_key(&s.host)) {
        Some(step) => Err(EngineError::NoLink { step: step.id.clone(), host: step.host.clone() }),
        None => Ok(()),
    }
}

/// What every step needs to be carried out.
pub(crate) struct Carrier<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) links: &'a Links,
    run: Mutex<&'a mut Run>,
    pub(crate) slots: &'a dyn SlotSource,
    pub(crate) blobs: &'a dyn BlobSource,
    pub(crate) events: &'a dyn EventSink,
    pub(crate) options: &'a ExecuteOptions,
}

impl<'a> Carrier<'a> {
    /// The run; never held over an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, &'a mut Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Journals one record.
    pub(crate) fn record(&self, record: Record) -> Result<(), EngineError> {
        let mut run = self.lock();
        let written = run.replay().records;
        let hook = self.options.hook.as_deref();
        if hook.is_some_and(|h| !h.before_record(written + 1, &record)) {
            return Err(EngineError::Stopped { record: written });
        }
        run.record(record.clone())?;
        if hook.is_some_and(|h| !h.after_record(written + 1, &record)) {
            return Err(EngineError::Stopped { record: written + 1 });
        }
        Ok(())
    }

    pub(crate) fn emit(&self, kind: EventKind) {
        self.events.emit(event(kind));
    }

    fn begin(&self) -> Result<(), EngineError> {
        let (state, plan) = {
            let run = self.lock();
            (run.replay().state, run.plan_digest())
        };
        let tool = self.options.tool.clone();
        self.record(match state {
            RunState::New => Record::RunStarted { plan, tool, resume: self.options.resume_command.clone() },
            _ => Record::Resumed { tool },
        })
    }

    async fn run_steps(&self, schedule: &mut Schedule<'_>) -> Result<(), EngineError> {
        let mut running = FuturesUnordered::new();
        loop {
            while !self.options.cancel.is_cancelled()
                && let Some(index) = schedule.take()
            {
                running.push(async move { (index, self.carry(&self.plan.steps[index]).await) });
            }
            let Some((index, end)) = running.next().await else { return Ok(()) };
            match end? {
                StepEnd::Holds => schedule.holds(index),
                StepEnd::Interrupted => schedule.left(index),
                StepEnd::Failed => self.block(schedule.failed(index), index)?,
            }
        }
    }

    fn block(&self, blocked: Vec<usize>, on: usize) -> Result<(), EngineError> {
        let on = &self.plan.steps[on].id;
        for index in blocked {
            let step = &self.plan.steps[index];
            self.record(Record::StepBlocked { step: step.id.clone(), on: on.clone() })?;
            self.emit(EventKind::StepEnded {
                step: step.id.to_string(),
                host: step.host.clone(),
                title: step.title.clone(),
                outcome: StepOutcome::Blocked,
                duration_ms: 0,
                error: Some(format!("{on} failed")),
            });
        }
        Ok(())
    }

    fn end(&self, schedule: &Schedule<'_>) -> Result<Outcome, EngineError> {
        if schedule.all_hold() {
            self.record(Record::RunEnded { outcome: Ended::Succeeded })?;
            Ok(Outcome::Succeeded)
        } else if self.options.cancel.is_cancelled() {
            self.record(Record::Interrupted)?;
            Ok(Outcome::Interrupted)
        } else {
            self.record(Record::RunEnded { outcome: Ended::Failed })?;
            Ok(Outcome::Failed)
        }
    }

    /// Journals and listings of the hosts where a step failed. What cannot be had is a warning: the failure itself
    /// is what the operator must see.
    async fn collect_evidence(&self, schedule: &Schedule<'_>) {
        for host in schedule.failed_hosts() {
            let Some(link) = self.links.get(host) else { continue };
            let problem = match tokio::time::timeout(EVIDENCE_TIMEOUT, link.evidence()).await {
                Err(_) => Some(format!("{host} did not answer within {} s", EVIDENCE_TIMEOUT.as_secs())),
                Ok(Err(error)) => Some(error.to_string()),
                Ok(Ok(files)) => {
                    let run = self.lock();
                    files
                        .iter()
                        .find_map(|(name, text)| run.keep_text("evidence", host, name, text).err())
                        .map(|e| e.to_string())
                }
            };
            if let Some(problem) = problem {
                self.emit(EventKind::Warning { text: format!("evidence of {host} is incomplete: {problem}") });
            }
        }
    }
}
