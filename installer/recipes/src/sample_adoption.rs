//! A cluster as kubeadm has made it without kubexm, for tests: it agrees with its cluster.yaml.

use std::collections::BTreeMap;

use kubexm_plan::cluster_facts::{
    ApiServerEtcd, Certificate, EtcdAccess, EtcdMember, KubeadmCluster, KubeletFacts, NodeFacts, ProgramFacts,
};
use kubexm_plan::kubeadm_certificates::{AUTHORITIES, CLUSTER_CA, PKI};
use kubexm_plan::op::KUBELET_CLIENT;
use kubexm_plan::{ClusterFacts, runtime};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{Cluster, EtcdKind, ExternalEtcd, Host, MaterialFile, SecretSource};

/// Programs that a node has, as upstream's documentation of an installation without a package manager puts them there.
const PROGRAMS: [&str; 5] = ["kubelet", "kubeadm", "kubectl", "etcdctl", "etcdutl"];

/// As KubeKey and kubespray name them: those of the first control plane are on all of them.
const ETCD_FILES: [&str; 3] =
    ["/etc/ssl/etcd/ssl/ca.pem", "/etc/ssl/etcd/ssl/node-node1.pem", "/etc/ssl/etcd/ssl/node-node1-key.pem"];

fn access(external: &ExternalEtcd) -> EtcdAccess {
    let [ca, certificate, key] = ETCD_FILES.map(str::to_owned);
    EtcdAccess { endpoints: external.endpoints.clone(), ca, certificate, key }
}

fn program(name: &str) -> ProgramFacts {
    ProgramFacts { name: name.to_owned(), path: format!("/usr/local/bin/{name}"), package: None }
}

/// A cluster with an etcd that is not kubeadm's, of one member.
pub fn with_external_etcd(mut cluster: Cluster) -> Cluster {
    let file = |name: &str| MaterialFile::parse(name).ok();
    cluster.etcd.kind = EtcdKind::External;
    cluster.role_groups.etcd.clear();
    cluster.etcd.external = Some(ExternalEtcd {
        endpoints: vec!["https://10.0.9.1:2379".to_owned()],
        ca_file: file("etcd-ca.pem"),
        cert_file: file("etcd-client.pem"),
        key: Some(SecretSource::Env("ETCD_KEY".to_owned())),
        prefix: "/registry".to_owned(),
    });
    cluster
}

/// What its hosts see of it.
pub fn running(cluster: &Cluster) -> ClusterFacts {
    let is_plane = |name: &String| cluster.role_groups.control_plane.contains(name);
    let mut nodes: Vec<&Host> = cluster.hosts.iter().filter(|host| cluster.roles(&host.name).in_cluster()).collect();
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    let certificate = |host: &str, path: &str, subject: String| Certificate {
        host: host.to_owned(),
        path: path.to_owned(),
        subject,
        ends: i64::MAX,
        file: Some(Digest::of(path)),
        leaf: None,
    };
    let mut certificates = Vec::new();
    let external = cluster.etcd.external.as_ref().filter(|_| cluster.etcd.kind == EtcdKind::External);
    for host in &nodes {
        let of_plane = AUTHORITIES.into_iter().filter(|path| is_plane(&host.name) || *path == CLUSTER_CA);
        let of_plane = of_plane.filter(|path| external.is_none() || *path != AUTHORITIES[1]);
        certificates.extend(of_plane.map(|path| certificate(&host.name, path, "kubernetes".to_owned())));
        if external.is_some() && is_plane(&host.name) {
            let files = [(ETCD_FILES[0], "etcd-ca"), (ETCD_FILES[1], "etcd-node-node1")];
            certificates.extend(files.map(|(path, subject)| certificate(&host.name, path, subject.to_owned())));
        }
        certificates.push(certificate(&host.name, KUBELET_CLIENT, format!("system:node:{}", host.name)));
    }
    let networks = |all: &mut dyn Iterator<Item = String>| all.collect::<Vec<_>>().join(",");
    let network = &cluster.network;
    let kubernetes = cluster.kubernetes.as_ref();
    let traits = runtime::of(cluster.runtime.kind);
    ClusterFacts {
        server_version: Some("v1.34.4".to_owned()),
        nodes: nodes.iter().map(|host| node(cluster, host)).collect(),
        etcd: match external {
            Some(_) => vec![member(&"etcd1".to_owned())],
            None => cluster.role_groups.control_plane.iter().map(member).collect(),
        },
        certificates,
        network: Some(network.plugin.to_string()),
        kubelets: nodes
            .iter()
            .map(|host| KubeletFacts {
                host: host.name.clone(),
                runtime: Some(traits.endpoint.to_owned()),
                certificates: is_plane(&host.name).then(|| PKI.to_owned()),
                server: is_plane(&host.name)
                    .then(|| format!("https://{}:{}", cluster.control_plane_name(), cluster.control_plane_port())),
                etcd: external.filter(|_| is_plane(&host.name)).map(|external| ApiServerEtcd {
                    access: access(external),
                    prefix: external.prefix.clone(),
                    lacks: Vec::new(),
                }),
                programs: PROGRAMS.map(program).to_vec(),
            })
            .collect(),
        kubeadm: Some(KubeadmCluster {
            name: kubernetes.map(|one| one.cluster_name.clone()).unwrap_or_default(),
            version: "v1.34.4".to_owned(),
            endpoint: format!("{}:{}", cluster.control_plane_name(), cluster.control_plane_port()),
            dns_domain: kubernetes.map(|one| one.dns_domain.clone()).unwrap_or_default(),
            pod_networks: networks(&mut network.pod_cidrs().map(|one| one.to_string())),
            service_networks: networks(&mut network.service_cidrs().map(|one| one.to_string())),
            image_repository: "registry.k8s.io".to_owned(),
            own_images: BTreeMap::new(),
            etcd_data: external.is_none().then(|| cluster.etcd.data_dir.clone()),
            external_etcd: external.map(access),
        }),
        ..ClusterFacts::default()
    }
}

fn node(cluster: &Cluster, host: &Host) -> NodeFacts {
    let is_plane = cluster.roles(&host.name).control_plane;
    NodeFacts {
        name: host.name.clone(),
        roles: is_plane.then(|| "control-plane".to_owned()).into_iter().collect(),
        kubelet: "v1.34.4".to_owned(),
        runtime: cluster.runtime.kind.to_string(),
        runtime_version: "2.2.7".to_owned(),
        addresses: host.node_ip().map(|ip| ip.to_string()).into_iter().collect(),
        ready: true,
        ..NodeFacts::default()
    }
}

fn member(plane: &String) -> EtcdMember {
    EtcdMember {
        id: "1".to_owned(),
        name: plane.clone(),
        peer_urls: vec![format!("https://{plane}:2380")],
        version: Some("3.6.5".to_owned()),
        healthy: true,
        learner: false,
        database: None,
    }
}
