//! Cluster facts of a simulated host. The simulation keeps no applied documents, so those are a gap.

use kubexm_plan::cluster_facts::{APPLIED, Certificate, Component, EtcdMember, Gap, NodeFacts, SERVER_VERSION};
use kubexm_plan::kubeadm_certificates::MANAGED;
use kubexm_plan::{ClusterFacts, Facts, etcd};
use kubexm_spec::Digest;

use super::names::{ADMIN_CONF, SOMEBODY, left};
use super::world::{Host, World};

impl World {
    /// `here`: the host's own facts.
    pub(super) fn cluster_facts(&self, host: &str, here: Facts) -> ClusterFacts {
        let gap = |what: &str, why: &str| Gap { host: host.to_owned(), what: what.to_owned(), why: why.to_owned() };
        let (name, id) = here.stamp.map(|stamp| (stamp.cluster, stamp.id)).unzip();
        let mut facts = ClusterFacts { name, id: id.flatten(), ..ClusterFacts::default() };
        if let Some(seen) = &self.seen {
            let mut seen = ClusterFacts { name: facts.name, id: facts.id, ..(**seen).clone() };
            seen.certificates.retain(|one| one.host == host);
            seen.kubelets.retain(|one| one.host == host);
            return seen;
        }
        facts.certificates = self.certificates(host);
        if !self.has(host, ADMIN_CONF) {
            return facts;
        }
        if !self.cluster.contains_key("initialised") {
            facts.gaps.push(gap(SERVER_VERSION, "no API server answers"));
            return facts;
        }
        let named = |kind: &str| {
            let names = self.cluster.keys().filter_map(|key| key.strip_prefix(kind));
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        facts.server_version = Some(self.api_version(host).to_owned());
        facts.nodes = named("node:").into_iter().map(|name| self.node_facts(name)).collect();
        facts.components = named("member:").into_iter().map(|name| self.api_server(name)).collect();
        facts.etcd = match self.own_members() {
            (0, _) => named("member:").into_iter().map(member).collect(),
            _ => self
                .hosts
                .iter()
                .filter(|(name, host)| host.runs(etcd::UNIT) && !self.cluster.contains_key(&left(name)))
                .map(|(name, host)| self.own_member(name, host))
                .collect(),
        };
        facts.gaps.push(gap(APPLIED, "the simulation keeps no texts of objects"));
        facts
    }
}

/// As far as a certificate of a simulated host is valid, in seconds of Unix time: less than another day in 1970.
const ENDS: i64 = 86_399;
/// The same of one that was renewed: 2100.
const RENEWED: i64 = 4_102_444_800;

/// The certificates of the cluster's own authorities, and those authorities.
const OWN: [&str; 6] = [
    etcd::SERVER_CERT,
    etcd::PEER_CERT,
    etcd::ADMIN_CERT,
    etcd::CLIENT_CERT,
    "/etc/kubexm/depot/tls.crt",
    "/etc/kubexm/registry/tls.crt",
];
const OWN_AUTHORITIES: [&str; 4] =
    [etcd::CA, etcd::CLIENT_CA, "/etc/kubexm/depot/ca.crt", "/etc/kubexm/registry/ca.crt"];

impl World {
    /// The certificates that are on a host.
    fn certificates(&self, host: &str) -> Vec<Certificate> {
        let mut all = self.of_kubeadm(host);
        all.extend(self.own_certificates(host));
        all
    }

    /// Of such a file the simulation knows the digest alone, which is that of the value.
    fn own_certificates(&self, host: &str) -> Vec<Certificate> {
        let here = self.hosts.get(host);
        let there = OWN.into_iter().chain(OWN_AUTHORITIES).filter_map(|path| {
            let content = here?.state.get(&format!("path:{path}"))?;
            let file: Digest = content.split_whitespace().find_map(|word| word.parse().ok())?;
            let lasts = OWN_AUTHORITIES.contains(&path) || self.renewed.contains(&file);
            let ends = if lasts { RENEWED } else { ENDS };
            let (host, path, subject) = (host.to_owned(), path.to_owned(), String::new());
            Some(Certificate { host, path, subject, ends, file: Some(file), leaf: None })
        });
        there.collect()
    }

    /// The certificates of kubeadm that are on a host.
    fn of_kubeadm(&self, host: &str) -> Vec<Certificate> {
        let here = self.hosts.get(host);
        let there = MANAGED.iter().filter_map(|(name, path)| {
            let content = here?.state.get(&format!("path:{path}"))?;
            let ends = if content.contains(" renewed") { RENEWED } else { ENDS };
            let (subject, file) = ((*name).to_owned(), Some(Digest::of(content)));
            Some(Certificate { host: host.to_owned(), path: (*path).to_owned(), subject, ends, file, leaf: None })
        });
        there.collect()
    }
}

impl World {
    /// Of the version that its unit was started with; where that was no program of an archive, of the one that is written down on its host.
    fn own_member(&self, name: &str, host: &Host) -> EtcdMember {
        let program = host.loaded(etcd::UNIT).find(|(path, _)| path.ends_with("/etcd")).map(|(_, program)| program);
        // An archive's member is known by the path in it: etcd-v3.6.5-linux-amd64/etcd.
        let started = program.and_then(|program| program.split_once("#etcd-v")?.1.split('-').next());
        let written = || {
            let value = host.state.get(&format!("path:{}", etcd::FORMED))?;
            self.texts.get(value.rsplit(' ').next()?)?.lines().nth(1)
        };
        let version = started.or_else(written).map(str::to_owned);
        let usual = member(name.to_owned());
        EtcdMember { version: version.or(usual.version.clone()), ..usual }
    }

    fn node_facts(&self, name: String) -> NodeFacts {
        NodeFacts {
            kubelet: self.kubelet_version(&name).to_owned(),
            unschedulable: self.cluster.contains_key(&format!("cordoned:{name}")),
            cordoned_by: self.cluster.get(&format!("cordoned:{name}")).filter(|by| *by != SOMEBODY).cloned(),
            settings: None,
            ..node(name)
        }
    }

    fn api_server(&self, node: String) -> Component {
        let image = format!("registry.k8s.io/kube-apiserver:{}", self.api_version(&node));
        Component { name: "kube-apiserver".to_owned(), node, ready: true, image, restarts: 0 }
    }
}

fn node(name: String) -> NodeFacts {
    NodeFacts {
        name,
        roles: Vec::new(),
        kubelet: String::new(),
        runtime: "simulated".to_owned(),
        runtime_version: "1".to_owned(),
        os_image: "simulated".to_owned(),
        kernel: "6.1.0".to_owned(),
        addresses: Vec::new(),
        ready: true,
        conditions: Vec::new(),
        unschedulable: false,
        cordoned_by: None,
        settings: None,
    }
}

fn member(name: String) -> EtcdMember {
    EtcdMember {
        id: "1".to_owned(),
        peer_urls: vec![format!("https://{name}:2380")],
        name,
        version: Some("3.6.5".to_owned()),
        healthy: true,
        learner: false,
        database: None,
    }
}
