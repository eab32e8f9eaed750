//! The observed state of a running cluster: the input of every pipeline after `create`, and of `status`.
//!
//! Observing never fails as a whole: whatever did not answer is a [`Gap`].

pub mod applied;
mod kubeadm;
pub mod settings;

use std::collections::BTreeSet;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::ClusterId;
use crate::timers::TimerRun;
pub use applied::AppliedCluster;
pub use kubeadm::{ApiServerEtcd, EtcdAccess, KUBEADM_CONFIG, KubeadmCluster, KubeletFacts, PROGRAMS, ProgramFacts};
pub use settings::WantedSettings;

/// The schema of [`ClusterFacts`].
pub const SCHEMA: &str = "kubexm.io/cluster-facts/v1";

/// A running cluster, as observed from its own hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFacts {
    /// [`SCHEMA`].
    pub schema: String,
    /// `metadata.name`, from the record in the cluster or the stamp of a host.
    pub name: Option<String>,
    /// From the record in the cluster or the stamp of a host.
    pub id: Option<ClusterId>,
    /// Version of the API server, `v1.34.4`.
    pub server_version: Option<String>,
    /// Image of kube-proxy's DaemonSet; none where there is none, or nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<String>,
    /// Sorted by name.
    pub nodes: Vec<NodeFacts>,
    /// Sorted by name.
    pub etcd: Vec<EtcdMember>,
    /// Static pods of the control planes, sorted by node and name.
    pub components: Vec<Component>,
    /// Sorted by host and path.
    pub certificates: Vec<Certificate>,
    /// Hosts of a load balancer of kubexm's, and control planes with kube-vip, sorted by host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub balancers: Vec<BalancerFacts>,
    /// Timers of kubexm's on hosts, sorted by host and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<TimerFacts>,
    /// Budgets that let no pod go now, sorted by namespace and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tight_budgets: Vec<TightBudget>,
    /// Deprecated APIs that clients have used since the API servers started, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deprecated_apis: Vec<DeprecatedApi>,
    /// The plugin whose CNI configuration a control plane has, `flannel`; none if it is of no known plugin.
    pub network: Option<String>,
    /// What kubeadm has recorded of the cluster; none if it has no such record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeadm: Option<KubeadmCluster>,
    /// Hosts that kubeadm has made nodes, sorted by host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kubelets: Vec<KubeletFacts>,
    /// What was applied; none if the cluster was created by a version that did not record it.
    pub applied: Option<AppliedCluster>,
    /// The settings that an upgrade has begun to bring; none if none ever has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<WantedSettings>,
    /// What could not be observed.
    pub gaps: Vec<Gap>,
}

/// A timer of kubexm's on a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimerFacts {
    /// Name in cluster.yaml.
    pub host: String,
    /// `kubexm-certs.timer`.
    pub timer: String,
    /// Whether it is active, so that its service is started at its next time.
    pub waits: bool,
    /// What its service did last; none if it has not run yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<TimerRun>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    /// Name of the node object.
    pub name: String,
    /// From its labels `node-role.kubernetes.io/…`.
    pub roles: Vec<String>,
    /// `v1.34.4`.
    pub kubelet: String,
    /// `containerd`.
    pub runtime: String,
    /// `2.2.7`.
    pub runtime_version: String,
    /// `Debian GNU/Linux 12 (bookworm)`.
    pub os_image: String,
    /// `uname -r`.
    pub kernel: String,
    /// Addresses of type InternalIP.
    pub addresses: Vec<String>,
    /// Whether its condition Ready is true.
    pub ready: bool,
    /// Every condition.
    pub conditions: Vec<Condition>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// On whose behalf kubexm has cordoned it ([`crate::op::CORDONED_BY`]); none if somebody else has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned_by: Option<String>,
    /// Of the attempt that has brought it its settings ([`settings::ANNOTATION`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
}

/// A condition of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// `Ready`, `MemoryPressure`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False`, `Unknown`.
    pub status: String,
    /// Machine-readable reason, one word: `KubeletReady`.
    pub reason: String,
}

/// A member of etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdMember {
    /// Hexadecimal, as etcdctl writes it.
    pub id: String,
    /// Empty until it has started.
    pub name: String,
    /// `https://10.0.0.1:2380`.
    pub peer_urls: Vec<String>,
    /// Version of its server; none if it did not answer.
    pub version: Option<String>,
    /// Whether it answered, has a leader and reports no error.
    pub healthy: bool,
    /// Whether it is a learner, which does not vote yet.
    pub learner: bool,
    /// Its database; none if it did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<EtcdDatabase>,
}

/// The database of a member of etcd, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdDatabase {
    /// Its file.
    pub size: u64,
    /// What of it is in use; the rest is free for later keys, and goes back to the disk with `etcdctl defrag` only.
    pub in_use: u64,
    /// At this size etcd takes no more writes (`alarm:NOSPACE`); none before etcd 3.6, which does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<u64>,
}

/// What an operator has to do about a database of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdAdvice {
    /// Much of its file is free.
    Defragment,
    /// What is in use is near the quota.
    RaiseQuota,
}

impl EtcdDatabase {
    /// Files below this size are not worth a pause of the member.
    const SMALL: u64 = 100 << 20;

    /// If there is something to do. A defragmentation would not help where what is in use fills the quota.
    pub fn advice(&self) -> Option<EtcdAdvice> {
        let near = |bytes: u64| self.quota.is_some_and(|quota| bytes >= quota / 5 * 4);
        if near(self.in_use) {
            return Some(EtcdAdvice::RaiseQuota);
        }
        let half_is_free = self.size >= Self::SMALL && self.in_use <= self.size / 2;
        (half_is_free || near(self.size)).then_some(EtcdAdvice::Defragment)
    }
}

/// A static pod of a control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// `kube-apiserver`.
    pub name: String,
    /// The node it runs on.
    pub node: String,
    /// Whether its condition Ready is true.
    pub ready: bool,
    /// Image of its first container.
    pub image: String,
    /// Restarts of its first container.
    pub restarts: u64,
}

/// A certificate in a file of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// Name in cluster.yaml.
    pub host: String,
    /// The file.
    pub path: String,
    /// Common name of its subject.
    pub subject: String,
    /// Expiry (notAfter), in seconds of Unix time.
    pub ends: i64,
    /// Digest of the file; none from earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Digest>,
    /// Which one it is; none from earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf: Option<Leaf>,
}

/// One certificate among those that were signed for the same use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Leaf {
    /// Of the certificate itself (DER), not of the file that it is in.
    pub digest: Digest,
    /// Begin of its validity (notBefore), in seconds of Unix time.
    pub begins: i64,
}

/// A host of a load balancer that kubexm runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BalancerFacts {
    /// Name in cluster.yaml.
    pub host: String,
    /// The address that keepalived or kube-vip moves, by its configuration.
    pub address: String,
    /// Whether the host has it now.
    pub holds: bool,
    /// Units that do not run and should, or kube-vip.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped: Vec<String>,
}

/// A PodDisruptionBudget that allows no disruption now, although it covers pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TightBudget {
    /// `namespace/name`.
    pub name: String,
    /// Pods that it covers, according to its status.
    pub pods: u64,
    /// Of these, the healthy ones.
    pub healthy: u64,
    /// The healthy ones that it wants.
    pub wanted: u64,
}

impl TightBudget {
    /// Whether it would let no pod go even if all of its pods were healthy.
    pub const fn never_lets_go(&self) -> bool {
        self.wanted >= self.pods
    }
}

/// An API that clients use and that a later minor version does not have any more
/// (`apiserver_requested_deprecated_apis`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeprecatedApi {
    /// `flowcontrol.apiserver.k8s.io`; empty for the core group.
    pub group: String,
    /// `v1beta3`.
    pub version: String,
    /// `flowschemas`.
    pub resource: String,
    /// `1.32`: the first minor version without it; empty if that is not decided.
    pub removed_in: String,
    /// Who has written objects through it, by their managed fields, with an object each: `helm (default/web)`. Clients that only read
    /// leave no trace in objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written_by: Vec<String>,
}

impl std::fmt::Display for DeprecatedApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let slash = if self.group.is_empty() { "" } else { "/" };
        write!(f, "{} of {}{slash}{}", self.resource, self.group, self.version)
    }
}

/// Something that could not be observed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// The host that was asked.
    pub host: String,
    /// What is missing: `nodes`, `etcd member cp2`, `certificate /etc/…`.
    pub what: String,
    /// The reason.
    pub why: String,
}

impl Default for ClusterFacts {
    fn default() -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            name: None,
            id: None,
            server_version: None,
            kube_proxy: None,
            nodes: Vec::new(),
            etcd: Vec::new(),
            components: Vec::new(),
            certificates: Vec::new(),
            balancers: Vec::new(),
            timers: Vec::new(),
            tight_budgets: Vec::new(),
            deprecated_apis: Vec::new(),
            network: None,
            kubeadm: None,
            kubelets: Vec::new(),
            applied: None,
            settings: None,
            gaps: Vec::new(),
        }
    }
}

impl ClusterFacts {
    /// Whether the API server answered.
    pub const fn api_answers(&self) -> bool {
        self.server_version.is_some()
    }

    /// Merges what several hosts have observed. For facts about the cluster the first answer counts; certificates are
    /// kept for each host. A gap that another host fills is dropped. Control planes must come first.
    #[must_use]
    pub fn merged(all: impl IntoIterator<Item = Self>) -> Self {
        let mut whole = Self::default();
        let mut covered: BTreeSet<&str> = BTreeSet::new();
        for one in all {
            whole.name = whole.name.or(one.name);
            match (whole.id, one.id) {
                (Some(first), Some(other)) if first != other => {
                    let host = one.certificates.first().map(|certificate| certificate.host.clone()).unwrap_or_default();
                    whole.gaps.push(Gap {
                        host,
                        what: IDENTITY.to_owned(),
                        why: format!(
                            "it says that it belongs to the cluster with id {other}, and another host to {first}"
                        ),
                    });
                }
                (known, other) => whole.id = known.or(other),
            }
            whole.server_version = whole.server_version.or(one.server_version);
            whole.kube_proxy = whole.kube_proxy.or(one.kube_proxy);
            whole.network = whole.network.or(one.network);
            whole.kubeadm = whole.kubeadm.or(one.kubeadm);
            whole.kubelets.extend(one.kubelets);
            whole.applied = whole.applied.or(one.applied);
            whole.settings = whole.settings.or(one.settings);
            take(&mut whole.nodes, one.nodes);
            // One member may reach more members than another one.
            if one.etcd.iter().filter(|member| member.healthy).count()
                > whole.etcd.iter().filter(|member| member.healthy).count()
                || whole.etcd.is_empty()
            {
                whole.etcd = one.etcd;
            }
            take(&mut whole.components, one.components);
            take(&mut whole.tight_budgets, one.tight_budgets);
            // Each API server counts its own requests.
            whole.deprecated_apis.extend(one.deprecated_apis);
            whole.certificates.extend(one.certificates);
            whole.balancers.extend(one.balancers);
            whole.timers.extend(one.timers);
            whole.gaps.extend(one.gaps);
        }
        for (what, known) in [
            (SERVER_VERSION, whole.server_version.is_some()),
            (NODES, !whole.nodes.is_empty()),
            (COMPONENTS, !whole.components.is_empty()),
            (ETCD, !whole.etcd.is_empty()),
            (KUBEADM_CONFIG, whole.kubeadm.is_some()),
            (APPLIED, whole.applied.is_some()),
        ] {
            if known {
                covered.insert(what);
            }
        }
        whole.gaps.retain(|gap| !covered.contains(gap.what.as_str()));
        whole.certificates.sort_by(|one, other| (&one.host, &one.path).cmp(&(&other.host, &other.path)));
        whole.balancers.sort();
        whole.kubelets.sort();
        whole.timers.sort();
        whole.deprecated_apis.sort();
        whole.deprecated_apis.dedup();
        whole.gaps.sort();
        whole.gaps.dedup();
        whole
    }
}

/// [`Gap::what`] if the API server did not answer.
pub const SERVER_VERSION: &str = "server version";
/// [`Gap::what`] if nothing of a host could be observed.
pub const HOST: &str = "host";
/// [`Gap::what`] of a host's part of the load balancer.
pub const BALANCER: &str = "load balancer";
/// [`Gap::what`] of the nodes.
pub const NODES: &str = "nodes";
/// [`Gap::what`] of the static pods.
pub const COMPONENTS: &str = "components";
/// [`Gap::what`] if no member answered.
pub const ETCD: &str = "etcd members";
/// [`Gap::what`] if hosts report different cluster ids.
pub const IDENTITY: &str = "identity";
/// [`Gap::what`] of the budgets.
pub const BUDGETS: &str = "disruption budgets";
/// [`Gap::what`] of the deprecated APIs in use.
pub const DEPRECATED_APIS: &str = "deprecated APIs in use";
/// [`Gap::what`] if it is not known whether there is a kube-proxy.
pub const KUBE_PROXY: &str = "kube-proxy";
/// What a gap is named after.
pub const ETCD_FILES: &str = "files for etcd that kubeadm has recorded";
/// [`Gap::what`] of the settings that an upgrade brings.
pub const SETTINGS: &str = "settings that an upgrade brings";
/// [`Gap::what`] of the record of what was applied.
pub const APPLIED: &str = "record of what was applied";

fn take<T>(whole: &mut Vec<T>, one: Vec<T>) {
    if whole.is_empty() {
        *whole = one;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(host: &str, what: &str) -> Gap {
        Gap { host: host.to_owned(), what: what.to_owned(), why: "refused".to_owned() }
    }

    fn certificate(host: &str) -> Certificate {
        Certificate {
            host: host.to_owned(),
            path: "/p".to_owned(),
            subject: "cn".to_owned(),
            ends: 1,
            file: None,
            leaf: None,
        }
    }

    #[test]
    fn what_one_host_does_not_see_another_fills_in() {
        let (a, b) = (ClusterId::from_random([1; 16]), ClusterId::from_random([2; 16]));
        let blind = ClusterFacts {
            id: Some(a),
            certificates: vec![certificate("cp2")],
            gaps: vec![gap("cp2", SERVER_VERSION), gap("cp2", "etcd member cp1")],
            ..ClusterFacts::default()
        };
        let seeing = ClusterFacts {
            id: Some(b),
            server_version: Some("v1.34.4".to_owned()),
            certificates: vec![certificate("cp1")],
            ..ClusterFacts::default()
        };
        let whole = ClusterFacts::merged([blind, seeing]);
        assert_eq!((whole.id, whole.server_version.as_deref(), whole.api_answers()), (Some(a), Some("v1.34.4"), true));
        let hosts: Vec<_> = whole.certificates.iter().map(|certificate| certificate.host.as_str()).collect();
        assert_eq!(hosts, ["cp1", "cp2"]);
        let gaps: Vec<_> = whole.gaps.iter().map(|gap| (gap.host.as_str(), gap.what.as_str())).collect();
        assert_eq!(gaps, [("cp1", "identity"), ("cp2", "etcd member cp1")]);
        assert!(whole.gaps[0].why.contains(&b.to_string()) && whole.gaps[0].why.contains(&a.to_string()));
    }
}
