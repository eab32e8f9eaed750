//! One attempt at a run, forward or back: what it works on, and its one way to the journal and to the readers.

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
use crate::{EngineError, Run};

/// How long evidence of one host may take.
const EVIDENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// The links to the hosts, by host name.
pub type Links = BTreeMap<String, Arc<dyn Link>>;

/// What every step needs, whichever way it goes.
pub(crate) struct RunContext<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) links: &'a Links,
    run: Mutex<&'a mut Run>,
    pub(crate) events: &'a dyn EventSink,
    pub(crate) options: &'a ExecuteOptions,
}

impl<'a> RunContext<'a> {
    /// Refuses what can be known to be wrong before anything is journalled.
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
                hint: "carry out the plan of the run's own folder",
            });
        }
        if let Some(step) = plan.steps.iter().find(|s| !links.contains_key(&s.host)) {
            return Err(EngineError::NoLink { step: step.id.clone(), host: step.host.clone() });
        }
        Ok(Self { plan, links, run: Mutex::new(run), events, options })
    }

    /// The run; never held over an await.
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

    pub(crate) fn emit_begin(&self, step: &Step) {
        self.emit(EventKind::StepStarted {
            step: step.id.to_string(),
            host: step.host.clone(),
            title: step.title.clone(),
        });
    }

    pub(crate) fn emit_end(&self, step: &Step, outcome: StepOutcome, duration_ms: u64, error: Option<String>) {
        self.emit(EventKind::StepEnded {
            step: step.id.to_string(),
            host: step.host.clone(),
            title: step.title.clone(),
            outcome,
            duration_ms,
            error,
        });
    }

    /// Journals and listings of a host where a step failed, before anything of it is rolled back. What cannot be
    /// obtained is a warning: the failure itself is what the operator must see.
    pub(crate) async fn collect_evidence(&self, host: &str) {
        let Some(link) = self.links.get(host) else { return };
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
