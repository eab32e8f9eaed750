//! The members of etcd in kubeadm's configuration of the cluster.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::etcd_servers::NamedServers;
use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback};
use crate::resource::{Resource, ResourceChange};

/// `etcd.external.endpoints` in the ConfigMap `kubeadm-config` of kube-system, from which joins and upgrades take the members that an API
/// server asks. Nothing else in it is changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdEndpoints {
    /// `https://10.0.0.11:2379`.
    pub endpoints: Vec<String>,
}

impl OpKind for EtcdEndpoints {
    type State = NamedServers;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![ResourceChange::sets(Resource::EtcdEndpoints, self.endpoints.join(" "))]
    }

    fn needs(&self) -> Needs<'_> {
        Needs { resources: vec![Resource::AdminConf], ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for EtcdEndpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "members of etcd in kubeadm's configuration: {}", self.endpoints.join(" "))
    }
}
