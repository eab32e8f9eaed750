//! After a failure since hosts are out of reach: the operator decides what becomes of the others.

use kubexm_engine::execute::roll_back;
use kubexm_engine::{ExecuteOptions, Links, Outcome, Run};
use kubexm_plan::{CONTROLLER, Pipeline, Plan};

use super::driver::RunDriver;
use crate::confirm::{OutOfReach, WithoutThem};
use crate::error::SessionError;
use crate::events;

impl RunDriver<'_> {
    /// Asks whether the run is kept, if hosts out of reach are why it failed, and rolls the others back if not. Without
    /// such hosts the outcome is unchanged.
    pub(super) async fn keep_or_roll_back(
        &self,
        outcome: Outcome,
        (run, links): (&mut Run, &Links),
        options: ExecuteOptions,
    ) -> Result<Outcome, SessionError> {
        let (id, lost) = (run.id().to_string(), run.lost().to_vec());
        let plan = self.plan.plan();
        if outcome != Outcome::Failed || lost.is_empty() {
            // A step may have waited for it in vain, and what was done has no way back.
            if matches!(outcome, Outcome::Failed | Outcome::Stuck) {
                self.say_without(plan, links);
            }
            return Ok(outcome);
        }
        let question = OutOfReach { cluster: &self.home.name, run: &id, plan, lost: &lost, others: others(plan, run) };
        if self.session.confirm.out_of_reach(&question).await == WithoutThem::Keep {
            self.say_without(plan, links);
            return Ok(outcome);
        }
        events::note(self.session.events, format!("rolling back run {id} on the hosts that can be reached"));
        let options = ExecuteOptions { skip_unreachable: true, ..options };
        let command = options.rollback_command.clone();
        let outcome = roll_back(self.plan, links, run, self.session.events, options).await;
        outcome.map_err(|error| SessionError::Stopped { error: Box::new(error), command })
    }

    /// Says what can be done if hosts that are out of reach now do not come back.
    fn say_without(&self, plan: &Plan, links: &Links) {
        let gone = links.iter().filter(|(_, link)| link.lost_for().is_some()).map(|(host, _)| host.as_str());
        if let Some(text) = without_them(plan, &gone.collect::<Vec<_>>()) {
            events::note(self.session.events, text);
        }
    }
}

/// What can be done where a host of an upgrade has died: a run that waits for it would wait for ever.
fn without_them(plan: &Plan, gone: &[&str]) -> Option<String> {
    (plan.pipeline == Pipeline::Upgrade && !gone.is_empty()).then(|| {
        let names = gone.join(" ");
        format!(
            "if {} cannot come back: `kubexm-install delete-node {names} --unreachable skip` takes it out of the cluster, \
             `kubexm-install add-node {names}` with the bundle of this upgrade brings a new host of that name (or remove it from \
             cluster.yaml), and `kubexm-install upgrade` does the rest",
            gone.join(", ")
        )
    })
}

/// The hosts of a plan that answer, with the number of steps that the run has changed on each.
fn others<'a>(plan: &'a Plan, run: &Run) -> Vec<(&'a str, usize)> {
    // One that answers again by now is rolled back like the others.
    let is_away = |host: &str| run.lost().iter().any(|lost| lost.host == host && lost.gone.is_some());
    let answers = |host: &&str| *host != CONTROLLER && !is_away(host);
    let changed = |host: &str| {
        let steps = plan.steps.iter().filter(|step| step.host == host);
        steps.filter(|step| run.replay().step(&step.id).changed()).count()
    };
    let hosts = plan.hosts.iter().map(|host| host.name.as_str()).filter(answers);
    hosts.map(|host| (host, changed(host))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use kubexm_recipes::sample;

    use super::*;

    #[test]
    fn what_can_be_done_without_a_host_that_has_died_in_an_upgrade_is_said() {
        let mut plan = sample::plan(&sample::cluster()).unwrap();
        assert_eq!(without_them(&plan, &["cp2"]), None);
        plan.pipeline = Pipeline::Upgrade;
        let text = without_them(&plan, &["cp2", "w1"]).unwrap();
        assert!(text.contains("if cp2, w1 cannot") && text.contains("delete-node cp2 w1 --unreachable skip"), "{text}");
        assert_eq!(without_them(&plan, &[]), None);
    }
}
