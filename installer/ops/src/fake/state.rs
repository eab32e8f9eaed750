//! State that the fake keeps between programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kubexm_spec::Digest;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rooted::{FOLDER, RootedSystem};
use crate::OpError;

const FILE: &str = "state.json";
const CLUSTER: &str = "cluster.json";

/// The fake's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct State {
    /// By unit name.
    pub units: BTreeMap<String, Unit>,
    /// Digest of each unit file when systemd last read it.
    pub known: BTreeMap<String, Digest>,
    /// Incremented with every start of a unit, for invocation ids.
    pub starts: u64,
    /// The runtime's images by name.
    pub images: BTreeMap<String, Image>,
    /// The container of its API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server: Option<StaticPod>,
    /// The containers of its other static pods, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub static_pods: BTreeMap<String, StaticPod>,
    /// The cluster of this host; for several hosts it is in the folder that they share.
    #[serde(flatten)]
    pub cluster: Cluster,
    /// Harbor's data volume.
    #[serde(skip_serializing_if = "is_default")]
    pub harbor: super::harbor_state::Harbor,
    /// It was not written to a file yet.
    #[serde(skip)]
    unsaved: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The usual folder of etcd's data.
pub(super) const ETCD_FOLDER: &str = "/var/lib/etcd";

/// A cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Cluster {
    /// Applied documents by `Kind/name`.
    pub objects: BTreeMap<String, String>,
    /// Secrets of helm's revisions by `namespace/name` of their release.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub releases: BTreeMap<String, Vec<Value>>,
    /// Node objects by name.
    pub nodes: BTreeMap<String, Value>,
    /// etcd's members by id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<String, Member>,
    /// etcd is not kubeadm's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
    /// Endpoints of one of the user's, which answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub their_etcd: Vec<String>,
    /// Hosts with an API server, if so; else they are those of the members.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub planes: BTreeSet<String>,
    /// Files of every API server, from kubeadm's config.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_server_files: Vec<String>,
    /// The version of the cluster's config, `v1.34.4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version at its init, of the static pods that no upgrade has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_with: Option<String>,
    /// Images of the static pods by control plane and pod; those that an upgrade has set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, BTreeMap<String, String>>,
    /// Tag of etcd's image in the cluster's config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_tag: Option<String>,
    /// The folder of kubeadm's etcd, where it is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_folder: Option<String>,
    /// Bootstrap tokens that are valid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<String>,
    /// The key of the last uploaded certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_key: Option<String>,
}

/// A member of etcd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Member {
    pub name: String,
    pub address: String,
    /// A test has switched it off; it still counts as a member.
    pub dead: bool,
    /// It has no vote.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub learner: bool,
    /// Of the program that kubexm's unit was started with, where that names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Cluster {
    /// The folder of kubeadm's etcd.
    pub(super) fn etcd_folder(&self) -> String {
        self.etcd_folder.clone().unwrap_or_else(|| ETCD_FOLDER.to_owned())
    }

    /// Names of the control planes whose API server answers.
    pub(super) fn api_servers(&self) -> Vec<&str> {
        if self.apart {
            let up = self.has_quorum();
            return self.planes.iter().filter(|_| up).map(String::as_str).collect();
        }
        self.members.values().filter(|member| !member.dead).map(|member| member.name.as_str()).collect()
    }

    /// Whether more than half of the members are up.
    pub(super) fn has_quorum(&self) -> bool {
        if !self.their_etcd.is_empty() {
            return true;
        }
        let voters = || self.members.values().filter(|member| !member.learner);
        voters().filter(|member| !member.dead).count() * 2 > voters().count()
    }
}

/// A unit that was started or stopped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Unit {
    pub active: bool,
    /// Its last start failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    pub invocation: String,
    /// Microseconds of the monotonic clock.
    pub started: u64,
}

/// A container of a static pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct StaticPod {
    pub id: String,
    /// Nanoseconds since 1970.
    pub started: u64,
    /// Digests at its start of the files that its manifest names.
    pub read: BTreeMap<String, Digest>,
    /// It ended by itself.
    pub ended: bool,
    /// The configuration that a proxy has read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub config: String,
}

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Image {
    pub digest: String,
    pub labels: BTreeMap<String, String>,
}

impl State {
    /// Reads the state, behind [`RootedSystem::lock`]: another host may be writing the cluster's. The first time, systemd knows
    /// every unit file, as after a boot.
    pub(super) fn load(system: &RootedSystem) -> Result<Self, OpError> {
        let mut state: Self = match read(&system.at(&format!("{FOLDER}/{FILE}")))? {
            Some(state) => state,
            None => Self { known: super::unit_files::files(system), unsaved: true, ..Self::default() },
        };
        if let Some(shared) = system.shared() {
            state.cluster = read(&shared.join(CLUSTER))?.unwrap_or_default();
        }
        Ok(state)
    }

    /// Writes it if it differs from `before`: most programs only read.
    pub(super) fn save(&self, system: &RootedSystem, before: &Self) -> Result<(), OpError> {
        if self == before && !self.unsaved {
            return Ok(());
        }
        let Some(shared) = system.shared() else { return system.put(FILE, &bytes(self)?) };
        let path = shared.join(CLUSTER);
        std::fs::write(&path, bytes(&self.cluster)?).map_err(OpError::path("write", &path))?;
        system.put(FILE, &bytes(&Self { cluster: Cluster::default(), ..self.clone() })?)
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, OpError> {
    crate::fsio::read(path)?
        .map(|bytes| serde_json::from_slice(&bytes))
        .transpose()
        .map_err(|error| OpError::other(format!("{} cannot be read: {error}", path.display())))
}

fn bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, OpError> {
    serde_json::to_vec(value)
        .map_err(|error| OpError::other(format!("the fake's state cannot be written as JSON: {error}")))
}
