//! The effects of `kubeadm` on a simulated host and on the cluster.

use kubexm_plan::kubeadm_certificates::MANAGED;
use kubexm_plan::{Step, etcd, state_folders};

use super::names::{
    ADMIN_CONF, BEFORE_UPGRADE, ETCD_MEMBER, KUBELET, KUBELET_CONF, KUBELET_CONFIG, NETWORK, PODS, READ, UPGRADED,
};
use super::world::World;

impl World {
    /// Whether the cluster has a node of this name.
    pub(super) fn is_node(&self, name: &str) -> bool {
        self.cluster.contains_key(&format!("node:{name}"))
    }

    /// Whether `kubeadm` has made a host a node of the cluster, and it is still one.
    pub(super) fn is_joined(&self, host: &str) -> bool {
        self.cluster.get("initialised").is_some_and(|by| by == host)
            || self.cluster.contains_key(&format!("joined:{host}"))
    }

    /// The effects of an init or a join; on a control plane including an etcd member.
    pub(super) fn make_node(&mut self, host: &str, step: &Step, control_plane: bool) -> Result<(), String> {
        if control_plane {
            let external = self.host(host)?.has_path(etcd::CLIENT_CERT);
            let is_of_etcd = |path: &str| path.contains("/pki/etcd/") || path.ends_with("/apiserver-etcd-client.crt");
            for (name, path) in MANAGED.into_iter().filter(|(_, path)| !(external && is_of_etcd(path))) {
                self.set_new(host, step, &format!("path:{path}"), &format!("file 0600 {name}"))?;
            }
            if external {
                self.refuse_without_etcd()?;
            } else {
                let data = self.etcd_data(host);
                self.set(host, step, &data, "dir 0700")?;
            }
            self.cluster.insert(format!("member:{host}"), "voter".to_owned());
        }
        self.set_new(host, step, KUBELET_CONF, "file 0600 kubelet")?;
        self.set(host, step, KUBELET_CONFIG, "file 0644 kubelet")?;
        self.set(host, step, KUBELET, "enabled running")?;
        self.remove(host, "kubernetes")?;
        self.cluster.insert(format!("node:{host}"), "registered".to_owned());
        self.kubelet_starts(host);
        Ok(())
    }

    /// kubeadm keeps what is there: certificates and kubeconfigs that a site's CA has signed.
    fn set_new(&mut self, host: &str, step: &Step, key: &str, value: &str) -> Result<(), String> {
        if self.host(host)?.state.contains_key(key) { Ok(()) } else { self.set(host, step, key, value) }
    }

    /// An API server does not start without a majority of the members of an etcd of kubexm's.
    fn refuse_without_etcd(&self) -> Result<(), String> {
        let (all, up) = self.own_members();
        match all == 0 || up * 2 > all {
            true => Ok(()),
            false => Err(format!("of {all} members of etcd {up} run")),
        }
    }

    /// A node's kubelet starts pods, which create interfaces and rules.
    pub(super) fn kubelet_starts(&mut self, host: &str) {
        if let Some(host) = self.host_mut(host).filter(|host| host.state.contains_key(KUBELET_CONF)) {
            host.state.insert(PODS.to_owned(), "running".to_owned());
            host.state.insert(NETWORK.to_owned(), "links and rules".to_owned());
        }
    }

    /// `kubeadm reset`: it asks the container runtime for what runs, and takes a member out of etcd while others run. The
    /// node's object stays: kubelet may not delete it.
    pub(super) fn reset(&mut self, host: &str) -> Result<(), String> {
        let data = self.members_data(host);
        let made = data.is_some() || [ADMIN_CONF, KUBELET_CONF].iter().any(|key| self.has(host, key));
        if !self.is_joined(host) && !made {
            return Ok(());
        }
        if !self.host(host)?.runs_containers() {
            return Err("kubeadm reset cannot remove its containers: no container runtime runs".to_owned());
        }
        self.cluster.remove(&format!("member:{host}"));
        self.cluster.remove(&format!("joined:{host}"));
        if self.members().next().is_none() {
            self.cluster.clear();
        }
        let keys = [KUBELET_CONF, KUBELET_CONFIG, PODS, NETWORK, UPGRADED, BEFORE_UPGRADE];
        for key in keys.into_iter().chain(data.as_deref()) {
            self.remove(host, key)?;
        }
        for (_, path) in MANAGED {
            self.remove(host, &format!("path:{path}"))?;
        }
        if let Some(here) = self.host_mut(host) {
            here.state.retain(|key, _| !key.starts_with(READ));
        }
        if let Some(kubelet) = self.host_mut(host).and_then(|here| here.state.get_mut(KUBELET)) {
            *kubelet = kubelet.replace("running", "stopped");
        }
        Ok(())
    }

    /// Removes the node's object with its labels, annotations and taints, and its record, which the object owns.
    pub(super) fn drop_node(&mut self, node: &str) {
        let of_node = ["label", "annotation", "taint"].map(|kind| format!("{kind}:{node}:"));
        let own = ["node", "node-record", "awaited", "cordoned", "drained", "kubelet", "apiserver"]
            .map(|kind| format!("{kind}:{node}"));
        self.cluster.retain(|key, _| !own.contains(key) && !of_node.iter().any(|prefix| key.starts_with(prefix)));
    }

    /// The key of the data that kubeadm's etcd will have on a host: the folder that a file names, as acts of a real host read it, or the usual one.
    fn etcd_data(&self, host: &str) -> String {
        let key = format!("path:{}", etcd::DATA_DIR);
        let named = self.hosts.get(host).and_then(|here| self.texts.get(here.state.get(&key)?.rsplit(' ').next()?));
        format!("path:{}{ETCD_MEMBER}", named.map_or(state_folders::ETCD, |folder| folder.trim()))
    }

    /// The key of the data of a host's member of etcd.
    fn members_data(&self, host: &str) -> Option<String> {
        let mut keys = self.hosts.get(host)?.state.keys();
        keys.find(|key| key.starts_with("path:") && key.ends_with(ETCD_MEMBER)).cloned()
    }

    pub(super) fn has(&self, host: &str, key: &str) -> bool {
        self.hosts.get(host).is_some_and(|here| here.state.contains_key(key))
    }
}
