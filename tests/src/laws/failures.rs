//! What a failure of any change leads to: back to the state before, or kept and resumed.

use kubexm_engine::events::Silent;
use kubexm_engine::{OnFailure, Outcome};

use super::case::{Case, End};
use super::run::{Camera, Carried, How, said};
use super::{Fleet, Points};

impl<F: Fleet> Case<F> {
    /// Law 1: a failure of any change, before or after it was made, unwinds to the state before the run. Returns how many
    /// were tried.
    pub async fn a_failure_anywhere_unwinds_to_the_state_before(&self, points: Points) -> Result<usize, String> {
        let (end, _) = self.undisturbed().await?;
        let mut tried = 0;
        for (nth, before) in both(points, end.converges) {
            let after = format!("a failure {} change {nth}", word(before));
            let (fleet, run, outcome) = self.failing(nth, before, How::ROLLBACK).await?;
            match outcome {
                // A step with retries fixes itself.
                Outcome::Succeeded => self.ended_so(&fleet, &end.snapshot, &after)?,
                Outcome::Stuck => {
                    self.unwound(&fleet, &run, outcome, &after)?;
                    self.begun_again(&fleet, &end, &after).await?;
                }
                outcome => self.unwound(&fleet, &run, outcome, &after)?,
            }
            run.shows_no_secret()?;
            tried += 1;
        }
        Ok(tried)
    }

    /// Law 2: kept after a failure of any change, it is resumed to the same end, and can be rolled back then.
    pub async fn a_failure_that_is_kept_resumes_to_the_same_end(&self, points: Points) -> Result<usize, String> {
        let (end, _) = self.undisturbed().await?;
        let mut tried = 0;
        for (nth, before) in both(points, end.converges) {
            let after = format!("a failure {} change {nth} that was kept", word(before));
            let (fleet, run, outcome) = self.failing(nth, before, How::KEEP).await?;
            let outcome = match outcome {
                Outcome::Failed => run.resume(&fleet, How::KEEP).await.map_err(|e| format!("after {after}: {e}"))?,
                other => other,
            };
            if outcome != Outcome::Succeeded {
                return Err(format!("after {after}: resumed, it ends {outcome:?}:\n{}", run.report()));
            }
            self.ended_so(&fleet, &end.snapshot, &after)?;
            tried += 1;
        }
        Ok(tried)
    }

    /// Law 2 inside an Act: the first run ends half-way through one.
    pub async fn a_half_done_act_resumes_to_the_same_end(&self, break_it: impl Fn(&F)) -> Result<(), String> {
        let (end, _) = self.undisturbed().await?;
        let fleet = self.start.fork();
        break_it(&fleet);
        let run = Carried::new(&self.setting)?;
        let outcome = run.begin(&fleet, &Silent, How::KEEP).await?.map_err(said)?;
        if outcome != Outcome::Failed {
            return Err(format!("the act was to end half-way, and the run ends {outcome:?}"));
        }
        let outcome = run.resume(&fleet, How::KEEP).await?;
        if outcome != Outcome::Succeeded {
            return Err(format!("after a half-done act it ends {outcome:?}:\n{}", run.report()));
        }
        self.ended_so(&fleet, &end.snapshot, "a half-done act")
    }

    /// Law 1 inside an Act: the run ends half-way through one, and is rolled back.
    pub async fn a_half_done_act_unwinds_to_the_state_before(&self, break_it: impl Fn(&F)) -> Result<(), String> {
        let fleet = self.start.fork();
        break_it(&fleet);
        let run = Carried::new(&self.setting)?;
        let outcome = run.begin(&fleet, &Silent, How::ROLLBACK).await?.map_err(said)?;
        self.unwound(&fleet, &run, outcome, "a half-done act")
    }

    /// What cannot be rolled back is resumed: by a new run, from hosts as they are.
    async fn begun_again(&self, fleet: &F, end: &End<F>, after: &str) -> Result<(), String> {
        let setting = self.planned_again(fleet).await?;
        let run = Carried::new(&setting)?;
        let outcome = run.begin(fleet, &Silent, How::KEEP).await?.map_err(said)?;
        if outcome != Outcome::Succeeded {
            return Err(format!("after {after}: begun again, it ends {outcome:?}:\n{}", run.report()));
        }
        self.ended_so(fleet, &end.snapshot, &format!("{after}, begun again"))
    }

    async fn failing(&self, nth: usize, before: bool, how: How) -> Result<(F, Carried<'_>, Outcome), String> {
        let mut fleet = self.start.fork();
        fleet.fail_at(before, nth as u64);
        let run = Carried::new(&self.setting)?;
        let keeps = how.on_failure == OnFailure::Keep;
        let how = if keeps { how } else { how.hooked(Camera::of(fleet.clone(), false)) };
        let outcome = run.begin(&fleet, &Silent, how).await?.map_err(said)?;
        Ok((fleet, run, outcome))
    }
}

pub(super) fn both(points: Points, last: usize) -> impl Iterator<Item = (usize, bool)> {
    points.of(last).into_iter().flat_map(|nth| [(nth, true), (nth, false)])
}

pub(super) fn word(before: bool) -> &'static str {
    if before { "before" } else { "after" }
}
