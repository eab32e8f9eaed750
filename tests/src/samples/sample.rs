//! One sample.

use std::collections::BTreeMap;

use kubexm_engine::sim;
use kubexm_plan::Facts;
use kubexm_plan::facts::{Stamp, StateFolder};
use kubexm_spec::cluster::EtcdKind;
use kubexm_spec::{Cluster, cluster};

/// A sample: its cluster.yaml, and what is special about its hosts.
#[derive(Clone, Copy)]
pub struct Sample {
    /// For messages.
    pub name: &'static str,
    /// Its hosts, at 10.0.0.11, .12 …, with labels as YAML, and further fields after them.
    pub(super) hosts: &'static [(&'static str, &'static str)],
    /// `spec.roleGroups` as YAML.
    pub(super) roles: &'static str,
    /// Further fields below `spec`.
    pub(super) spec: &'static str,
    /// Changes the facts of a usual host.
    pub(super) facts: fn(&mut Facts),
    /// Hosts that `add-node` adds to the cluster of the others.
    pub added: &'static [&'static str],
    /// Hosts that `delete-node` removes from the cluster of all.
    pub deleted: &'static [&'static str],
    /// The versions from which and to which it is upgraded; none if it is not.
    pub upgraded: Option<[&'static str; 2]>,
    /// Files lie in state folders of its hosts, and are moved aside.
    pub occupied: bool,
}

/// State folders whose content the hosts of an occupied sample have moved aside, beside those that its cluster.yaml names.
pub const MOVED: [&str; 3] = ["/opt/cni", "/var/lib/etcd", "/var/lib/kubelet"];

fn occupied(path: &str) -> StateFolder {
    StateFolder { path: path.to_owned(), files: 1, first: vec!["theirs".to_owned()], moved: None }
}

impl Sample {
    /// The same with files in state folders of its hosts.
    #[must_use]
    pub const fn occupied(self) -> Self {
        Self { occupied: true, ..self }
    }

    /// cluster.yaml.
    pub fn yaml(&self) -> String {
        let hosts = self.hosts.iter().zip(11_u8..);
        let hosts: String = hosts
            .map(|((name, labels), last)| format!("  - {{name: {name}, address: 10.0.0.{last}, labels: {labels}}}\n"))
            .collect();
        let head = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  hosts:\n";
        format!("{head}{hosts}  roleGroups: {}\n{}", self.roles, self.spec)
    }

    /// The parsed cluster.
    pub fn cluster(&self) -> Cluster {
        cluster::parse(&self.yaml()).expect("a sample cluster.yaml is right")
    }

    /// What its hosts look like before anything was done.
    pub fn facts(&self) -> BTreeMap<String, Facts> {
        let hosts = self.hosts.iter().zip(11_u8..);
        hosts
            .map(|((name, _), last)| {
                let mut facts = sim::facts(name);
                facts.interfaces[0].addresses = vec![format!("10.0.0.{last}/24")];
                (self.facts)(&mut facts);
                if self.occupied {
                    let cluster = self.cluster();
                    let own = cluster.data_folders(cluster.roles(name));
                    facts.state_folders = MOVED.into_iter().chain(own).map(occupied).collect();
                }
                ((*name).to_owned(), facts)
            })
            .collect()
    }

    /// What they look like when all but [`Sample::added`] are a cluster.
    pub fn facts_before_add_node(&self) -> BTreeMap<String, Facts> {
        self.facts_of_cluster_without(self.added)
    }

    pub(super) fn facts_of_cluster_without(&self, others: &[&str]) -> BTreeMap<String, Facts> {
        let mut all = self.facts();
        let cluster = self.cluster();
        let nodes = &cluster.role_groups;
        for (name, facts) in &mut all {
            if !others.contains(&name.as_str()) {
                facts.state_folders.clear();
                facts.joined = nodes.control_plane.contains(name) || nodes.worker.contains(name);
                if cluster.etcd.kind == EtcdKind::Kubexm {
                    let folder = if cluster.etcd.has_own_folder() {
                        format!("{}\n", cluster.etcd.data_dir)
                    } else {
                        String::new()
                    };
                    facts.etcd_formed = nodes.etcd.contains(name).then(|| format!("demo\n3.6.5\n{folder}"));
                    let is_first = nodes.control_plane.first() == Some(name);
                    facts.kubeadm_config_text = is_first.then(|| self.configured(others));
                }
                facts.stamp = Some(Stamp {
                    cluster: "demo".to_owned(),
                    run: "run".to_owned(),
                    id: None,
                    bundle: None,
                    adopted: false,
                });
                if !cluster.system.ntp_servers.is_empty() {
                    facts.programs.insert("chronyd".to_owned(), Some("/usr/sbin/chronyd".to_owned()));
                }
            }
        }
        all
    }

    /// kubeadm's configuration with an etcd of kubexm's own.
    fn configured(&self, others: &[&str]) -> String {
        let cluster = self.cluster();
        let members = cluster.role_groups.etcd.iter().filter(|name| !others.contains(&name.as_str()));
        let hosts = members.filter_map(|name| cluster.host(name));
        let urls: String = hosts.map(|host| format!("    - https://{}:2379\n", host.address)).collect();
        format!(
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\netcd:\n  external:\n    endpoints:\n{urls}"
        )
    }

    /// The sample without the hosts that `add-node` adds: what it adds them to.
    pub fn cluster_before_add_node(&self) -> Cluster {
        let mut cluster = self.cluster();
        let stays = |name: &String| !self.added.contains(&name.as_str());
        cluster.hosts.retain(|host| stays(&host.name));
        let roles = &mut cluster.role_groups;
        for group in [&mut roles.etcd, &mut roles.control_plane, &mut roles.worker, &mut roles.registry] {
            group.retain(stays);
        }
        cluster
    }

    /// Names of its hosts.
    pub fn hosts(&self) -> Vec<String> {
        self.hosts.iter().map(|(name, _)| (*name).to_owned()).collect()
    }
}
