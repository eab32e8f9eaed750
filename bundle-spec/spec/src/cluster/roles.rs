//! What a host does in a cluster: the groups of cluster.yaml, with what follows from who runs etcd and the load balancer.

use super::{Cluster, EtcdKind, ExternalKind, InternalKind, LoadBalancerMode};

/// What a host does. A host can do several things at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Runs the API server and what belongs to it.
    pub control_plane: bool,
    /// Runs pods of users.
    pub worker: bool,
    /// Has a member of etcd that is ours: every control plane with etcd type `kubeadm`, the hosts of the role with `kubexm`,
    /// none with `external`.
    pub etcd: bool,
    /// Has the load balancer before the control planes, where it is ours and on hosts of its role.
    pub load_balancer: bool,
    /// Serves the depot.
    pub registry: bool,
}

impl Roles {
    /// Whether the host becomes a node of the cluster, with a kubelet and a container runtime.
    pub const fn in_cluster(self) -> bool {
        self.control_plane || self.worker
    }

    /// What people call them. With kubeadm every control plane has an etcd member, so the role would add nothing there.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let roles = [
            ("control-plane", self.control_plane),
            ("worker", self.worker),
            ("etcd", self.etcd && !self.control_plane),
            ("loadbalancer", self.load_balancer),
            ("registry", self.registry),
        ];
        roles.into_iter().filter(|(_, has)| *has).map(|(name, _)| name)
    }

    /// A worker and nothing else: a cluster can be made without it.
    pub const fn only_worker(self) -> bool {
        self.worker && !self.control_plane && !self.etcd && !self.load_balancer && !self.registry
    }
}

impl Cluster {
    /// What a host does.
    pub fn roles(&self, host: &str) -> Roles {
        let groups = &self.role_groups;
        let is_in = |group: &[String]| group.iter().any(|name| name == host);
        let control_plane = is_in(&groups.control_plane);
        Roles {
            control_plane,
            worker: is_in(&groups.worker),
            etcd: match self.etcd.kind {
                EtcdKind::Kubeadm => control_plane,
                EtcdKind::Kubexm => is_in(&groups.etcd),
                EtcdKind::External => false,
            },
            load_balancer: self.load_balancer.mode.runs_on_role() && is_in(&groups.load_balancer),
            // As `registry_hosts`, without a list of them for each host that is asked about.
            registry: match groups.registry.as_slice() {
                [] => self.first_control_plane().is_some_and(|first| first.name == host),
                named => is_in(named),
            },
        }
    }

    /// Members of etcd that are ours.
    pub const fn etcd_members(&self) -> &Vec<String> {
        match self.etcd.kind {
            EtcdKind::Kubeadm => &self.role_groups.control_plane,
            EtcdKind::Kubexm => &self.role_groups.etcd,
            EtcdKind::External => const { &Vec::new() },
        }
    }
}

impl LoadBalancerMode {
    /// Whether it runs on the hosts of the role loadbalancer: keepalived with a proxy.
    pub const fn runs_on_role(&self) -> bool {
        self.proxy().is_some()
    }

    /// Whether the address is one that kubexm moves from host to host: by keepalived, or by kube-vip.
    pub const fn moves(&self) -> bool {
        self.runs_on_role() || matches!(self, Self::Internal { kind: InternalKind::KubeVip, .. })
    }

    /// Whether a host of these roles may have that address.
    pub const fn moves_to(&self, roles: Roles) -> bool {
        self.moves() && if self.runs_on_role() { roles.load_balancer } else { roles.control_plane }
    }

    /// The proxy beside keepalived on the hosts of the role loadbalancer, by the name of its process and package.
    pub const fn proxy(&self) -> Option<&'static str> {
        match self {
            Self::External { kind: ExternalKind::KubexmKh, .. } => Some("haproxy"),
            Self::External { kind: ExternalKind::KubexmKn, .. } => Some("nginx"),
            Self::External { kind: ExternalKind::External, .. } | Self::Internal { .. } | Self::None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Host, RoleGroups};

    fn cluster() -> Cluster {
        let named = |name: &str| vec![name.to_owned()];
        Cluster {
            hosts: ["cp", "etcd", "lb"].map(|name| Host::new(name, "10.0.0.1")).to_vec(),
            role_groups: RoleGroups {
                etcd: named("etcd"),
                control_plane: named("cp"),
                worker: Vec::new(),
                load_balancer: named("lb"),
                registry: named("cp"),
            },
            ..Cluster::named("demo")
        }
    }

    fn with_keepalived() -> Cluster {
        let mut cluster = cluster();
        cluster.load_balancer.mode = LoadBalancerMode::External {
            kind: ExternalKind::KubexmKn,
            vip: [10, 0, 0, 9].into(),
            port: 6443,
            interface: None,
            virtual_router_id: None,
        };
        cluster
    }

    #[test]
    fn members_of_etcd_follow_from_who_runs_it() {
        let mut cluster = cluster();
        let members = |cluster: &Cluster| {
            let by_role = cluster.hosts.iter().map(|host| host.name.clone()).filter(|name| cluster.roles(name).etcd);
            let by_role: Vec<String> = by_role.collect();
            assert_eq!(by_role, *cluster.etcd_members());
            by_role
        };
        assert_eq!(members(&cluster), ["cp"]);
        cluster.etcd.kind = EtcdKind::Kubexm;
        assert_eq!(members(&cluster), ["etcd"]);
        cluster.etcd.kind = EtcdKind::External;
        assert!(members(&cluster).is_empty());
    }

    #[test]
    fn registries_are_those_of_the_role_in_its_order_and_the_first_control_plane_where_there_are_none() {
        let mut cluster = cluster();
        let registries = |cluster: &Cluster| {
            let named: Vec<String> = cluster.registry_hosts().iter().map(|host| host.name.clone()).collect();
            assert!(cluster.hosts.iter().all(|host| cluster.roles(&host.name).registry == named.contains(&host.name)));
            named
        };
        cluster.role_groups.registry = vec!["lb".to_owned(), "cp".to_owned()];
        assert_eq!(registries(&cluster), ["lb", "cp"]);
        cluster.role_groups.registry.clear();
        assert_eq!(registries(&cluster), ["cp"]);
    }

    #[test]
    fn a_load_balancer_runs_on_the_hosts_of_its_role_only_where_it_is_ours() {
        assert!(!cluster().roles("lb").load_balancer);
        let roles = with_keepalived().roles("lb");
        assert_eq!(roles, Roles { load_balancer: true, ..Roles::default() });
        assert!(!roles.in_cluster() && !roles.only_worker());
    }
}
