//! Images, objects and nodes.

use std::collections::BTreeSet;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

/// An image in containerd's `k8s.io` namespace, pinned against image GC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageLoaded {
    /// `registry.k8s.io/pause:3.10.1`.
    pub reference: String,
    /// What the reference must resolve to.
    pub digest: Digest,
    /// `linux/amd64`.
    pub platform: String,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "ImageSource::is_registry")]
    pub source: ImageSource,
}

/// Where an image comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ImageSource {
    /// Pulled from the cluster's registry, as containerd was pointed at it.
    #[default]
    Registry,
    /// Imported from the node's content store.
    Store {
        /// The index (or single manifest), the platform's manifest, config and layers.
        blobs: BTreeSet<Digest>,
    },
}

impl ImageSource {
    /// Whether it is the registry.
    pub const fn is_registry(&self) -> bool {
        matches!(self, Self::Registry)
    }
}

/// admin.conf for a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kubeconfig {
    /// User of the node; its home's `.kube/config` is written, owned by it.
    pub user: String,
}

/// Objects applied with the admin kubeconfig (server-side apply, field manager `kubexm`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeObject {
    /// For people and for the applied-stamp: `flannel`.
    pub name: String,
    /// YAML documents, a text of the plan.
    pub text: Digest,
}

/// A taint that must not be on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeUntainted {
    /// Node name.
    pub node: String,
    /// `node-role.kubernetes.io/control-plane`.
    pub key: String,
}

/// A label that must be on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeLabel {
    /// Node name.
    pub node: String,
    /// Key.
    pub key: String,
    /// Value.
    pub value: String,
}

/// Whose node this is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stamp {
    /// `metadata.name`.
    pub cluster: String,
}
