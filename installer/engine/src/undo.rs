//! Rolls back what a run, or one host of it, has changed, in three waves: services stop, data is restored, services
//! start again. Each wave covers all steps in reverse order before the next one starts.
//!
//! The steps to change are journalled before anything is changed, and every wave of every step after it is done, so
//! that a crash can be continued. A step that cannot be rolled back blocks the steps that it depends on, and the
//! following waves; the rest of the wave continues. Nothing is retried automatically afterwards: the undo is stuck and
//! reports that.
//!
//! An unreachable host has the same effect, unless the operator allows the undo to continue without such hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kubexm_plan::{Step, StepId, Wave};
use kubexm_spec::event::{EventKind, StepOutcome};

use crate::execute::Outcome;
use crate::journal::{Record, Scope, UndoEnd};
use crate::link::{Change, LinkError};
use crate::reach::Watch;
use crate::run_context::RunContext;
use crate::step_runner::{millis, pauses};
use crate::undo_order::UndoOrder;
use crate::undo_scope::UndoScope;
use crate::{EngineError, schedule};

/// How an undo ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UndoResult {
    RolledBack,
    Stuck,
    Interrupted,
}

/// How a wave of one step ended.
enum StepUndo {
    Done,
    Failed { text: String, unreachable: bool },
    Interrupted,
}

impl RunContext<'_> {
    /// Rolls back the whole run, or continues doing so.
    pub(crate) async fn roll_back(&self, why: &str) -> Result<Outcome, EngineError> {
        let why = match &self.lock().replay().undo {
            Some(undo) => undo.why.clone(),
            None => why.to_owned(),
        };
        match self.undo(Scope::Run, &why).await? {
            UndoResult::RolledBack => Ok(Outcome::RolledBack),
            UndoResult::Stuck => Ok(Outcome::Stuck),
            UndoResult::Interrupted => {
                self.record(Record::Interrupted)?;
                Ok(Outcome::Interrupted)
            }
        }
    }

    /// Rolls back the steps in the scope.
    pub(crate) async fn undo(&self, scope: Scope, why: &str) -> Result<UndoResult, EngineError> {
        let dag = schedule::dag(self.plan)?;
        let taking = UndoScope::of(self.plan, &dag, self.lock().replay(), &scope);
        self.record(Record::UndoBegan { scope: scope.clone(), why: why.to_owned(), steps: taking.ids(self.plan) })?;
        // Hosts that are left as they are, and why.
        let mut left = BTreeMap::new();
        for wave in Wave::ALL {
            let mut members = taking.open_in(wave, self.plan, self.lock().replay());
            members.retain(|&index| !left.contains_key(self.plan.steps[index].host.as_str()));
            if members.is_empty() {
                continue;
            }
            self.emit(EventKind::Phase { name: phase(&scope, wave) });
            let mut order = UndoOrder::over(self.plan, &dag, &members);
            let failures = self.undo_wave(&taking, wave, &mut order, &mut left).await?;
            if let Some((step, text)) = failures.first() {
                let others = match failures.len() {
                    1 => String::new(),
                    more => format!(" (and {} more could not be rolled back)", more - 1),
                };
                let why = format!("{step} could not be rolled back: {text}{others}");
                return self.end_undo(scope, UndoEnd::Stuck { why });
            }
            if order.open() > 0 {
                return Ok(UndoResult::Interrupted);
            }
        }
        let end = match left.is_empty() {
            true => taking.end(self.plan),
            false => UndoEnd::Stuck { why: left_alone(&left) },
        };
        self.end_undo(scope, end)
    }

    /// Leaves the scope as it is, and reports that.
    pub(crate) fn leave(&self, scope: Scope, why: &str) -> Result<UndoResult, EngineError> {
        self.record(Record::UndoBegan { scope: scope.clone(), why: why.to_owned(), steps: Vec::new() })?;
        self.end_undo(scope, UndoEnd::Stuck { why: "it was in the cluster before this run".to_owned() })
    }

    fn end_undo(&self, scope: Scope, end: UndoEnd) -> Result<UndoResult, EngineError> {
        let result = match &end {
            UndoEnd::RolledBack => UndoResult::RolledBack,
            UndoEnd::Stuck { why } => {
                let what = match &scope {
                    Scope::Run => "the rollback is stuck",
                    Scope::Host { host } => &format!("{host} is left as it is"),
                };
                self.emit(EventKind::Warning { text: format!("{what}: {why}") });
                UndoResult::Stuck
            }
        };
        self.record(Record::UndoEnded { scope, end })?;
        Ok(result)
    }

    /// One wave, as parallel as the order and the plan's limits allow. Returns the failures, except those of hosts that
    /// are left as they are.
    async fn undo_wave<'s>(
        &'s self,
        taking: &UndoScope,
        wave: Wave,
        order: &mut UndoOrder<'_>,
        left: &mut BTreeMap<&'s str, String>,
    ) -> Result<Vec<(StepId, String)>, EngineError> {
        let mut failures = Vec::new();
        let mut unreachable: BTreeSet<&str> = BTreeSet::new();
        let mut running = FuturesUnordered::new();
        let mut watch = Watch::after_a_run(self.links);
        loop {
            while !self.options.cancel.is_cancelled()
                && let Some(index) = order.take(|host| !unreachable.contains(host))
            {
                let step = taking.step(index, self.plan);
                running.push(async move { (index, self.undo_step(step, wave).await) });
            }
            let done = tokio::select! {
                biased;
                never = watch.report(self) => match never {},
                done = running.next() => done,
            };
            let Some((index, ended)) = done else { return Ok(failures) };
            match ended? {
                StepUndo::Done => order.done(index),
                StepUndo::Interrupted => order.failed(index),
                StepUndo::Failed { text, unreachable: true } if self.options.skip_unreachable => {
                    order.give_up(index);
                    left.entry(&self.plan.steps[index].host).or_insert(text);
                }
                StepUndo::Failed { text, unreachable: lost } => {
                    order.failed(index);
                    let step = &self.plan.steps[index];
                    failures.push((step.id.clone(), text));
                    if lost {
                        unreachable.insert(&step.host);
                    }
                }
            }
        }
    }

    /// One step in one wave, with its attempts.
    async fn undo_step(&self, step: &Step, wave: Wave) -> Result<StepUndo, EngineError> {
        let link = self.link(step)?;
        let (run, story) = {
            let run = self.lock();
            (run.id().to_string(), run.replay().step(&step.id))
        };
        let Some((sequence, before)) = story.before else { return Ok(StepUndo::Done) };
        let change = Change { run: &run, sequence, before: &before };
        if story.wave.is_none() {
            self.emit_begin(step);
        }
        let (began, limit) = (Instant::now(), Duration::from_secs(step.timeout_s));
        let mut pauses = pauses(self.options, step);
        for tries in 1.. {
            let tried = tokio::time::timeout(limit, link.undo(self.plan, step, change, wave)).await;
            let (text, may_pass, unreachable) = match tried {
                Ok(Ok(())) => {
                    self.record(Record::WaveDone { step: step.id.clone(), wave })?;
                    if wave == Wave::Start {
                        self.emit_end(step, StepOutcome::Undone, millis(began), None);
                    }
                    return Ok(StepUndo::Done);
                }
                Ok(Err(e)) => (e.to_string(), e.may_pass(), matches!(e, LinkError::Unreachable { .. })),
                Err(_) => (format!("was not rolled back within {} s", limit.as_secs()), true, false),
            };
            match pauses.next().filter(|_| may_pass) {
                Some(pause) => {
                    self.emit(EventKind::Warning { text: format!("{}: {text}; it is tried again", step.id) });
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.options.cancel.cancelled() => return Ok(StepUndo::Interrupted),
                    }
                }
                None => {
                    let (id, error) = (step.id.clone(), text.clone());
                    self.record(Record::UndoFailed { step: id, wave, error, tries })?;
                    let error = Some(format!("it could not be rolled back: {text}"));
                    self.emit_end(step, StepOutcome::Failed, millis(began), error);
                    return Ok(StepUndo::Failed { text, unreachable });
                }
            }
        }
        Ok(StepUndo::Interrupted)
    }
}

/// The report about hosts that were left as they are.
fn left_alone(left: &BTreeMap<&str, String>) -> String {
    let hosts: Vec<&str> = left.keys().copied().collect();
    let (are, they) = if hosts.len() == 1 { ("is", "it answers") } else { ("are", "they answer") };
    let why: Vec<&str> = left.values().map(String::as_str).collect();
    format!(
        "{} {are} left as before the rollback, the other hosts were rolled back ({}); roll the run back again when \
         {they}",
        hosts.join(", "),
        why.join("; ")
    )
}

fn phase(scope: &Scope, wave: Wave) -> String {
    let what = match scope {
        Scope::Run => "rollback".to_owned(),
        Scope::Host { host } => format!("rollback of {host}"),
    };
    match wave {
        Wave::Stop => format!("{what}: stop services"),
        Wave::Data => format!("{what}: restore files"),
        Wave::Start => format!("{what}: start services again"),
    }
}
