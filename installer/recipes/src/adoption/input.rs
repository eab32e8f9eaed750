//! The input of the comparison.

use std::collections::BTreeMap;

use kubexm_plan::facts::Stamp;
use kubexm_plan::op::KUBELET_CLIENT;
use kubexm_plan::{ClusterFacts, Facts};
use kubexm_spec::cluster::{Cluster, Host};
use serde::Serialize;

use super::versions::BundleVersions;
use crate::identity::Identity;

/// It names kubelet's certificate, or has it.
const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";

/// Who has made a cluster, by the stamps of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// No node has a stamp of this cluster, or only some are adopted.
    Foreign,
    /// kubexm-install has adopted every node.
    Adopted,
    /// kubexm-install has made it.
    Kubexm,
}

/// The whole input.
#[derive(Clone, Copy, Debug)]
pub struct AdoptionInput<'a> {
    pub cluster: &'a Cluster,
    /// By host: every host that was reached.
    pub facts: &'a BTreeMap<String, Facts>,
    /// Why others were not, by host.
    pub unreached: &'a BTreeMap<String, String>,
    /// The cluster as it is now, with the files of every host.
    pub running: &'a ClusterFacts,
    /// None without a bundle.
    pub bundle: Option<&'a BundleVersions>,
}

impl<'a> AdoptionInput<'a> {
    /// The hosts that are nodes by cluster.yaml.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &'a Host> {
        self.cluster.hosts.iter().filter(|host| self.cluster.roles(&host.name).in_cluster())
    }

    /// The stamp of this cluster.
    pub(super) fn stamp(&self, host: &str) -> Option<&'a Stamp> {
        self.facts.get(host)?.stamp.as_ref().filter(|stamp| stamp.cluster == self.cluster.name)
    }

    pub(super) fn identity(&self) -> Identity {
        Identity::of(self.cluster, self.facts)
    }

    pub(super) fn origin(&self) -> Origin {
        let stamps: Vec<Option<&Stamp>> = self.nodes().map(|host| self.stamp(&host.name)).collect();
        let all = |adopted: bool| {
            !stamps.is_empty() && stamps.iter().all(|stamp| stamp.is_some_and(|stamp| stamp.adopted == adopted))
        };
        match () {
            () if all(false) => Origin::Kubexm,
            () if all(true) => Origin::Adopted,
            () => Origin::Foreign,
        }
    }

    /// The name of a host's node in the cluster, by kubelet's certificate.
    pub(super) fn node_name(&self, host: &str) -> Option<&'a str> {
        let is_kubelets = |path: &str| path == KUBELET_CLIENT || path == KUBELET_CONF;
        let mut of_kubelet = self.running.certificates.iter().filter(|one| one.host == host && is_kubelets(&one.path));
        of_kubelet.find_map(|one| one.subject.strip_prefix("system:node:"))
    }
}
