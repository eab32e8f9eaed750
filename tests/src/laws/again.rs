//! A second run.

use kubexm_engine::Outcome;
use kubexm_engine::events::Recorder;
use kubexm_engine::journal::Record;
use kubexm_plan::Pipeline;
use kubexm_spec::event::{EventKind, StepOutcome};

use super::Fleet;
use super::case::Case;
use super::compare::same;
use super::run::{Carried, How, said};

impl<F: Fleet> Case<F> {
    /// Law 4: every step of a second run is satisfied, and hosts and journal show no change. Of `reset` and
    /// `delete-node` a new plan has nothing to do at all.
    pub async fn a_second_run_changes_nothing(&self) -> Result<(), String> {
        let (end, _) = self.undisturbed().await?;
        let run = Carried::new(&self.setting)?;
        let events = Recorder::default();
        let outcome = run.begin(&end.fleet, &events, How::KEEP).await?.map_err(said)?;
        if outcome != Outcome::Succeeded {
            return Err(format!("the second run ends {outcome:?}:\n{}", run.report()));
        }
        for event in events.events() {
            if let EventKind::StepEnded { step, outcome, .. } = event.kind
                && outcome != StepOutcome::Satisfied
            {
                return Err(format!("{step} of the second run is {outcome:?}"));
            }
        }
        if let Some(record) = run.records()?.into_iter().find(|r| matches!(r, Record::StepPrepared { .. })) {
            return Err(format!("the second run prepared a change: {record:?}"));
        }
        if end.fleet.converges() != end.converges as u64 {
            return Err("the second run changed something".to_owned());
        }
        same(&end.fleet.snapshot(), &end.snapshot, "a second run")?;
        if matches!(self.pipeline, Pipeline::Reset | Pipeline::DeleteNode) {
            let again = self.planned_again(&end.fleet).await?;
            if let Some(step) = again.plan.plan().steps.first() {
                return Err(format!("planned anew after it was done, it has {}", step.id));
            }
        }
        Ok(())
    }
}
