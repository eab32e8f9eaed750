//! A whole plan.

use std::collections::BTreeMap;
use std::time::Duration;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::cluster_id::ClusterId;
use crate::id::StepId;
use crate::pipeline::Pipeline;
use crate::slot::{SlotName, SlotProvider};
use crate::step::Step;

/// The host name of steps that run on the controller; no host can have this name.
pub const CONTROLLER: &str = "@controller";

/// The operator's kubeconfig on the controller, below the folder of the cluster: the only file that a plan may write there.
pub const OPERATOR_KUBECONFIG: &str = "/kubeconfig";

/// Everything a run will do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// [`crate::SCHEMA`] for new plans; a plan that was read keeps its own.
    pub schema: u32,
    /// The pipeline that made it.
    pub pipeline: Pipeline,
    /// `metadata.name`.
    pub cluster_name: String,
    /// The cluster's id; none for a cluster that was created before ids existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<ClusterId>,
    /// Digest of the bytes of the cluster.yaml that was planned.
    pub cluster: Digest,
    /// Digest of the bundle's manifest.json; none for a pipeline without a bundle (`reset`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<Digest>,
    /// Hosts in the order of cluster.yaml.
    pub hosts: Vec<PlanHost>,
    /// The most hosts that are changed at the same time.
    pub fleet_concurrency: usize,
    /// The most steps of one host that run at the same time; beside them run up to ten that only install into the cluster
    /// ([`crate::Step::is_into_cluster`]).
    pub host_concurrency: usize,
    /// Providers of values that are made during the run, by name; never the values.
    pub slots: BTreeMap<SlotName, SlotProvider>,
    /// File contents by digest; stored next to the plan, not in it.
    #[serde(skip)]
    pub texts: Texts,
    /// Sorted so that each step comes after the steps in its `after`.
    pub steps: Vec<Step>,
}

/// File contents by digest. Never secrets.
pub type Texts = BTreeMap<Digest, String>;

/// A host as the engine needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanHost {
    /// Name in cluster.yaml.
    pub name: String,
    /// Roles, for people: `control-plane`, `worker`, `registry`.
    pub roles: Vec<String>,
    /// Whether the run may continue without it when one of its steps fails (a host that is only a worker). See
    /// [`Step::after_end`].
    #[serde(default, rename = "expendable")]
    pub optional: bool,
}

impl Plan {
    /// Adds a text and returns its digest, by which ops refer to it.
    pub fn text(&mut self, text: impl Into<String>) -> Digest {
        let text = text.into();
        let digest = Digest::of(&text);
        self.texts.insert(digest, text);
        digest
    }

    /// Whether some step runs on the controller. Plans of earlier versions have none.
    pub fn has_controller_steps(&self) -> bool {
        self.steps.iter().any(|step| step.host == CONTROLLER)
    }

    /// Whether it was made for a cluster that was adopted, and whose hosts do no other plan's steps ([`Step::of_adopted`]).
    pub fn is_of_adopted(&self) -> bool {
        self.steps.iter().any(|step| step.of_adopted.is_some())
    }

    /// The longest time limit of a step.
    pub fn longest_step(&self) -> Duration {
        self.steps.iter().map(|step| Duration::from_secs(step.timeout_s)).max().unwrap_or_default()
    }

    /// A step by id.
    pub fn step(&self, id: &StepId) -> Option<&Step> {
        self.steps.iter().find(|s| s.id == *id)
    }

    /// Digest of the plan's canonical JSON; it covers the texts, since ops refer to them by digest.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        Ok(Digest::of(serde_json::to_vec(&self.to_json()?)?))
    }
}
