//! A whole plan.

use std::collections::BTreeMap;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::cluster_id::ClusterId;
use crate::id::StepId;
use crate::pipeline::Pipeline;
use crate::slot::{SlotName, SlotProvider};
use crate::step::Step;

/// What steps of this machine have in the place of a host's name; a host cannot be called that.
pub const CONTROLLER: &str = "@controller";

/// Everything a run will do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// [`crate::SCHEMA`] of what is made now; a plan that was read keeps its own.
    pub schema: u32,
    /// Which pipeline made it.
    pub pipeline: Pipeline,
    /// `metadata.name`.
    pub cluster_name: String,
    /// Which cluster of that name; none of a cluster that was made before there were ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<ClusterId>,
    /// Digest over the bytes of the cluster.yaml that was planned.
    pub cluster: Digest,
    /// Digest of the bundle's manifest.json; none for a pipeline that needs no bundle (`reset`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<Digest>,
    /// Hosts in the order of cluster.yaml.
    pub hosts: Vec<PlanHost>,
    /// How many hosts work at once.
    pub fleet_concurrency: usize,
    /// How many steps of one host run at once.
    pub host_concurrency: usize,
    /// Values made while running, by name; never their content.
    pub slots: BTreeMap<SlotName, SlotProvider>,
    /// File contents by digest; stored beside the plan, not in it.
    #[serde(skip)]
    pub texts: Texts,
    /// In an order that respects `after`.
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
    /// Roles for people: `control-plane`, `worker`, `registry`.
    pub roles: Vec<String>,
    /// A failure domain of its own: when one of its steps fails, the run may continue without it (a host that is a
    /// worker and nothing else). See [`Step::settled`].
    #[serde(default, rename = "expendable")]
    pub optional: bool,
}

impl Plan {
    /// Adds a text and returns its digest, by which ops name it.
    pub fn text(&mut self, text: impl Into<String>) -> Digest {
        let text = text.into();
        let digest = Digest::of(&text);
        self.texts.insert(digest, text);
        digest
    }

    /// Whether some step is the controller's own. Plans of earlier programs have none.
    pub fn has_controller_steps(&self) -> bool {
        self.steps.iter().any(|step| step.host == CONTROLLER)
    }

    /// A step by id.
    pub fn step(&self, id: &StepId) -> Option<&Step> {
        self.steps.iter().find(|s| s.id == *id)
    }

    /// Digest over the canonical JSON of the plan; texts are covered, since ops name them by digest.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        Ok(Digest::of(serde_json::to_vec(&self.to_json()?)?))
    }
}
