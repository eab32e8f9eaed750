//! What the death of the controller at any record of its journal leads to, forward and back.

use std::collections::BTreeSet;
use std::sync::Arc;

use kubexm_engine::events::Silent;
use kubexm_engine::execute::Hook;
use kubexm_engine::journal::Record;
use kubexm_engine::{Drill, EngineError, Outcome};
use kubexm_plan::{Pipeline, Undo};

use super::case::Case;
use super::failures::{both, word};
use super::run::{Camera, Carried, How, StopAt, said};
use super::{Fleet, Points};

/// Which way a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Forward,
    Back,
}

/// Hosts and a run that an attempt begins from.
struct Before<'s, F> {
    fleet: F,
    run: Carried<'s>,
}

impl<F: Fleet> Case<F> {
    /// Law 2: a crash before or after any record resumes to the same end, and can be rolled back then. Returns how many
    /// were tried.
    pub async fn a_crash_at_any_record_resumes_to_the_same_end(&self, points: Points) -> Result<usize, String> {
        let (end, _) = self.undisturbed().await?;
        let from = Before { fleet: self.start.fork(), run: Carried::new(&self.setting)? };
        self.each_crash(Way::Forward, &from, points, async |fleet, run, after| {
            let outcome = run.resume(&fleet, How::KEEP).await.map_err(|e| format!("after {after}: {e}"))?;
            if outcome != Outcome::Succeeded {
                return Err(format!("after {after}: resumed, it ends {outcome:?}:\n{}", run.report()));
            }
            self.ended_so(&fleet, &end.snapshot, after)?;
            let outcome = run.roll_back(&fleet, How::KEEP).await.map_err(said)?;
            self.unwound(&fleet, &run, outcome, &format!("{after}, resumed and rolled back"))
        })
        .await
    }

    /// Law 3: a crash before or after any record of a rollback is resumed to the same end.
    pub async fn a_rollback_resumed_after_a_crash_at_any_record_has_the_same_end(
        &self,
        points: Points,
    ) -> Result<usize, String> {
        let from = self.turned().await?;
        let (wanted, outcome) = self.rolled_back(&from).await?;
        self.each_crash(Way::Back, &from, points, async |fleet, run, after| {
            let found = if run.status()?.state.goes_back() {
                run.resume(&fleet, How::KEEP).await.map_err(|e| format!("after {after}: {e}"))?
            } else {
                run.roll_back(&fleet, How::KEEP).await.map_err(said)?
            };
            if found != outcome {
                return Err(format!("after {after}: resumed, it ends {found:?}:\n{}", run.report()));
            }
            self.ended_so(&fleet, &wanted, after)
        })
        .await
    }

    /// Law 3 by failures: an undo that fails, before or after it brought anything back, leaves the run stuck, and it is
    /// resumed to the same end.
    pub async fn a_failure_of_any_undo_is_resumed_to_the_same_end(&self, points: Points) -> Result<usize, String> {
        let from = self.turned().await?;
        let (wanted, outcome) = self.rolled_back(&from).await?;
        let waves = |records: Vec<Record>| records.iter().filter(|r| matches!(r, Record::WaveDone { .. })).count();
        let undos = {
            let (fleet, run) = (from.fleet.fork(), from.run.copy(usize::MAX)?);
            run.roll_back(&fleet, How::KEEP).await.map_err(said)?;
            waves(run.records()?)
        };
        for (nth, before) in both(points, undos) {
            let mut fleet = from.fleet.fork();
            if !fleet.fail_undo_at(before, nth as u64) {
                return Err("this kind of fleet cannot fail an undo".to_owned());
            }
            let run = from.run.copy(usize::MAX)?;
            let after = format!("a failure {} undo {nth}", word(before));
            let mut found = run.roll_back(&fleet, How::KEEP).await.map_err(said)?;
            // A step with retries fixes itself.
            if found == Outcome::Stuck && run.records()?.iter().any(|r| matches!(r, Record::UndoFailed { .. })) {
                found = run.resume(&fleet, How::KEEP).await?;
            }
            if found != outcome {
                return Err(format!("after {after}: resumed, it ends {found:?}:\n{}", run.report()));
            }
            self.ended_so(&fleet, &wanted, &after)?;
        }
        Ok(both(points, undos).count())
    }

    /// A run that has something to roll back, and has not begun to: a whole one; of `reset` and `delete-node` one
    /// that failed before anything was deleted.
    async fn turned(&self) -> Result<Before<'_, F>, String> {
        let fleet = self.start.fork();
        let run = Carried::new(&self.setting)?;
        let last = self.plan().steps.iter().rfind(|step| !matches!(step.undo, Undo::Irreversible { .. }));
        let deletes = matches!(self.pipeline, Pipeline::Reset | Pipeline::DeleteNode);
        let drill = last.filter(|_| deletes).map(|step| Drill::FailStep(step.id.clone()));
        let outcome = run.begin(&fleet, &Silent, How { drill, ..How::KEEP }).await?.map_err(said)?;
        match outcome {
            Outcome::Succeeded | Outcome::Failed => Ok(Before { fleet: fleet.fork(), run }),
            other => Err(format!("it ends {other:?}:\n{}", run.report())),
        }
    }

    /// How taking it back ends when nothing disturbs it.
    async fn rolled_back(&self, from: &Before<'_, F>) -> Result<(kubexm_engine::sim::Snapshot, Outcome), String> {
        let (fleet, run) = (from.fleet.fork(), from.run.copy(usize::MAX)?);
        let how = How::KEEP.hooked(Camera::of(fleet.clone(), false));
        let outcome = run.roll_back(&fleet, how).await.map_err(said)?;
        self.unwound(&fleet, &run, outcome, "a rollback")?;
        Ok((fleet.snapshot(), outcome))
    }

    /// Every crash of an attempt, with what it leaves.
    async fn each_crash(
        &self,
        way: Way,
        from: &Before<'_, F>,
        points: Points,
        mut then: impl AsyncFnMut(F, Carried<'_>, &str) -> Result<(), String>,
    ) -> Result<usize, String> {
        let first = from.run.records()?.len();
        let (fleet, run) = (from.fleet.fork(), from.run.copy(first)?);
        let camera = Camera::of(fleet.clone(), true);
        go(way, &fleet, &run, camera.clone()).await?.map_err(said)?;
        let last = run.records()?.len() - first;
        let chosen: BTreeSet<usize> = points.of(last).into_iter().collect();
        let moments = camera.taken.lock().map(|mut taken| std::mem::take(&mut *taken)).unwrap_or_default();
        if moments.is_empty() {
            for (nth, before) in both(points, last) {
                let (fleet, run) = (from.fleet.fork(), from.run.copy(first)?);
                let stopped = go(way, &fleet, &run, StopAt::new(before, nth)).await?;
                if !matches!(stopped, Err(EngineError::Stopped { .. })) {
                    return Err(format!("it was to end at record {nth}: {stopped:?}"));
                }
                then(fleet, run, &format!("a crash {} record {nth} of {last}", word(before))).await?;
            }
        }
        for moment in moments.into_iter().filter(|moment| chosen.contains(&(moment.nth - first))) {
            then(moment.fleet.fork(), run.copy(moment.records)?, &moment.what).await?;
        }
        Ok(2 * chosen.len())
    }
}

async fn go<F: Fleet>(
    way: Way,
    fleet: &F,
    run: &Carried<'_>,
    hook: Arc<dyn Hook>,
) -> Result<Result<Outcome, EngineError>, String> {
    match way {
        Way::Forward => run.begin(fleet, &Silent, How::KEEP.hooked(hook)).await,
        Way::Back => Ok(run.roll_back(fleet, How::KEEP.hooked(hook)).await),
    }
}
