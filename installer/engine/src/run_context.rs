//! One attempt at a run, forward or back: its input, and its access to the journal and the event sinks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubexm_plan::{Plan, Step};
use kubexm_spec::event::EventKind;
use kubexm_spec::event::StepOutcome;

use crate::events::{EventSink, event};
use crate::journal::Record;
use crate::link::Link;
use crate::options::{Drill, ExecuteOptions};
use crate::waits::{self, StepWaits};
use crate::{EngineError, Run};

/// Time limit for collecting evidence of one host.
const EVIDENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// The links to the hosts, by host name.
pub type Links = BTreeMap<String, Arc<dyn Link>>;

/// What every step needs, forward or back.
pub(crate) struct RunContext<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) links: &'a Links,
    run: Mutex<&'a mut Run>,
    pub(crate) events: &'a dyn EventSink,
    pub(crate) options: &'a ExecuteOptions,
    waits: Mutex<StepWaits>,
}

impl<'a> RunContext<'a> {
    /// Refuses inputs that are known to be wrong before anything is journalled.
    pub(crate) fn new(
        plan: &'a Plan,
        links: &'a Links,
        run: &'a mut Run,
        events: &'a dyn EventSink,
        options: &'a ExecuteOptions,
    ) -> Result<Self, EngineError> {
        let given = plan.digest().map_err(|source| EngineError::Serialise { what: "the plan", source })?;
        if given != run.plan_digest() {
            return Err(EngineError::PlanMismatch {
                run: run.id().to_string(),
                what: "plan",
                planned: run.plan_digest().to_string(),
                given: given.to_string(),
                hint: "execute the plan in the run's own folder",
            });
        }
        if let Some(step) = plan.steps.iter().find(|s| !links.contains_key(&s.host)) {
            return Err(EngineError::NoLink { step: step.id.clone(), host: step.host.clone() });
        }
        Ok(Self { plan, links, run: Mutex::new(run), events, options, waits: Mutex::default() })
    }

    /// The run; never held across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, &'a mut Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The link to a step's host.
    pub(crate) fn link(&self, step: &Step) -> Result<&'a dyn Link, EngineError> {
        let link = self.links.get(&step.host).map(AsRef::as_ref);
        link.ok_or_else(|| EngineError::NoLink { step: step.id.clone(), host: step.host.clone() })
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
        let dies = self.options.drill == Some(Drill::DieAtRecord(written + 1));
        if dies || hook.is_some_and(|h| !h.after_record(written + 1, &record)) {
            return Err(EngineError::Stopped { record: written + 1 });
        }
        Ok(())
    }

    pub(crate) fn emit(&self, kind: EventKind) {
        self.events.emit(event(kind));
    }

    fn waits(&self) -> MutexGuard<'_, StepWaits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a step that waits has seen last, for its next report.
    pub(crate) fn saw(&self, step: &Step, seen: &str) {
        self.waits().saw(&step.id, seen);
    }

    /// Reports the steps that have taken a while.
    pub(crate) fn report_waits(&self) {
        let due = self.waits().due();
        due.into_iter().for_each(|kind| self.emit(kind));
    }

    pub(crate) fn emit_begin(&self, step: &Step) {
        self.waits().begin(step);
        self.emit(EventKind::StepStarted {
            step: step.id.to_string(),
            host: step.host.clone(),
            title: step.title.clone(),
        });
    }

    pub(crate) fn emit_end(&self, step: &Step, outcome: StepOutcome, duration_ms: u64, error: Option<String>) {
        self.waits().end(&step.id);
        self.emit(EventKind::StepEnded {
            step: step.id.to_string(),
            host: step.host.clone(),
            title: step.title.clone(),
            outcome,
            duration_ms,
            error,
        });
    }

    /// Collects journals and listings of a host where a step failed, before anything is rolled back there. If that
    /// fails, only a warning is reported: the step's own failure is what matters.
    pub(crate) async fn collect_evidence(&self, host: &str) {
        let Some(link) = self.links.get(host) else { return };
        let evidence = tokio::time::timeout(EVIDENCE_TIMEOUT, link.evidence());
        let evidence = waits::of_hosts(self.events, "evidence of the failure", [(host.to_owned(), evidence)]).await;
        let Some((_, evidence)) = evidence.into_iter().next() else { return };
        let problem = match evidence {
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
