//! Plans as data: what shall hold on which host, in which order, and how each step is taken back.
//!
//! A plan leaves the executor no choice. Nothing here does IO; everything is serialisable, because ops travel
//! to the machine they run on.

pub mod facts;
pub mod found;
pub mod ledger;
pub mod lint;
pub mod mesh;
pub mod op;
pub mod pipeline;
mod reads;
mod render;
pub mod reset;
pub mod schema;
pub mod state_folders;
pub mod step;
pub mod touch;
pub mod undo;
pub mod wave;

use std::collections::BTreeMap;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

pub use facts::Facts;
pub use found::{Found, ProbeAnswer, Survey};
pub use lint::{CheckedPlan, Problem, Severity};
pub use op::{Act, Op, Probe};
pub use pipeline::{Invariant, Pipeline};
pub use reset::{Leaves, Reset};
pub use schema::SCHEMA;
pub use step::{OVER_NETWORK, Step, StepBuilder, StepId};
pub use undo::Undo;
pub use wave::Wave;

/// Everything a run will do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// [`SCHEMA`] of what is made now; a plan that was read keeps its own.
    pub schema: u32,
    /// Which pipeline made it.
    pub pipeline: Pipeline,
    /// `metadata.name`.
    pub cluster_name: String,
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
    /// A failure domain of its own: when one of its steps fails, the run may go on without it (a host that is a
    /// worker and nothing else). See [`Step::settled`].
    #[serde(default)]
    pub expendable: bool,
}

/// The name of a slot: a value that exists only while running.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SlotName(pub String);

/// Who makes a slot's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SlotProvider {
    /// The cluster's registry CA certificate (PEM), kept in the controller's pki folder; not secret.
    RegistryCa,
    /// A server certificate chain (PEM) signed by the registry CA; not secret.
    RegistryCert {
        /// DNS names and addresses.
        sans: Vec<String>,
    },
    /// The key (PEM, PKCS#8) of the server certificate of another slot.
    RegistryKey {
        /// The certificate's slot.
        cert: SlotName,
    },
    /// A bootstrap token, made on a control plane; secret.
    JoinToken {
        /// Control plane that makes it.
        host: String,
    },
    /// `sha256:<hex>` over the public key of the cluster's CA (kubeadm's `caCertHashes`), read on a control plane;
    /// not secret.
    CaCertHash {
        /// Control plane where it is read.
        host: String,
    },
    /// The key under which the control plane's certificates were uploaded just now; secret.
    CertificateKey {
        /// Control plane that uploads them.
        host: String,
    },
}

impl SlotProvider {
    /// Whether the value may never be shown or stored outside its owner's file.
    pub const fn secret(&self) -> bool {
        matches!(self, Self::RegistryKey { .. } | Self::JoinToken { .. } | Self::CertificateKey { .. })
    }

    /// The host that makes the value. Such a slot is filled only when a step that reads it was found wanting, and anew
    /// when the value is old; the others are kept by the controller and are the same in every run.
    pub fn made_on(&self) -> Option<&str> {
        match self {
            Self::JoinToken { host } | Self::CaCertHash { host } | Self::CertificateKey { host } => Some(host),
            Self::RegistryCa | Self::RegistryCert { .. } | Self::RegistryKey { .. } => None,
        }
    }
}

impl Plan {
    /// Adds a text and returns its digest, by which ops name it.
    pub fn text(&mut self, text: impl Into<String>) -> Digest {
        let text = text.into();
        let digest = Digest::of(&text);
        self.texts.insert(digest, text);
        digest
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
