//! Hosts that a run may continue without.

use std::collections::BTreeSet;

use kubexm_engine::events::Silent;
use kubexm_engine::sim::Snapshot;
use kubexm_engine::{Drill, Outcome};
use kubexm_plan::Undo;

use super::case::{CLUSTER, Case, End};
use super::compare::{differences, refuse};
use super::failures::{both, word};
use super::run::{Camera, Carried, How, said};
use super::{Fleet, Points};

impl<F: Fleet> Case<F> {
    /// With one host that may fail: a failure of any step of a host that may be left out ends partial, the host as it was
    /// before and the others as they end undisturbed; `resume` then makes the whole of it. Returns the steps tried.
    pub async fn a_failure_of_any_step_of_an_optional_host_leaves_it_out(
        &self,
        points: Points,
    ) -> Result<usize, String> {
        let (end, _) = self.undisturbed().await?;
        let steps: Vec<_> = self.plan().steps.iter().filter(|step| self.is_optional(step.domain())).collect();
        for nth in points.of(steps.len()) {
            let step = steps[nth - 1];
            let how = How { drill: Some(Drill::FailStep(step.id.clone())), ..how() };
            let (fleet, run) = (self.start.fork(), Carried::new(&self.setting)?);
            let how = how.hooked(Camera::of(fleet.clone(), false));
            let outcome = run.begin(&fleet, &Silent, how).await?.map_err(said)?;
            let after = format!("a failure of {}", step.id);
            if outcome != Outcome::Partial {
                return Err(format!("after {after} it ends {outcome:?}:\n{}", run.report()));
            }
            self.left_out(&fleet, &run, &end, step.domain(), &after).await?;
        }
        Ok(points.of(steps.len()).len())
    }

    /// The same for any change, before or after it was made; one of another host takes everything back. Returns how many
    /// left a host out.
    pub async fn a_failure_of_any_change_leaves_out_one_host_at_most(&self, points: Points) -> Result<usize, String> {
        let (end, _) = self.undisturbed().await?;
        let mut partial = 0;
        for (nth, before) in both(points, end.converges) {
            let mut fleet = self.start.fork();
            fleet.fail_at(before, nth as u64);
            let run = Carried::new(&self.setting)?;
            let outcome = run.begin(&fleet, &Silent, how().hooked(Camera::of(fleet.clone(), false))).await?;
            let outcome = outcome.map_err(said)?;
            let after = format!("a failure {} change {nth}", word(before));
            if outcome == Outcome::Partial {
                let host = run.status()?.left_out.first().map(|left| left.host.clone()).unwrap_or_default();
                self.left_out(&fleet, &run, &end, &host, &after).await?;
                partial += 1;
            } else if outcome == Outcome::Succeeded {
                self.ended_so(&fleet, &end.snapshot, &after)?;
            } else {
                self.unwound(&fleet, &run, outcome, &after)?;
            }
        }
        Ok(partial)
    }

    /// Whether a host of the plan may be left out.
    pub fn has_optional(&self) -> bool {
        self.plan().hosts.iter().any(|host| host.optional && self.plan().steps.iter().any(|s| s.domain() == host.name))
    }

    fn is_optional(&self, host: &str) -> bool {
        self.plan().hosts.iter().any(|known| known.optional && known.name == host)
    }

    async fn left_out(
        &self,
        fleet: &F,
        run: &Carried<'_>,
        end: &End<F>,
        host: &str,
        after: &str,
    ) -> Result<(), String> {
        self.sound(fleet, after)?;
        let (found, start) = (fleet.snapshot(), self.start.snapshot());
        let only = |name: &str, of: &Snapshot| -> Snapshot {
            of.iter().filter(|(known, _)| *known == name).map(|(known, state)| (known.clone(), state.clone())).collect()
        };
        // Behind a step that has no way back a host stays as it is, and the run says which step that is.
        let stays = self.stays(run, host)?;
        let mut lines = match stays {
            true => Vec::new(),
            false => differences(&only(host, &found), &only(host, &start), &BTreeSet::new()),
        };
        // Of the cluster what is of the host is as before, and all else as in the end.
        let mut wanted = end.snapshot.clone();
        let of_host = if stays { found.get(CLUSTER) } else { start.get(CLUSTER) };
        if let (Some(cluster), Some(before)) = (wanted.get_mut(CLUSTER), of_host) {
            cluster.retain(|key, _| !is_of(key, host));
            cluster.extend(before.iter().filter(|(key, _)| is_of(key, host)).map(|(k, v)| (k.clone(), v.clone())));
        }
        lines.extend(differences(&found, &wanted, &BTreeSet::from([host.to_owned()])));
        refuse(lines, after)?;
        let outcome = run.resume(fleet, how()).await?;
        if outcome != Outcome::Succeeded {
            return Err(format!("after {after}: resumed, it ends {outcome:?}:\n{}", run.report()));
        }
        self.ended_so(fleet, &end.snapshot, &format!("{after}, resumed"))
    }

    /// Whether a host that was left out stays as it is because one of its steps cannot be rolled back.
    fn stays(&self, run: &Carried<'_>, host: &str) -> Result<bool, String> {
        let left = run.status()?.left_out.into_iter().find(|left| left.host == host);
        let Some(why) = left.and_then(|left| left.left_as_it_is) else { return Ok(false) };
        let of_host = self.plan().steps.iter().filter(|step| step.domain() == host);
        let mut one_way = of_host.filter(|step| matches!(step.undo, Undo::Irreversible { .. }));
        Ok(one_way.any(|step| why.starts_with(&format!("{} cannot be rolled back", step.id))))
    }
}

/// Whether a key of the cluster is of one host: one of its words, between colons.
fn is_of(key: &str, host: &str) -> bool {
    key.split(':').any(|word| word == host)
}

fn how() -> How {
    How { max_failed_hosts: 1, ..How::ROLLBACK }
}
