//! The members of etcd that the API server of a control plane asks.

use std::collections::BTreeSet;
use std::fmt;

use kubexm_spec::cluster::RuntimeKind;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// The manifest of the API server, as kubeadm writes it.
const MANIFEST: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";

/// The API server of the host has these members in `--etcd-servers`, and answers: where it had others its manifest is changed in that line
/// alone, and kubelet starts it anew. So is kubeadm's config, on the host that was initialised with it. For an etcd that is not kubeadm's; one of kubeadm's is always asked on the host itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdServers {
    /// `https://10.0.0.11:2379`.
    pub servers: Vec<String>,
    /// Which runtime has its container.
    pub runtime: RuntimeKind,
}

/// The members that the manifest names, in its order; none where there is no manifest with that flag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedServers {
    /// `https://10.0.0.11:2379`.
    pub servers: Option<Vec<String>>,
    /// Those that kubeadm's config on the host names, which may have another order; none where it has no list, and from earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured: Option<Vec<String>>,
}

impl NamedServers {
    /// Whether it names these, in any order.
    pub fn are(&self, wanted: &[String]) -> bool {
        let set = |all: &[String]| all.iter().cloned().collect::<BTreeSet<_>>();
        self.servers.as_deref().is_some_and(|found| set(found) == set(wanted))
    }
}

impl OpKind for EtcdServers {
    type State = NamedServers;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::sets(Resource::EtcdServers, self.servers.join(" "))]
    }

    fn needs(&self) -> Needs<'_> {
        // Whether it answers is asked with the administrator's certificate.
        Needs { resources: vec![Resource::Runtime, Resource::AdminConf], ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for EtcdServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "members of etcd in {MANIFEST}: {}", self.servers.join(" "))
    }
}

impl State for NamedServers {
    /// 1 has no `configured`.
    const SCHEMA: u32 = 2;

    fn places(&self) -> Vec<&PathState> {
        Vec::new()
    }

    fn is_back(&self, then: &Self) -> Option<bool> {
        let configured = then.configured.is_none() || self.configured == then.configured;
        Some(self.servers == then.servers && configured)
    }
}
