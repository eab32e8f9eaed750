//! On a cluster that was adopted kubeadm's certificates are renewed, and what others have made stays as it is.

use kubexm_plan::Op;
use kubexm_plan::cluster_facts::{Certificate, KubeletFacts};
use kubexm_plan::facts::Leftover;
use kubexm_plan::kubeadm_certificates::{ADMIN_CONF, AUTHORITIES, PKI, authority};
use kubexm_plan::op::Kubeconfig;
use kubexm_recipes::sample_adoption;
use kubexm_spec::cluster::{API_PORT, InternalKind, LoadBalancerMode, RuntimeKind};
use kubexm_spec::{Digest, ExitCode};

use crate::certs_renew::Site;

/// A cluster that kubeadm has made, whose certificates end in 30 days.
fn adopted(control_planes: u8, workers: u8) -> Site {
    let mut site = Site::of(control_planes, workers, 30);
    site.facts.values_mut().for_each(|facts| facts.stamp.as_mut().unwrap().adopted = true);
    let server = format!("https://{}:{}", site.cluster.control_plane_name(), site.cluster.control_plane_port());
    let kubelet = |host: &String| KubeletFacts {
        server: Some(server.clone()),
        programs: Vec::new(),
        etcd: None,
        host: host.clone(),
        runtime: Some("unix:///var/run/containerd/containerd.sock".to_owned()),
        certificates: Some(PKI.to_owned()),
    };
    site.running.kubelets = site.cluster.role_groups.control_plane.iter().map(kubelet).collect();
    site
}

fn kubeconfigs(site: &Site) -> Vec<(String, Kubeconfig)> {
    let plan = site.plan().unwrap().plan;
    let ops = plan.steps.iter().flat_map(|step| step.ops.iter().map(|op| (step.host.clone(), op)));
    let of = |(host, op): (String, &Op)| if let Op::Kubeconfig(op) = op { Some((host, op.clone())) } else { None };
    ops.filter_map(of).collect()
}

#[test]
fn it_is_renewed_like_any_other_and_only_copies_of_the_earlier_admin_conf_are_replaced() {
    let (theirs, ours) = (adopted(2, 1), Site::of(2, 1, 30));
    assert_eq!(theirs.steps(), ours.steps());
    let found = kubeconfigs(&theirs);
    assert!(found.iter().any(|(_, op)| op.user == "root") && found.len() >= 2, "{found:?}");
    for (host, op) in found {
        assert_eq!(op.replaces, Some(Digest::of(format!("{host} {ADMIN_CONF}"))), "{host}");
    }
    assert!(kubeconfigs(&ours).iter().all(|(_, op)| op.replaces.is_none()));
}

#[test]
fn where_no_admin_conf_is_nobody_has_a_copy() {
    let mut site = adopted(1, 0);
    site.running.certificates.retain(|one| one.path != ADMIN_CONF);
    assert!(kubeconfigs(&site).is_empty());
    assert!(site.steps().contains(&"node1/certs.ready".to_owned()));
}

/// The API server's certificate would not be accepted with that name.
#[test]
fn a_kubeconfig_for_the_operator_is_written_only_where_cluster_yaml_names_the_clusters_endpoint() {
    const OPERATOR: &str = "@controller/kubeconfig.operator";
    let mut site = adopted(1, 0);
    assert!(site.steps().contains(&OPERATOR.to_owned()) && site.plan().unwrap().warnings.is_empty());
    for server in [Some("https://10.0.0.1:6443".to_owned()), None] {
        site.running.kubelets[0].server = server;
        assert!(!site.steps().contains(&OPERATOR.to_owned()));
        let warnings = site.plan().unwrap().warnings;
        assert!(warnings.iter().any(|one| one.contains("no kubeconfig is written on this machine")), "{warnings:?}");
    }
}

#[test]
fn static_pods_of_others_are_named_and_not_restarted() {
    let mut site = adopted(2, 0);
    let vip = Some([10, 77, 0, 100].into());
    site.cluster.load_balancer.mode =
        LoadBalancerMode::Internal { kind: InternalKind::KubeVip, vip, port: API_PORT, interface: None };
    assert!(site.plan().unwrap().warnings.is_empty());
    let manifest = |file: &str| Leftover { what: format!("/etc/kubernetes/manifests/{file}"), ours: true };
    site.facts.get_mut("node2").unwrap().leftovers = vec![manifest("etcd.yaml"), manifest("kube-vip.yaml")];
    let warnings = site.plan().unwrap().warnings;
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(warning.contains("/etc/kubernetes/manifests/kube-vip.yaml on node2") && !warning.contains("etcd.yaml"));
    assert!(!site.steps().iter().any(|step| step.ends_with("restart-vip")));
}

#[test]
fn what_cannot_be_restarted_or_is_elsewhere_is_refused_by_name_with_what_to_do() {
    type Bend = fn(&mut Site);
    let cases: [(&str, Bend); 3] = [
        ("the container runtime is docker", |site| site.cluster.runtime.kind = RuntimeKind::Docker),
        ("node2: the certificates are in /etc/kubernetes/ssl", |site| {
            site.running.kubelets[1].certificates = Some("/etc/kubernetes/ssl".to_owned());
        }),
        ("node1: kubelet's runtime is at unix:///run/k3s/containerd.sock", |site| {
            site.running.kubelets[0].runtime = Some("unix:///run/k3s/containerd.sock".to_owned());
        }),
    ];
    for (words, bend) in cases {
        let mut site = adopted(2, 0);
        site.plan().unwrap();
        bend(&mut site);
        let error = site.plan().unwrap_err();
        let text = error.to_string();
        assert!(text.contains(words) && text.contains("kubeadm certs renew all"), "{text}");
        assert_eq!(error.exit_code(), ExitCode::Unsupported);
    }
}

#[test]
fn control_planes_that_do_not_say_alike_whether_it_was_adopted_are_named() {
    let mut site = Site::of(3, 0, 30);
    site.facts.get_mut("node3").unwrap().stamp.as_mut().unwrap().adopted = true;
    let refused = site.plan().unwrap_err().to_string();
    assert!(
        refused.contains("by the stamps of node3 cluster") && refused.contains("of node1, node2 kubexm"),
        "{refused}"
    );
}

#[test]
fn a_worker_that_calls_its_cluster_adopted_changes_nothing_of_it() {
    let mut site = Site::of(1, 1, 30);
    site.facts.get_mut("node2").unwrap().stamp.as_mut().unwrap().adopted = true;
    assert!(kubeconfigs(&site).iter().all(|(_, op)| op.replaces.is_none()));
}

/// The same over an etcd of others, whose files end soon, too.
fn over_etcd_of_others() -> Site {
    let mut site = adopted(2, 0);
    site.cluster = sample_adoption::with_external_etcd(site.cluster);
    let found = sample_adoption::running(&site.cluster);
    site.running.etcd = found.etcd;
    let ends = site.running.certificates.iter().find(|one| one.path.ends_with("/apiserver.crt")).unwrap().ends;
    site.running.certificates.retain(|one| authority(&one.path) != AUTHORITIES[1]);
    let theirs = found.certificates.into_iter().filter(|one| one.path.starts_with("/etc/ssl/etcd/"));
    site.running.certificates.extend(theirs.map(|one| Certificate { ends, ..one }));
    for (one, found) in site.running.kubelets.iter_mut().zip(found.kubelets) {
        one.etcd = found.etcd;
    }
    site
}

#[test]
fn beside_an_etcd_of_others_kubeadms_are_renewed_and_its_own_are_named() {
    let site = over_etcd_of_others();
    let steps = site.steps();
    assert!(
        steps.contains(&"node2/certs.renew".to_owned()) && !steps.iter().any(|step| step.contains("etcd")),
        "{steps:?}"
    );
    let plan = site.plan().unwrap();
    let of_etcd = |one: &kubexm_plan::op::Renewal| one.path.contains("etcd");
    let renewed = plan.plan.steps.iter().flat_map(|step| &step.ops);
    let renewed: Vec<_> =
        renewed.filter_map(|op| if let Op::CertificatesRenewed(op) = op { Some(op) } else { None }).collect();
    assert!(renewed.len() == 2 && !renewed.iter().any(|op| op.certificates.iter().any(of_etcd)), "{renewed:?}");
    for path in ["/etc/ssl/etcd/ssl/ca.pem", "/etc/ssl/etcd/ssl/node-node1.pem"] {
        let said = plan.warnings.iter().find(|one| one.starts_with(&format!("node2: {path} ends soon")));
        assert!(said.is_some_and(|one| one.contains("renew it as you have made it")), "{:?}", plan.warnings);
    }
}

/// As kubeadm's documentation of an etcd of its own hosts has it.
#[test]
fn files_of_an_etcd_of_others_with_kubeadms_names_are_not_renewed_either() {
    let mut site = over_etcd_of_others();
    let (ca, client) = (AUTHORITIES[1], "/etc/kubernetes/pki/apiserver-etcd-client.crt");
    for kubelet in &mut site.running.kubelets {
        let access = &mut kubelet.etcd.as_mut().unwrap().access;
        (access.ca, access.certificate) = (ca.to_owned(), client.to_owned());
    }
    let theirs = site.running.certificates.iter_mut().filter(|one| one.path.starts_with("/etc/ssl/etcd/"));
    theirs.for_each(|one| one.path = if one.path.ends_with("/ca.pem") { ca } else { client }.to_owned());
    let plan = site.plan().unwrap();
    assert!(!plan.plan.render().contains("apiserver-etcd-client"), "{}", plan.plan.render());
    for path in [ca, client] {
        let said = plan.warnings.iter().find(|one| one.starts_with(&format!("node1: {path} ends soon")));
        assert!(said.is_some_and(|one| one.contains("renew it as you have made it")), "{:?}", plan.warnings);
    }
    // Ended, it is the reason why no API server answers, and no renewal of others helps.
    let theirs = site.running.certificates.iter_mut().filter(|one| one.path == client);
    theirs.for_each(|one| one.ends = 0);
    let refused = site.plan().unwrap_err().to_string();
    assert!(refused.contains("node2: /etc/kubernetes/pki/apiserver-etcd-client.crt has ended"), "{refused}");
}

#[test]
fn another_etcd_than_cluster_yaml_says_is_refused_with_what_to_write() {
    let refused = |site: &Site| {
        let error = site.plan().unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Unsupported);
        error.to_string()
    };
    let mut site = over_etcd_of_others();
    site.cluster.etcd = kubexm_recipes::sample::fleet(2, 0).etcd;
    let text = refused(&site);
    assert!(
        text.contains("node1: spec.etcd.type of cluster.yaml is kubeadm") && text.contains("`etcd: {type: external"),
        "{text}"
    );
    let mut site = over_etcd_of_others();
    site.running.kubelets.iter_mut().for_each(|one| one.etcd = None);
    let text = refused(&site);
    assert!(
        text.contains("node2: spec.etcd.type of cluster.yaml is external") && text.contains("`etcd: {type: kubeadm}`"),
        "{text}"
    );
    let mut site = over_etcd_of_others();
    site.cluster.etcd.external.as_mut().unwrap().endpoints = vec!["https://10.0.9.7:2379".to_owned()];
    let text = refused(&site);
    assert!(text.contains("write `endpoints: [\"https://10.0.9.1:2379\"]`"), "{text}");
    let mut site = over_etcd_of_others();
    site.cluster.etcd.external.as_mut().unwrap().prefix = "/lab".to_owned();
    assert!(refused(&site).contains("write `prefix: /registry`"));
}
