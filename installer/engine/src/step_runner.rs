//! Runs one step: observe, write ahead, converge, observe again, probe. The same for every op kind.

use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use kubexm_plan::Step;
use kubexm_spec::event::{EventKind, StepOutcome};

use crate::EngineError;
use crate::journal::Record;
use crate::link::{BlobSource, Change, Link, LinkError, ObservedState, SlotValues};
use crate::one_holder;
use crate::options::{Drill, ExecuteOptions};
use crate::reach::{Cause, Failure};
use crate::replay::StepState;
use crate::run_context::RunContext;
use crate::slots::{Slots, Used};
use crate::spread::Spread;
use crate::status;
use crate::survey_cache::SurveyCache;
use crate::waits;

/// The longest pause between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Time limit for fetching the log of a step.
const LOG_TIMEOUT: Duration = Duration::from_secs(30);

/// How a step finished in this attempt at the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepEnd {
    Holds,
    Failed(Cause),
    Interrupted,
}

/// Why an attempt did not succeed.
pub(crate) enum Trouble {
    /// The run itself cannot continue (the journal cannot be written).
    Run(EngineError),
    /// The step failed.
    Step(Failure),
    /// The operator interrupted it.
    Interrupted,
}

impl From<LinkError> for Trouble {
    fn from(error: LinkError) -> Self {
        Self::Step(error.into())
    }
}

fn of_slot(error: EngineError) -> Trouble {
    Trouble::Step(error.into())
}

/// The pauses before each further attempt of a step.
pub(crate) fn pauses(options: &ExecuteOptions, step: &Step) -> impl Iterator<Item = Duration> + use<> {
    ExponentialBuilder::new()
        .with_min_delay(options.backoff)
        .with_max_delay(MAX_BACKOFF)
        .with_max_times(step.retries as usize)
        .with_jitter()
        .build()
}

/// Runs steps.
pub(crate) struct StepRunner<'c, 'a> {
    pub(crate) attempt: &'c RunContext<'a>,
    pub(crate) slots: Slots<'a>,
    pub(crate) blobs: &'a dyn BlobSource,
    pub(crate) seen: SurveyCache,
    pub(crate) spread: Spread<'a>,
}

impl StepRunner<'_, '_> {
    /// Runs one step with its attempts. An error ends the whole run.
    pub(crate) async fn carry(&self, step: &Step) -> Result<StepEnd, EngineError> {
        let options = self.attempt.options;
        let link = self.attempt.link(step)?;
        self.attempt.emit_begin(step);
        self.seen.begin(step);
        let began = Instant::now();
        let mut pauses = pauses(options, step);
        let mut used = Used::new();
        for tries in 1.. {
            let limit = Duration::from_secs(step.timeout_s);
            let tried = tokio::time::timeout(limit, self.try_once(step, link, &mut used)).await;
            let failure = match tried {
                Ok(Ok(())) if options.drill == Some(Drill::FailStep(step.id.clone())) => {
                    let text = "it was done, and is reported as failed because a drill asked for it".to_owned();
                    return self.ended_badly(step, link, began, tries, Failure::of_host(text)).await;
                }
                Ok(Ok(())) => return self.ended_well(step, link, began).await,
                Ok(Err(Trouble::Run(error))) => return Err(error),
                Ok(Err(Trouble::Interrupted)) => return Ok(StepEnd::Interrupted),
                Ok(Err(Trouble::Step(failure))) => failure,
                Err(_) => {
                    let limit = limit.as_secs();
                    Failure::waited(format!("did not finish within {limit} s; its log shows how far it got"))
                }
            };
            let failure = failure.explained(step, self.attempt.links).await;
            match pauses.next().filter(|_| failure.may_pass) {
                Some(pause) => {
                    let (id, text, next) = (&step.id, failure.text, tries + 1);
                    let text = format!("{id}: {text}; attempt {next} follows in {} s", pause.as_secs());
                    self.attempt.emit(EventKind::Warning { text });
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.attempt.options.cancel.cancelled() => return Ok(StepEnd::Interrupted),
                    }
                }
                None => return self.ended_badly(step, link, began, tries, failure).await,
            }
        }
        Ok(StepEnd::Interrupted)
    }

    /// One attempt.
    async fn try_once(&self, step: &Step, link: &dyn Link, used: &mut Used) -> Result<(), Trouble> {
        let ends = tokio::time::Instant::now() + Duration::from_secs(step.timeout_s);
        if self.seen.holds(step) {
            self.spread.holds(step);
            return Ok(());
        }
        let mut given = self.slots.kept(step).await.map_err(of_slot)?;
        let found = self.observe(step, link, &given.values).await?;
        if found.iter().all(|f| f.satisfied) {
            self.spread.holds(step);
            return self.wait_for_probe(step, link).await;
        }
        if self.attempt.options.cancel.is_cancelled() {
            return Err(Trouble::Interrupted);
        }
        self.slots.complete(step, &mut given, used).await.map_err(of_slot)?;
        // Dropped at the end of this attempt, even on a timeout while the host is still working.
        let _changing = self.seen.changing(step);
        let (sequence, before) = self.prepare(step, &found).map_err(Trouble::Run)?;
        self.deliver(step, link, &found, ends).await?;
        let run = self.attempt.lock().id().to_string();
        let change = Change { run: &run, sequence, before: &before };
        let converge = link.converge(self.attempt.plan, step, &given.values, change);
        self.followed(step, link, converge).await?;
        let found = self.observe(step, link, &given.values).await?;
        if let Some((op, _)) = step.ops.iter().zip(&found).find(|(_, f)| !f.satisfied) {
            let text = format!(
                "{} was applied but did not stay so: something else on the host changes it",
                status::describe(op)
            );
            return Err(Trouble::Step(Failure::of_host(text)));
        }
        self.spread.holds(step);
        self.wait_for_probe(step, link).await
    }

    /// Waits for a change. If the step's probe describes its progress and it takes long, that is what the wait is reported
    /// with.
    async fn followed(
        &self,
        step: &Step,
        link: &dyn Link,
        change: impl Future<Output = Result<(), LinkError>>,
    ) -> Result<(), LinkError> {
        let Some(timed) = step.probe.as_ref().filter(|timed| timed.probe.follows_change()) else { return change.await };
        let follow = async {
            loop {
                tokio::time::sleep(waits::SILENCE).await;
                if let Ok(answer) = link.probe(&timed.probe).await {
                    self.attempt.saw(step, &answer.seen);
                }
            }
        };
        tokio::select! {
            biased;
            changed = change => changed,
            () = follow => Ok(()),
        }
    }

    async fn observe(&self, step: &Step, link: &dyn Link, values: &SlotValues) -> Result<Vec<ObservedState>, Trouble> {
        let found = link.observe(self.attempt.plan, step, values).await?;
        if found.len() == step.ops.len() {
            return Ok(found);
        }
        let reason = format!("it reported {} states for the {} ops of step {}", found.len(), step.ops.len(), step.id);
        Err(LinkError::Protocol { host: step.host.clone(), reason }.into())
    }

    /// Write-ahead: the before-state is on disk when this returns. A second attempt finds the step prepared.
    fn prepare(&self, step: &Step, found: &[ObservedState]) -> Result<(u64, Vec<ObservedState>), EngineError> {
        let (story, next) = {
            let run = self.attempt.lock();
            (run.replay().step(&step.id), run.replay().next_sequence)
        };
        let (sequence, before) = story.before.unwrap_or_else(|| (next, found.to_vec()));
        if story.state != StepState::Prepared {
            self.attempt.record(Record::StepPrepared { step: step.id.clone(), sequence, before: found.to_vec() })?;
        }
        Ok((sequence, before))
    }

    /// Probes until the condition is true. An error counts as not true: a service that is starting refuses connections.
    async fn wait_for_probe(&self, step: &Step, link: &dyn Link) -> Result<(), Trouble> {
        let Some(timed) = &step.probe else { return Ok(()) };
        let until = Instant::now() + Duration::from_secs(timed.within_s);
        let mut held = 0;
        loop {
            let (holds, seen) = match one_holder::ask(&timed.probe, link, self.attempt.links).await {
                Ok(answer) => (answer.holds, answer.seen),
                Err(error) if error.may_pass() => (false, error.to_string()),
                Err(error) => return Err(error.into()),
            };
            held = if holds { held + 1 } else { 0 };
            let wanted = timed.probe.looks();
            if holds && held >= wanted {
                return Ok(());
            }
            let seen = if holds { format!("{seen}, {held} times in a row of {wanted}") } else { seen };
            self.attempt.saw(step, &seen);
            if Instant::now() >= until {
                let text = format!("not reached after {} s: {seen}", timed.within_s);
                return Err(Trouble::Step(Failure::waited(text)));
            }
            tokio::select! {
                () = tokio::time::sleep(self.attempt.options.poll) => {}
                () = self.attempt.options.cancel.cancelled() => return Err(Trouble::Interrupted),
            }
        }
    }

    async fn ended_well(&self, step: &Step, link: &dyn Link, began: Instant) -> Result<StepEnd, EngineError> {
        let changed = self.attempt.lock().replay().step(&step.id).state == StepState::Prepared;
        let (id, duration_ms) = (step.id.clone(), millis(began));
        if changed {
            self.attempt.record(Record::StepDone { step: id, duration_ms })?;
            self.keep_log(step, link).await;
        } else {
            self.attempt.record(Record::StepSatisfied { step: id, duration_ms })?;
        }
        let outcome = if changed { StepOutcome::Done } else { StepOutcome::Satisfied };
        self.attempt.emit_end(step, outcome, duration_ms, None);
        Ok(StepEnd::Holds)
    }

    async fn ended_badly(
        &self,
        step: &Step,
        link: &dyn Link,
        began: Instant,
        tries: u32,
        failure: Failure,
    ) -> Result<StepEnd, EngineError> {
        let Failure { text: error, cause, .. } = failure;
        let duration_ms = millis(began);
        self.attempt.record(Record::StepFailed { step: step.id.clone(), error: error.clone(), tries, duration_ms })?;
        if link.lost_for().is_none() {
            self.keep_log(step, link).await;
        }
        self.attempt.emit_end(step, StepOutcome::Failed, duration_ms, Some(error));
        Ok(StepEnd::Failed(cause))
    }

    /// Fetches the step's log. A failure is only a warning.
    async fn keep_log(&self, step: &Step, link: &dyn Link) {
        let run = self.attempt.lock().id().to_string();
        let name = step.id.0.split_once('/').map_or(step.id.0.as_str(), |(_, name)| name);
        let problem = match tokio::time::timeout(LOG_TIMEOUT, link.step_log(&run, step)).await {
            Err(_) => Some("no answer in time".to_owned()),
            Ok(Err(error)) => Some(error.to_string()),
            Ok(Ok(text)) if text.is_empty() => None,
            Ok(Ok(text)) => {
                let kept = self.attempt.lock().keep_text("logs", &step.host, &format!("{name}.log"), &text);
                kept.err().map(|e| e.to_string())
            }
        };
        if let Some(problem) = problem {
            self.attempt.emit(EventKind::Warning { text: format!("the log of {} was not saved: {problem}", step.id) });
        }
    }
}

pub(crate) fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use kubexm_plan::{OVER_NETWORK, Undo};

    use super::*;

    #[test]
    fn a_step_that_needs_another_host_outlasts_a_network_that_is_away_for_90_s() {
        let step = Step::on("n1", "images.pause", "Load an image").retries(OVER_NETWORK).undo(Undo::Nothing).build();
        let waited: Duration = pauses(&ExecuteOptions::new("test", "resume"), &step).sum();
        assert!(waited >= Duration::from_secs(90), "{waited:?}");
    }
}
