//! `kubeadm upgrade`.

use std::collections::BTreeMap;
use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::kind::{ActKind, Review};
use super::upgrade_of::UpgradeOf;
use crate::kind::Needs;
use crate::resource::{Resource, ResourceChange};

/// `kubeadm upgrade apply` or `kubeadm upgrade node` with the kubeadm of this version. Done: our mark has the version and the settings,
/// and a control plane's static pods have its images. It can be repeated: half done, it is run again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeadmUpgrade {
    /// `v1.35.4`.
    pub version: String,
    /// What is upgraded here.
    pub of: UpgradeOf,
    /// On a control plane, the images that its static pods have afterwards, by the names of their manifests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, String>,
    /// Folder with patches that kubeadm applies to its own files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patches: Option<String>,
    /// Preflight checks of kubeadm to ignore, from the support matrix.
    pub ignore: Vec<String>,
    /// Phases of kubeadm to skip, `addon/kube-proxy` where the cluster has none: it would make what it does not find.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip_phases: Vec<String>,
    /// kubeadm's etcd runs with the settings that it is to have: where its image is the bundle's as well, it may be left alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub same_etcd: bool,
    /// Of the configuration of the cluster, where it has other settings than the nodes: the version does not say that they have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Digest>,
}

impl ActKind for KubeadmUpgrade {
    fn title(&self) -> &'static str {
        match self.of {
            UpgradeOf::Cluster { .. } => "kubeadm upgrade apply",
            UpgradeOf::ControlPlane => "kubeadm upgrade node, control plane",
            UpgradeOf::Worker => "kubeadm upgrade node, worker",
        }
    }

    fn resource_changes(&self) -> Vec<ResourceChange> {
        // Only parts of what an init or a join has made: a reset finds those in the ledger.
        let plane = self.of.is_control_plane().then(|| ResourceChange::unknown(Resource::ControlPlane));
        let config = ResourceChange::unknown(Resource::State("/var/lib/kubelet/config.yaml".to_owned()));
        plane.into_iter().chain([config]).collect()
    }

    fn needs(&self) -> Needs<'_> {
        let mut resources = vec![Resource::Api, Resource::Runtime];
        if let UpgradeOf::Cluster { config: Some(config) } = &self.of {
            resources.push(Resource::Path(config.clone()));
        }
        Needs { resources, ..Needs::nothing() }
    }

    fn review(&self) -> Review {
        match self.of {
            UpgradeOf::Cluster { .. } => Review {
                not_a_state: "It rewrites what kubeadm has made on a control plane, in an order that only kubeadm of \
                      the new version knows, and waits for each static pod.",
                done: "Our mark says that it ended well for this version, and with these settings where they are others, and the manifests of the \
                      four static pods name the bundle's images.",
                half_done: "A unit that still runs is awaited. Otherwise the cluster's config is uploaded, unless an \
                      adopted cluster keeps its own, and `kubeadm upgrade apply` is run again: upstream documents that it can be repeated, and it \
                      restores manifests by itself if a pod does not start.",
                rollback: "None: etcd and the API server may have written data of the new version. The prompt lists \
                      it before it asks; the data of before is in the snapshot that was taken, or in your own of an etcd of yours.",
            },
            UpgradeOf::ControlPlane => Review {
                not_a_state: "As `kubeadm upgrade apply`, for the static pods of a further control plane.",
                done: "As for `kubeadm upgrade apply`.",
                half_done: "A unit that still runs is awaited. Otherwise it is run again from its start.",
                rollback: "None, as for `kubeadm upgrade apply`.",
            },
            UpgradeOf::Worker => Review {
                not_a_state: "kubelet's configuration of the new version comes from the cluster and is completed by \
                      kubeadm.",
                done: "Our mark says that it ended well for this version, and with these settings where they are others.",
                half_done: "A unit that still runs is awaited. Otherwise it is run again; the files from before the \
                      first attempt are in the mark.",
                rollback: "kubelet's configuration as it was, from the mark.",
            },
        }
    }

    fn effect(&self) -> Effect<'_> {
        Effect::UpgradesNode { version: &self.version, of: &self.of }
    }
}

impl fmt::Display for KubeadmUpgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            UpgradeOf::Cluster { config } => {
                let config = config.as_deref().unwrap_or("the cluster's own config");
                write!(f, "act kubeadm upgrade apply {} with {config}", self.version)?;
            }
            UpgradeOf::ControlPlane => write!(f, "act kubeadm upgrade node to {} as control plane", self.version)?,
            UpgradeOf::Worker => write!(f, "act kubeadm upgrade node to {} as worker", self.version)?,
        }
        if let Some(patches) = &self.patches {
            write!(f, ", patched by {patches}")?;
        }
        if !self.skip_phases.is_empty() {
            write!(f, ", without {}", self.skip_phases.join(", "))?;
        }
        if self.settings.is_some() {
            f.write_str(", with other settings")?;
        }
        if self.ignore.is_empty() { Ok(()) } else { write!(f, ", ignoring {}", self.ignore.join(", ")) }
    }
}
