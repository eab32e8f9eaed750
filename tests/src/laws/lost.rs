//! A control plane that was lost: the cluster runs on without it, and its host is there again with nothing on it.

use std::sync::Arc;

use kubexm_plan::Pipeline;

use super::case::Case;
use super::plans::{delete_plan, running};
use super::run::Setting;
use super::{Fleet, Rooted};
use crate::samples::Sample;

impl Case<Rooted> {
    /// What is left of it in the cluster is deleted. `sample` made the cluster, `now` is its cluster.yaml since, which names the host that
    /// was lost as the one to delete and to add.
    pub async fn of_lost(sample: &Sample, now: &Sample) -> Result<Self, String> {
        let made = Self::of(sample, Pipeline::Create).await?;
        let start = made.carried_out().await?.fork();
        start.live();
        let host = now.deleted.first().ok_or("the sample names no host that was lost")?;
        start.lose(host, made.start());
        let now = now.occupied();
        let setting =
            Setting { name: "delete-node".to_owned(), plan: delete_plan(&now, &start).await?, ..made.setting };
        let name = format!("delete-node of a host that was lost, of {}", now.name);
        Ok(Self { name, pipeline: Pipeline::DeleteNode, setting, start, sample: now, fresh: made.fresh })
    }

    /// The same host joins again, as the cluster is after [`Case::of_lost`].
    pub async fn comes_back(&self) -> Result<Self, String> {
        let start = self.carried_out().await?.fork();
        let (bundle, plan) = self.sample.plan_add_node_to(&running(&self.sample, &start).await?)?;
        let setting = Setting { name: "add-node".to_owned(), plan, bundle: Arc::new(bundle), ..self.setting.clone() };
        let name = format!("add-node of a host that was lost, of {}", self.sample.name);
        Ok(Self { name, pipeline: Pipeline::AddNode, setting, start, sample: self.sample, fresh: self.fresh.clone() })
    }

    /// Why the host cannot be added before what is left of it was deleted.
    pub async fn refused_before(&self) -> Result<String, String> {
        let running = running(&self.sample, &self.start).await?;
        match self.sample.plan_add_node_to(&running) {
            Ok(_) => Err("it was planned".to_owned()),
            Err(why) => Ok(why),
        }
    }
}
