//! A run that added members of etcd was cut off, and nobody knows it any more: the next `create` completes what it has left.

use std::sync::Arc;

use kubexm_engine::events::Silent;
use kubexm_engine::{Drill, Outcome};
use kubexm_plan::{Pipeline, StepId};

use super::case::Case;
use super::plans::running;
use super::run::{Carried, How, Setting, said};
use super::{Fleet, Rooted};
use crate::samples::Sample;

impl Case<Rooted> {
    /// The `create` after an `add-node` of the sample that ended right after this step.
    pub async fn of_cut_off(sample: &Sample, last: &str) -> Result<Self, String> {
        let added = Self::of(sample, Pipeline::AddNode).await?;
        let start = added.start().fork();
        let run = Carried::new(&added.setting)?;
        let how = How { drill: Some(Drill::FailStep(StepId(last.to_owned()))), ..How::KEEP };
        let outcome = run.begin(&start, &Silent, how).await?.map_err(said)?;
        if outcome != Outcome::Failed {
            return Err(format!("with {last} as its last step it ends {outcome:?}:\n{}", run.report()));
        }
        let start = start.fork();
        start.live();
        let sample = &added.sample;
        let mut facts = sample.facts_before_add_node();
        for (name, link) in start.links() {
            let (found, Some(here)) = (link.facts().await.map_err(said)?, facts.get_mut(&name)) else { continue };
            (here.joined, here.stamp, here.etcd_formed) = (found.joined, found.stamp, found.etcd_formed);
            (here.kubeadm_config, here.kubeadm_config_text) = (found.kubeadm_config, found.kubeadm_config_text);
        }
        let (bundle, plan) = sample.plan_create_again(&facts, &running(sample, &start).await?)?;
        let setting = Setting { name: "create".to_owned(), plan, bundle: Arc::new(bundle), ..added.setting };
        let name = format!("create after an add-node that ended with {last}, of {}", sample.name);
        Ok(Self { name, pipeline: Pipeline::Create, setting, start, sample: *sample, fresh: added.fresh })
    }
}
