//! A static pod that runs with the files as they are.

use std::fmt;

use kubexm_spec::cluster::RuntimeKind;
use serde::{Deserialize, Serialize};

use super::unit::Started;
use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// The static pods whose manifests kubeadm makes.
const OF_KUBEADM: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// A static pod of kube-system was started after the files that it reads at its start alone were last changed. Its
/// container is restarted otherwise, and awaited ([`PodReady`]); the pod's manifest is never touched. Files that it reads
/// again on a signal restart nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticPodStarted {
    /// `kube-apiserver`: the name of the manifest, of its container, and of the pod without its node.
    pub pod: String,
    /// Files that it reads at its start, named by its manifest; each is a [`super::File`] op of an earlier step.
    pub after: Vec<String>,
    /// Files that it reads again on SIGHUP, in folders that its manifest mounts: if only these change, its process gets
    /// that signal and its container stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reloaded: Vec<String>,
    /// Which runtime has its container.
    pub runtime: RuntimeKind,
    /// What is awaited after a restart.
    #[serde(default, skip_serializing_if = "PodReady::is_api_server")]
    pub ready: PodReady,
}

/// What is awaited after a static pod was restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodReady {
    /// The API server of the host answers.
    #[default]
    ApiServer,
    /// The API server of the host answers. When the restart is rolled back, only that the pod runs: the files that it gets
    /// back have certificates that have ended, with which it cannot answer.
    ApiServerAgain,
    /// The host's member of etcd answers and has a leader.
    Member,
    /// Its container runs: what it needs to answer is mended later.
    Running,
    /// Its process answers an HTTP request to the host's own 127.0.0.1 with a text that one of the reloaded files has: the
    /// files that it runs with are those on disk.
    Serves {
        /// TCP port of the answer.
        port: u16,
    },
}

impl StaticPodStarted {
    /// Every file that it must have read.
    pub fn files(&self) -> impl Iterator<Item = &String> {
        self.after.iter().chain(&self.reloaded)
    }

    /// Whether kubeadm makes its manifest, and not a step of ours.
    pub fn is_of_kubeadm(&self) -> bool {
        OF_KUBEADM.contains(&self.pod.as_str())
    }
}

impl PodReady {
    const fn is_api_server(&self) -> bool {
        matches!(self, Self::ApiServer)
    }

    /// What is awaited when the restart is rolled back.
    #[must_use]
    pub const fn when_rolled_back(self) -> Self {
        match self {
            Self::ApiServerAgain => Self::Running,
            other => other,
        }
    }
}

/// The pod as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticPodState {
    /// The runtime's id of its running container; none when none runs.
    pub container: Option<String>,
    /// Whether that was started with the files as they are now.
    pub current: bool,
    /// What we recorded when we restarted it; none when we never did.
    pub record: Option<Started>,
}

impl OpKind for StaticPodStarted {
    type State = StaticPodState;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        // What it was started with depends on its files.
        vec![ResourceChange::unknown(Resource::StaticPod(self.pod.clone()))]
    }

    fn needs(&self) -> Needs<'_> {
        let files = self.files().cloned().map(Resource::Path);
        // Whether a pod of kubeadm answers is asked with it.
        let asks = self.is_of_kubeadm().then_some(Resource::AdminConf);
        Needs { resources: std::iter::once(Resource::Runtime).chain(asks).chain(files).collect(), ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for StaticPodStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "static pod {}", self.pod)?;
        if !self.after.is_empty() {
            write!(f, " started after changes of {}", self.after.join(" "))?;
        }
        if self.reloaded.is_empty() { Ok(()) } else { write!(f, ", reloaded for {}", self.reloaded.join(" ")) }
    }
}

impl State for StaticPodState {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, then: &Self) -> Option<bool> {
        Some(self.container.is_some() == then.container.is_some())
    }
}
