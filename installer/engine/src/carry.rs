//! Carries one step: observe, write ahead, converge, observe again, probe. The same for every op kind.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use kubexm_plan::{Op, Step};
use kubexm_spec::Digest;
use kubexm_spec::event::{EventKind, StepOutcome};

use crate::EngineError;
use crate::execute::Carrier;
use crate::journal::Record;
use crate::link::{Change, Found, Link, LinkError, SlotValues};
use crate::replay::StepState;
use crate::{slots, status};

/// The longest pause between two tries.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// How long the log of a step may take.
const LOG_TIMEOUT: Duration = Duration::from_secs(30);

/// How a step came to its end in this attempt at the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepEnd {
    Holds,
    Failed,
    Interrupted,
}

/// Why one try did not succeed.
enum Trouble {
    /// The run itself cannot go on (the journal cannot be written).
    Run(EngineError),
    /// The step failed; another try may help or not.
    Step { text: String, may_pass: bool },
    /// The operator interrupted before the step's end.
    Interrupted,
}

impl From<LinkError> for Trouble {
    fn from(error: LinkError) -> Self {
        Self::Step { text: error.to_string(), may_pass: error.may_pass() }
    }
}

fn failed(text: String) -> Trouble {
    Trouble::Step { text, may_pass: true }
}

impl Carrier<'_> {
    /// Carries one step to its end, with its tries. An error ends the whole run.
    pub(crate) async fn carry(&self, step: &Step) -> Result<StepEnd, EngineError> {
        let Some(link) = self.links.get(&step.host).map(AsRef::as_ref) else {
            return Err(EngineError::NoLink { step: step.id.clone(), host: step.host.clone() });
        };
        self.emit(EventKind::StepStarted {
            step: step.id.to_string(),
            host: step.host.clone(),
            title: step.title.clone(),
        });
        let began = Instant::now();
        let mut pauses = ExponentialBuilder::new()
            .with_min_delay(self.options.backoff)
            .with_max_delay(MAX_BACKOFF)
            .with_max_times(step.retries as usize)
            .with_jitter()
            .build();
        for tries in 1.. {
            let limit = Duration::from_secs(step.timeout_s);
            let tried = tokio::time::timeout(limit, self.attempt(step, link)).await;
            let (text, may_pass) = match tried {
                Ok(Ok(())) => return self.ended_well(step, link, began).await,
                Ok(Err(Trouble::Run(error))) => return Err(error),
                Ok(Err(Trouble::Interrupted)) => return Ok(StepEnd::Interrupted),
                Ok(Err(Trouble::Step { text, may_pass })) => (text, may_pass),
                Err(_) => (format!("did not finish within {} s; its log tells how far it came", limit.as_secs()), true),
            };
            match pauses.next().filter(|_| may_pass) {
                Some(pause) => {
                    self.emit(EventKind::Warning {
                        text: format!("{}: {text}; try {} follows in {} s", step.id, tries + 1, pause.as_secs()),
                    });
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.options.cancel.cancelled() => return Ok(StepEnd::Interrupted),
                    }
                }
                None => return self.ended_badly(step, link, began, tries, text).await,
            }
        }
        Ok(StepEnd::Interrupted)
    }

    /// One try.
    async fn attempt(&self, step: &Step, link: &dyn Link) -> Result<(), Trouble> {
        // Values of today's providers are kept by the controller and cost nothing to give; a provider that makes
        // something on a host (a join token) may run only once the ops without it were found wanting.
        let values = slots::values(self.plan, step, self.slots).await;
        let values = values.map_err(|e| Trouble::Step { text: e.to_string(), may_pass: false })?;
        let found = self.observe(step, link, &values).await?;
        if found.iter().all(|f| f.satisfied) {
            return self.wait_for_probe(step, link).await;
        }
        if self.options.cancel.is_cancelled() {
            return Err(Trouble::Interrupted);
        }
        let (sequence, before) = self.prepare(step, &found).map_err(Trouble::Run)?;
        self.deliver(step, link, &found).await?;
        let run = self.lock().id().to_string();
        let change = Change { run: &run, sequence, before: &before };
        link.converge(self.plan, step, &values, change).await?;
        let found = self.observe(step, link, &values).await?;
        if let Some((op, _)) = step.ops.iter().zip(&found).find(|(_, f)| !f.satisfied) {
            let text = format!(
                "{} was made so and does not hold: something else on the host changes it",
                status::describe(op)
            );
            return Err(failed(text));
        }
        self.wait_for_probe(step, link).await
    }

    async fn observe(&self, step: &Step, link: &dyn Link, values: &SlotValues) -> Result<Vec<Found>, Trouble> {
        let found = link.observe(self.plan, step, values).await?;
        if found.len() == step.ops.len() {
            return Ok(found);
        }
        let reason = format!("{} answers for the {} ops of {}", found.len(), step.ops.len(), step.id);
        Err(LinkError::Protocol { host: step.host.clone(), reason }.into())
    }

    /// Write-ahead: the before-state is on disk when this returns. A second try of the step finds itself prepared.
    fn prepare(&self, step: &Step, found: &[Found]) -> Result<(u64, Vec<Found>), EngineError> {
        let (story, next) = {
            let run = self.lock();
            (run.replay().step(&step.id), run.replay().next_sequence)
        };
        let (sequence, before) = story.before.unwrap_or_else(|| (next, found.to_vec()));
        if story.state != StepState::Prepared {
            self.record(Record::StepPrepared { step: step.id.clone(), sequence, before: found.to_vec() })?;
        }
        Ok((sequence, before))
    }

    /// Sends the blobs of those `Blobs` ops that do not hold. What arrived stays there, so a cut is no loss.
    async fn deliver(&self, step: &Step, link: &dyn Link, found: &[Found]) -> Result<(), Trouble> {
        let wanting = step.ops.iter().zip(found).filter(|(_, f)| !f.satisfied);
        let blobs: BTreeMap<Digest, u64> = wanting
            .filter_map(|(op, _)| match op {
                Op::Blobs(blobs) => Some(blobs.blobs.iter().map(|(digest, size)| (*digest, *size))),
                _ => None,
            })
            .flatten()
            .collect();
        if blobs.is_empty() {
            return Ok(());
        }
        let total = blobs.values().sum();
        let arrived = Mutex::new(BTreeMap::new());
        let report = |done| {
            self.emit(EventKind::Progress {
                what: step.id.to_string(),
                done,
                total: Some(total),
                unit: "bytes".to_owned(),
            });
        };
        let progress = |digest, done, _| {
            let mut arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
            arrived.insert(digest, done);
            report(arrived.values().sum());
        };
        let blobs: Vec<(Digest, u64)> = blobs.into_iter().collect();
        tokio::select! {
            sent = link.deliver(&blobs, self.blobs, &progress) => sent?,
            () = self.options.cancel.cancelled() => return Err(Trouble::Interrupted),
        }
        report(total);
        Ok(())
    }

    /// Looks until the probe holds. A broken look is a look: a service that is starting refuses connections.
    async fn wait_for_probe(&self, step: &Step, link: &dyn Link) -> Result<(), Trouble> {
        let Some(timed) = &step.probe else { return Ok(()) };
        let until = Instant::now() + Duration::from_secs(timed.within_s);
        loop {
            let seen = match link.probe(&timed.probe).await {
                Ok(answer) if answer.holds => return Ok(()),
                Ok(answer) => answer.seen,
                Err(error) if error.may_pass() => error.to_string(),
                Err(error) => return Err(error.into()),
            };
            if Instant::now() >= until {
                return Err(failed(format!("still not so after {} s: {seen}", timed.within_s)));
            }
            tokio::select! {
                () = tokio::time::sleep(self.options.poll) => {}
                () = self.options.cancel.cancelled() => return Err(Trouble::Interrupted),
            }
        }
    }

    async fn ended_well(&self, step: &Step, link: &dyn Link, began: Instant) -> Result<StepEnd, EngineError> {
        let changed = self.lock().replay().step(&step.id).state == StepState::Prepared;
        let (id, duration_ms) = (step.id.clone(), millis(began));
        if changed {
            self.record(Record::StepDone { step: id, duration_ms })?;
            self.keep_log(step, link).await;
        } else {
            self.record(Record::StepSatisfied { step: id, duration_ms })?;
        }
        let outcome = if changed { StepOutcome::Done } else { StepOutcome::Satisfied };
        self.emit_end(step, outcome, duration_ms, None);
        Ok(StepEnd::Holds)
    }

    async fn ended_badly(
        &self,
        step: &Step,
        link: &dyn Link,
        began: Instant,
        tries: u32,
        error: String,
    ) -> Result<StepEnd, EngineError> {
        let duration_ms = millis(began);
        self.record(Record::StepFailed { step: step.id.clone(), error: error.clone(), tries, duration_ms })?;
        self.keep_log(step, link).await;
        self.emit_end(step, StepOutcome::Failed, duration_ms, Some(error));
        Ok(StepEnd::Failed)
    }

    fn emit_end(&self, step: &Step, outcome: StepOutcome, duration_ms: u64, error: Option<String>) {
        self.emit(EventKind::StepEnded {
            step: step.id.to_string(),
            host: step.host.clone(),
            title: step.title.clone(),
            outcome,
            duration_ms,
            error,
        });
    }

    /// Fetches the step's log. A log that cannot be had is a warning, never a failure of the step.
    async fn keep_log(&self, step: &Step, link: &dyn Link) {
        let run = self.lock().id().to_string();
        let name = step.id.0.split_once('/').map_or(step.id.0.as_str(), |(_, name)| name);
        let problem = match tokio::time::timeout(LOG_TIMEOUT, link.step_log(&run, step)).await {
            Err(_) => Some("no answer in time".to_owned()),
            Ok(Err(error)) => Some(error.to_string()),
            Ok(Ok(text)) if text.is_empty() => None,
            Ok(Ok(text)) => {
                let kept = self.lock().keep_text("logs", &step.host, &format!("{name}.log"), &text);
                kept.err().map(|e| e.to_string())
            }
        };
        if let Some(problem) = problem {
            self.emit(EventKind::Warning { text: format!("the log of {} was not kept: {problem}", step.id) });
        }
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
