//! A static pod that runs with the files as they are.

use std::fmt;

use kubexm_spec::cluster::RuntimeKind;
use serde::{Deserialize, Serialize};

use super::unit::Started;
use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// A static pod of kube-system was started after the files that it reads at its start alone were last changed. Its
/// container is restarted otherwise, and awaited ([`PodReady`]); the pod's manifest is never touched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticPodStarted {
    /// `kube-apiserver`: the name of the manifest, of its container, and of the pod without its node.
    pub pod: String,
    /// Files that it reads at its start, named by its manifest; each is a [`super::File`] op of an earlier step.
    pub after: Vec<String>,
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
        let files = self.after.iter().cloned().map(Resource::Path);
        Needs {
            resources: [Resource::Runtime, Resource::AdminConf].into_iter().chain(files).collect(),
            ..Needs::nothing()
        }
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
        write!(f, "static pod {} started after changes of {}", self.pod, self.after.join(" "))
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
