//! An adopted cluster of which something that decides is elsewhere, too old or not known is refused by name, with what to do.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use kubexm_plan::cluster_facts::{ETCD_FILES, Gap, PROGRAMS};
use kubexm_spec::cluster::{EtcdKind, RegistryKind, RuntimeKind};

use super::adopted::adopted;
use super::*;

/// Why kubexm-install does not upgrade it.
fn by_hand(case: &Case) -> String {
    let error = case.plan().unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Unsupported, "{error}");
    let text = error.to_string();
    for words in ["kubexm-install cannot upgrade it", "nothing was changed", "Upgrading kubeadm clusters"] {
        assert!(text.contains(words), "{text}");
    }
    text
}

type Bend = fn(&mut Case);

/// Each is upgraded until it is bent, and then refused with these words.
fn refused_with(cases: &[(&[&str], Bend)], arranged: impl Fn() -> Case) {
    for (words, bend) in cases {
        let mut case = arranged();
        case.steps();
        bend(&mut case);
        let text = by_hand(&case);
        for words in *words {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}

/// A program of a host.
fn program<'c>(case: &'c mut Case, host: &str, name: &str) -> &'c mut kubexm_plan::cluster_facts::ProgramFacts {
    let kubelet = case.running.kubelets.iter_mut().find(|one| one.host == host).unwrap();
    kubelet.programs.iter_mut().find(|program| program.name == name).unwrap()
}

#[test]
fn what_is_elsewhere_or_not_known_is_refused_by_name_with_what_to_do() {
    let cases: [(&[&str], Bend); 17] = [
        (&["the container runtime is docker", "into containerd only"], |case| {
            case.site.cluster.runtime.kind = RuntimeKind::Docker;
        }),
        (&["node2: kubelet's runtime is at unix:///run/k3s/containerd.sock"], |case| {
            case.running.kubelets[1].runtime = Some("unix:///run/k3s/containerd.sock".to_owned());
        }),
        (&["node2: no file of kubelet's names the endpoint"], |case| case.running.kubelets[1].runtime = None),
        (&["spec.registry.type is embedded", "`registry: {type: none}`"], |case| {
            case.site.cluster.registry.kind = RegistryKind::Embedded;
        }),
        (&["etcd is not known to be kubeadm's"], |case| case.running.kubeadm.as_mut().unwrap().etcd_data = None),
        (&["etcd is not known to be kubeadm's"], |case| case.site.cluster.etcd.kind = EtcdKind::Kubexm),
        (&["etcd is not known to be kubeadm's", "kubeadm-config"], |case| case.running.kubeadm = None),
        (&["node1: the certificates are in /etc/kubernetes/ssl", "/etc/kubernetes/pki only"], |case| {
            case.running.kubelets[0].certificates = Some("/etc/kubernetes/ssl".to_owned());
        }),
        (&["kubeadm takes its images from r.example/k8s", "imageRepository: registry.k8s.io"], |case| {
            case.running.kubeadm.as_mut().unwrap().image_repository = "r.example/k8s".to_owned();
        }),
        (&["etcd.local.imageTag is 3.5.9-0 in the cluster", "remove it from ClusterConfiguration"], |case| {
            let own = [("etcd.local.imageTag".to_owned(), "3.5.9-0".to_owned())];
            case.running.kubeadm.as_mut().unwrap().own_images = own.into();
        }),
        (&["dns.imageRepository is r.example/dns in the cluster"], |case| {
            let own = [("dns.imageRepository".to_owned(), "r.example/dns".to_owned())];
            case.running.kubeadm.as_mut().unwrap().own_images = own.into();
        }),
        (&["node2: kubelet is /usr/bin/kubelet, of the package kubelet", "upgrade with packages"], |case| {
            let kubelet = program(case, "node2", "kubelet");
            (kubelet.path, kubelet.package) = ("/usr/bin/kubelet".to_owned(), Some("kubelet".to_owned()));
        }),
        (&["node1: kubeadm is /usr/local/bin/kubeadm, of the package site-tools"], |case| {
            program(case, "node1", "kubeadm").package = Some("site-tools".to_owned());
        }),
        (&["node1: kubeadm is /opt/bin/kubeadm, and is replaced at /usr/local/bin/kubeadm only"], |case| {
            program(case, "node1", "kubeadm").path = "/opt/bin/kubeadm".to_owned();
        }),
        (&["node2: kubelet.service does not say which program it starts"], |case| {
            case.running.kubelets[1].programs.clear()
        }),
        (&["node2: where kubelet and kubeadm are is not known: systemd does not answer"], |case| {
            let (host, what) = ("node2".to_owned(), PROGRAMS.to_owned());
            case.running.gaps.push(Gap { host, what, why: "systemd does not answer".to_owned() });
        }),
        (&["node2 is not adopted", "`kubexm-install adopt` again"], |case| {
            case.site.facts.get_mut("node2").unwrap().stamp.as_mut().unwrap().id = None;
        }),
    ];
    refused_with(&cases, || adopted(1, 1, PATCH));
}

#[test]
fn images_that_the_cluster_names_as_the_bundle_does_are_no_obstacle() {
    let mut case = adopted(1, 0, PATCH);
    let etcd = case.site.manifest.artifacts.iter().find(|one| one.name.contains("/etcd:")).unwrap();
    let tag = etcd.name.rsplit_once(':').unwrap().1.to_owned();
    let kubeadm = case.running.kubeadm.as_mut().unwrap();
    let own = [("etcd.local.imageTag", tag.as_str()), ("dns.imageRepository", "registry.k8s.io/coredns")];
    kubeadm.own_images = own.map(|(path, value)| (path.to_owned(), value.to_owned())).into();
    case.steps();
}

#[test]
fn a_host_with_cgroup_v1_does_not_get_a_kubelet_that_may_not_start_there() {
    let mut case = adopted(1, 1, MINOR);
    case.site.facts.get_mut("node2").unwrap().cgroup_version = 1;
    let text = by_hand(&case);
    assert!(text.contains("node2: it has cgroup v1") && !text.contains("node1: it has"), "{text}");
    let mut case = adopted(1, 1, PATCH);
    case.site.facts.get_mut("node2").unwrap().cgroup_version = 1;
    case.steps();
}

/// A host says for itself that it was adopted: control planes decide, and the one that says otherwise is named.
#[test]
fn one_adopted_host_of_a_cluster_that_kubexm_made_is_named_and_the_others_are_not_blamed() {
    for (host, others) in [("node2", "node1"), ("node3", "node1, node2")] {
        let mut case = Case::of(2, 1, PATCH);
        case.site.facts.get_mut(host).unwrap().stamp.as_mut().unwrap().adopted = true;
        let text = case.plan().unwrap_err().to_string();
        let said = format!(
            "by the stamps of {host} cluster demo was adopted, and by those of {others} kubexm-install has made it"
        );
        assert!(text.contains(&said), "{text}");
    }
}

#[test]
fn a_containerd_with_which_the_new_kubelet_does_not_start_is_refused_before_anything_is_changed() {
    let text = |target: &str, version: &str| {
        let mut case = adopted(1, 1, target);
        case.running.nodes[1].runtime_version = version.to_owned();
        let text = by_hand(&case);
        assert!(!text.contains("node1"), "{text}");
        text
    };
    let old = text(PATCH, "1.6.20~ds1");
    assert!(old.contains("node2: containerd is 1.6.20~ds1, and Kubernetes v1.34.8 needs 1.7.0 or newer"), "{old}");
    for unknown in ["", "unknown"] {
        let text = text(MINOR, unknown);
        assert!(text.contains("node2: the version of its containerd is not known"), "{text}");
    }
    let mut case = adopted(1, 1, MINOR);
    case.running.nodes.iter_mut().for_each(|node| node.runtime_version = "1.7.24~ds1".to_owned());
    case.steps();
    case.running.nodes[0].runtime = "docker".to_owned();
    assert!(by_hand(&case).contains("node1: the version of its containerd is not known"));
}

/// The catalogue's minimum is lower for earlier versions of Kubernetes.
#[test]
fn a_containerd_that_cannot_load_the_images_is_refused_too() {
    let mut case = adopted(1, 1, PATCH);
    case.running.nodes[1].runtime_version = "1.6.36".to_owned();
    let releases = &mut case.site.catalogue.releases;
    releases.get_mut("1.34").unwrap().support.minimum_containerd = "1.6.4".to_owned();
    let text = by_hand(&case);
    assert!(text.contains("node2: containerd is 1.6.36") && text.contains("`ctr images import --local`"), "{text}");
}

/// Half-way through an upgrade they may be away for a minute.
#[test]
fn api_servers_that_do_not_answer_are_said_and_not_taken_for_a_cluster_of_another_kind() {
    let mut case = adopted(1, 1, PATCH);
    (case.running.server_version, case.running.kubeadm) = (None, None);
    let (host, what) = ("node1".to_owned(), SERVER_VERSION.to_owned());
    case.running.gaps.push(Gap { host, what, why: "connection refused".to_owned() });
    let text = case.plan().unwrap_err().to_string();
    assert!(text.contains("connection refused") && !text.contains("cannot upgrade it"), "{text}");
}

/// As `adopt` has found it.
fn over_etcd_of_others() -> Case {
    super::adopted::over_etcd_of_others(PATCH)
}

fn etcd<'c>(case: &'c mut Case, host: &str) -> &'c mut kubexm_plan::cluster_facts::ApiServerEtcd {
    case.running.kubelets.iter_mut().find(|one| one.host == host).unwrap().etcd.as_mut().unwrap()
}

#[test]
fn an_etcd_of_others_that_kubeadm_would_write_otherwise_than_it_is_used_is_refused() {
    let cases: [(&[&str], Bend); 8] = [
        (&["etcd is not known to be kubeadm's", "`etcd: {type: external"], |case| {
            case.site.cluster.etcd = sample::fleet(2, 1).etcd;
        }),
        (&["not known to be outside of kubeadm's control", "kubeadm-config"], |case| case.running.kubeadm = None),
        (&["kubeadm has recorded etcd at https://10.0.9.1:2379", "has https://10.0.9.2:2379"], |case| {
            case.site.cluster.etcd.external.as_mut().unwrap().endpoints = vec!["https://10.0.9.2:2379".to_owned()];
        }),
        (&["node2: the manifest of its API server does not say"], |case| case.running.kubelets[1].etcd = None),
        (
            &["node2: its API server uses etcd at https://10.0.9.1:2379, https://10.0.9.2:2379", "kubeadm-config"],
            |case| {
                etcd(case, "node2").access.endpoints.push("https://10.0.9.2:2379".to_owned());
            },
        ),
        (&["node2: kubeadm would write /etc/ssl/etcd/ssl/node-node1.pem", "put a copy"], |case| {
            etcd(case, "node2").lacks.push("/etc/ssl/etcd/ssl/node-node1.pem".to_owned());
        }),
        (&["node1: keys of its API server begin with /lab", "`prefix: /lab`"], |case| {
            etcd(case, "node1").prefix = "/lab".to_owned();
        }),
        (&["node2: files for etcd that kubeadm has recorded: timed out"], |case| {
            let (host, what) = ("node2".to_owned(), ETCD_FILES.to_owned());
            case.running.gaps.push(Gap { host, what, why: "timed out".to_owned() });
        }),
    ];
    refused_with(&cases, over_etcd_of_others);
}

/// What others have left in etcd's folder is in nobody's way.
#[test]
fn of_the_certificates_of_an_etcd_of_others_only_what_an_api_server_uses_must_not_have_ended() {
    let mut case = over_etcd_of_others();
    let used = etcd(&mut case, "node1").access.certificate.clone();
    let folder = used.rsplit_once('/').unwrap().0.to_owned();
    let ended = |path: &str| {
        let mut case = over_etcd_of_others();
        case.running.certificates.retain(|one| one.host != "node1" || one.path != path);
        let (host, path) = ("node1".to_owned(), path.to_owned());
        case.running.certificates.push(Certificate {
            host,
            path,
            subject: "etcd".to_owned(),
            ends: NOW - 1,
            file: None,
            leaf: None,
        });
        case
    };
    let refused = ended(&used).refused();
    assert!(
        refused.contains(&format!("{used} on node1 has ended")) && refused.contains("renew it as you have made it"),
        "{refused}"
    );
    let left = format!("{folder}/member-old.pem");
    let warnings = ended(&left).warnings();
    assert!(
        warnings.contains(&format!("{left} on node1 has ended")) && warnings.contains("no API server names it"),
        "{warnings}"
    );
}
