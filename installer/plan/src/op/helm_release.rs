//! A chart of the bundle, installed by helm.

use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};
use crate::slot::SlotName;

/// The program; it is the bundle's.
pub const HELM: &str = "/usr/local/bin/helm";

/// A release of a chart, installed or upgraded by helm with the admin kubeconfig.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HelmRelease {
    /// Of the release.
    pub name: String,
    /// Of the release, and of its objects that name none. It is created if it does not exist.
    pub namespace: String,
    /// The chart's archive, a blob of the node's content store.
    pub chart: Digest,
    /// [`ReleaseInput`] as JSON, a text of the plan.
    pub input: Digest,
    /// Slots whose values go into strings of the values, in place of their [`SlotName::placeholder`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotName>,
    /// How long helm waits for the release's objects, and for each hook, in seconds.
    pub wait_s: u64,
}

/// What helm is given, and what it may install.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseInput {
    /// Values, laid over the chart's own.
    pub values: Map<String, Value>,
    /// Full references of the images that the bundle has: a rendering that names another is refused.
    pub images: Vec<String>,
    /// Texts that look like images and are none (`spec.bundle.ignoreImages`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// The state of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Released {
    /// There is no cluster, or it does not answer.
    Unknown,
    /// There is no release of this name in the namespace.
    Absent {
        /// Whether the namespace exists.
        namespace: bool,
    },
    /// There is one.
    There(FoundRelease),
}

/// A release in a cluster, by its last revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FoundRelease {
    /// From 1; each install, upgrade and rollback makes one.
    pub revision: u32,
    /// `deployed`, `failed`, `pending-upgrade` …
    pub status: String,
    /// Name and version of its chart, for people: `web-1.2.3`.
    pub chart: String,
    /// The blob that it was installed from, as far as a label can hold its digest; none if somebody else installed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Digest of its values.
    pub values: Digest,
    /// Digest of its objects as they were rendered.
    pub objects: Digest,
    /// Its objects that are missing, or are not as they were rendered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drifted: Vec<String>,
}

impl FoundRelease {
    /// Whether helm has finished with it.
    pub fn is_deployed(&self) -> bool {
        self.status == "deployed"
    }
}

impl OpKind for HelmRelease {
    type State = Released;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let slots = self.slots.iter().map(|slot| format!(" {}", slot.placeholder()));
        let value = format!("{} {}{}", self.chart, self.input, slots.collect::<String>());
        vec![ResourceChange::sets(
            Resource::Release { namespace: self.namespace.clone(), name: self.name.clone() },
            value,
        )]
    }

    fn needs(&self) -> Needs<'_> {
        let resources = vec![Resource::Path(HELM.to_owned()), Resource::AdminConf, Resource::Api];
        Needs { slots: &self.slots, text: Some(self.input), blobs: vec![self.chart], resources }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for HelmRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, namespace, chart, input, .. } = self;
        write!(f, "release {namespace}/{name} of chart {} with values of {}", chart.short(), input.short())?;
        match self.slots.as_slice() {
            [] => Ok(()),
            slots => {
                let slots: Vec<&str> = slots.iter().map(|slot| slot.0.as_str()).collect();
                write!(f, " and slot {}", slots.join(", "))
            }
        }
    }
}

impl State for Released {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    /// A rollback makes a new revision with the objects and values of an earlier one.
    fn is_back(&self, then: &Self) -> Option<bool> {
        match (self, then) {
            (Self::There(now), Self::There(then)) => Some(
                (&now.objects, &now.values, now.is_deployed()) == (&then.objects, &then.values, then.is_deployed()),
            ),
            (Self::Absent { .. }, Self::Absent { .. }) => Some(true),
            _ => Some(false),
        }
    }
}
