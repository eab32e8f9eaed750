//! A CA whose key stays with the site: hosts get what it has signed before kubeadm runs, and nothing asks anybody in the cluster to sign.

use std::collections::BTreeMap;

use kubexm_plan::cluster_facts::{Certificate, Leaf};
use kubexm_plan::kubeadm_certificates::{ADMIN_CONF, AUTHORITIES, MANAGED, SHARED};
use kubexm_plan::op::{Content, KUBELET_CLIENT, Op};
use kubexm_plan::request::KUBELET_CONF;
use kubexm_plan::{KeyForm, Plan, SlotProvider, Step};
use kubexm_recipes::{RecipeError, sample};
use kubexm_spec::cluster::{Cluster, EtcdKind};
use kubexm_spec::{Digest, ExitCode};

use crate::certs_renew::{DAY, NOW, Site as Running};
use crate::common::{Site, text};

const CA: &str = "ca: {certFile: site/ca.crt, certificatesFolder: /root/demo-certificates}";

fn cluster(kubernetes: &str) -> Cluster {
    let yaml = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n  hosts:\n  - {{name: node1, address: \
         10.77.0.11}}\n  - {{name: node2, address: 10.77.0.12}}\n  - {{name: node3, address: 10.77.0.13}}\n  roleGroups: {{master: \
         [node1, node2], worker: [node3]}}\n  kubernetes: {{version: v1.34.4, {kubernetes}}}\n"
    );
    kubexm_spec::cluster::parse(&yaml).unwrap()
}

fn site() -> Site {
    Site::of(cluster(CA))
}

fn step<'p>(plan: &'p Plan, id: &str) -> &'p Step {
    plan.steps.iter().find(|step| step.id.0 == id).unwrap_or_else(|| panic!("no step {id}"))
}

fn files(step: &Step) -> Vec<String> {
    let path = |op: &Op| match op {
        Op::File(file) => Some(format!("{} {:04o}", file.path, file.mode)),
        _ => None,
    };
    step.ops.iter().filter_map(path).collect()
}

#[test]
fn the_first_control_plane_has_all_that_the_site_has_signed_before_its_init_and_no_key_of_the_ca() {
    let plan = site().checked();
    let given = step(&plan, "node1/control-plane.certificates");
    assert_eq!(
        files(given),
        [
            "/etc/kubernetes/pki/ca.crt 0644",
            "/etc/kubernetes/pki/sa.pub 0600",
            "/etc/kubernetes/pki/sa.key 0600",
            "/etc/kubernetes/pki/apiserver.crt 0644",
            "/etc/kubernetes/pki/apiserver.key 0600",
            "/etc/kubernetes/pki/apiserver-kubelet-client.crt 0644",
            "/etc/kubernetes/pki/apiserver-kubelet-client.key 0600",
            "/etc/kubernetes/admin.conf 0600",
            "/etc/kubernetes/super-admin.conf 0600",
            "/etc/kubernetes/controller-manager.conf 0600",
            "/etc/kubernetes/scheduler.conf 0600",
            "/etc/kubernetes/kubelet.conf 0600",
        ]
    );
    assert!(step(&plan, "node1/control-plane.init").after.contains(&given.id));
    let writes = |op: &Op| matches!(op, Op::File(file) if file.path == "/etc/kubernetes/pki/ca.key");
    assert!(!plan.steps.iter().flat_map(|step| &step.ops).any(writes));
    assert!(!plan.steps.iter().any(|step| step.id.0.ends_with("/control-plane.ca")));
    let kubeadm = text(&plan, "/etc/kubexm/kubeadm.yaml");
    assert!(kubeadm.contains("name: rotate-certificates\n    value: \"false\""), "{kubeadm}");
}

#[test]
fn a_joining_node_has_its_kubelets_credentials_and_a_control_plane_what_the_first_one_has() {
    let plan = site().checked();
    let (plane, worker) = (step(&plan, "node2/join.certificates"), step(&plan, "node3/join.certificates"));
    assert_eq!(files(worker), ["/etc/kubernetes/kubelet.conf 0600"]);
    assert_eq!(files(plane).len(), 1 + SHARED.len() + 2 + 2 + 4, "{:?}", files(plane));
    assert!(files(plane).last().unwrap().starts_with(KUBELET_CONF), "what says that a host has joined comes last");
    for path in SHARED {
        assert!(
            plan.slots.values().any(|one| *one == SlotProvider::SharedFile { host: "node1".into(), path: path.into() })
        );
    }
    assert!(!plan.slots.values().any(|one| matches!(one, SlotProvider::UploadKey { .. })));
    for id in ["node2/join.node", "node3/join.node"] {
        let join = step(&plan, id);
        let Op::Act(act) = join.ops.last().unwrap() else { panic!("{join:?}") };
        assert!(format!("{act:?}").contains("FileAvailable--etc-kubernetes-kubelet.conf"), "{act:?}");
    }
    // Bytes of a key are in no text: its place is.
    let kubelet = plan.texts.values().find(|text| text.contains("user: system:node:node3")).unwrap();
    assert!(
        kubelet.contains("client-key-data: {{slot:key-node3-kubelet}}") && kubelet.contains("server: https://lb.demo"),
        "{kubelet}"
    );
    let of =
        |name: &str| plan.slots.iter().find(|(slot, _)| slot.0 == format!("key-{name}")).map(|(_, one)| one.clone());
    let key = |name: &str, form| SlotProvider::RequestKey { name: name.into(), public: Digest::of(name), form };
    assert_eq!(of("node3-kubelet"), Some(key("node3-kubelet", KeyForm::Base64)));
    assert_eq!(of("node2-apiserver"), Some(key("node2-apiserver", KeyForm::Pem)));
    let local = plan.texts.values().find(|text| text.contains("user: system:node:node2")).unwrap();
    assert!(local.contains("server: https://10.77.0.12:6443"), "{local}");
}

#[test]
fn with_an_etcd_apart_no_authority_of_kubeadms_etcd_is_shared() {
    let mut cluster = cluster(CA);
    cluster.etcd.kind = EtcdKind::Kubexm;
    let plan = Site::of(cluster).checked();
    assert!(!files(step(&plan, "node2/join.certificates")).iter().any(|file| file.contains("/etcd/")));
}

#[test]
fn what_is_missing_is_named_and_nodes_that_run_need_nothing() {
    let mut site = site();
    site.signed.certificates.retain(|name, _| !name.starts_with("node1-kubelet") && name != "node1-admin");
    let error = site.create().unwrap_err();
    assert!(error.to_string().contains("missing: node1-admin, node1-kubelet;"), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Preflight);
    site.join_all_but("");
    let plan = site.create().unwrap();
    assert!(!plan.steps.iter().any(|step| step.id.0.ends_with(".certificates")));
    site.join_all_but("node3");
    let plan = site.create().unwrap();
    let with: Vec<&str> =
        plan.steps.iter().filter(|step| step.id.0.ends_with(".certificates")).map(|step| step.host.as_str()).collect();
    assert_eq!(with, ["node3"]);
}

#[test]
fn settings_that_need_a_signer_in_the_cluster_are_refused() {
    let parse = |kubernetes: &str| {
        let yaml = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n  hosts: [{{name: a, address: 10.0.0.1}}]\n  \
             roleGroups: {{master: [a]}}\n  kubernetes: {{{kubernetes}}}\n"
        );
        kubexm_spec::cluster::parse(&yaml).unwrap_err().to_string()
    };
    for (more, said) in [
        ("autoRenewCerts: true", "no timer can renew certificates"),
        ("kubelet: {serverTLSBootstrap: true}", "nobody signs what kubelets ask"),
    ] {
        let found = parse(&format!("{CA}, {more}"));
        assert!(found.contains(said), "{found}");
    }
    for (ca, said) in [
        ("ca: {certFile: a}", "nobody would sign"),
        ("ca: {certFile: a, keyFrom: {env: K}, certificatesFolder: /a}", "exclude each other"),
        ("ca: {certFile: a, certificatesFolder: a}", "is not absolute"),
    ] {
        let found = parse(ca);
        assert!(found.contains(said), "{found}");
    }
}

/// A cluster that runs, whose certificates end in so many days; of what the site has signed anew, only what is named.
fn running(days: i64, anew: &[&str]) -> Running {
    let mut site = Running::of(2, 1, days);
    site.cluster = cluster(CA);
    site.running.certificates.retain(|one| one.path != KUBELET_CLIENT);
    for host in ["node1", "node2", "node3"] {
        let file = Some(Digest::of(host));
        site.running.certificates.push(Certificate {
            host: host.into(),
            path: KUBELET_CONF.into(),
            subject: String::new(),
            ends: NOW + days * DAY,
            file,
            leaf: None,
        });
    }
    // kubeadm has it on the first alone.
    site.running.certificates.retain(|one| one.host == "node1" || one.path != "/etc/kubernetes/super-admin.conf");
    let mut signed = sample::signed_anew(&site.cluster);
    signed.certificates.retain(|name, _| anew.iter().any(|one| name.ends_with(one)));
    site.signed = Some(signed);
    site
}

#[test]
fn what_was_signed_later_is_taken_whenever_it_ends_and_nothing_that_is_the_same_or_was_signed_before() {
    const SIGNED: [&str; 3] = ["node2-apiserver", "node2-admin", "node3-kubelet"];
    // Each host has one that ends in 300 days, and the one in the folder ends so many days later.
    let taken = |digest: &str, begins: i64, days: i64| {
        let mut site = running(300, &SIGNED);
        for one in &mut site.running.certificates {
            one.leaf = Some(Leaf { digest: Digest::of("on the host"), begins: NOW });
        }
        for signed in site.signed.as_mut().unwrap().certificates.values_mut() {
            signed.ends = NOW + (300 + days) * DAY;
            signed.leaf = Leaf { digest: Digest::of(digest), begins };
        }
        let plan = site.plan().map(|renewed| renewed.plan.steps).unwrap_or_default();
        let is_sites = |id: &str| ["/certs.site", "/certs.kubelet"].iter().any(|end| id.ends_with(end));
        plan.into_iter().map(|step| step.id.0).filter(|id| is_sites(id)).collect::<Vec<_>>()
    };
    let all = ["node2/certs.site", "node3/certs.kubelet"];
    for days in [-200, 0, 10] {
        assert_eq!(taken("another one", NOW + DAY, days), all, "{days}");
        // Of two of one moment the longer one: two folders would exchange theirs in turn.
        let of_one_moment = if days > 0 { all.to_vec() } else { Vec::new() };
        assert_eq!(taken("another one", NOW, days), of_one_moment, "two of one moment: {days}");
        assert_eq!(taken("on the host", NOW, days), Vec::<String>::new(), "{days}");
        assert_eq!(taken("another one", NOW - DAY, days), Vec::<String>::new(), "signed before: {days}");
    }
}

const ALL: [&str; 7] =
    ["-apiserver", "-kubelet-client", "-admin", "-super-admin", "-controller-manager", "-scheduler", "-kubelet"];

#[test]
fn certificates_are_renewed_from_what_the_site_has_signed_and_the_rest_by_kubeadm() {
    let site = running(30, &ALL);
    let plan = site.plan().unwrap().plan;
    let of_kubeadm = |host: &str| {
        let ops = plan.steps.iter().filter(|step| step.host == host).flat_map(|step| &step.ops);
        let names = ops.filter_map(|op| match op {
            Op::CertificatesRenewed(op) => Some(op.certificates.iter().map(|one| one.name.clone())),
            _ => None,
        });
        names.flatten().collect::<Vec<_>>()
    };
    let not_of_cluster_ca: Vec<&str> = MANAGED
        .iter()
        .filter(|(_, path)| kubexm_plan::kubeadm_certificates::authority(path) != AUTHORITIES[0])
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(of_kubeadm("node2"), not_of_cluster_ca);
    assert_eq!(files(step(&plan, "node1/certs.site")).len(), 8, "{:?}", files(step(&plan, "node1/certs.site")));
    assert_eq!(files(step(&plan, "node2/certs.site")).len(), 7);
    let ids: Vec<&str> = plan.steps.iter().map(|step| step.id.0.as_str()).collect();
    let at = |id: &str| ids.iter().position(|one| *one == id).unwrap_or_else(|| panic!("no {id} in {ids:?}"));
    assert!(at("node1/certs.site") < at("node1/certs.restart-apiserver"));
    assert!(at("node1/certs.ready") < at("node2/certs.site"), "{ids:?}");
    assert!(
        at("node2/certs.ready") < at("node3/certs.kubelet")
            && at("node3/certs.kubelet") < at("node1/certs.ready-node3")
    );
    let kubelet = step(&plan, "node3/certs.kubelet");
    assert!(matches!(&kubelet.ops[1], Op::Unit(unit) if unit.loaded == [KUBELET_CONF]), "{kubelet:?}");
    let Op::File(file) = &kubelet.ops[0] else { panic!("{kubelet:?}") };
    assert!(matches!(&file.content, Content::Filled { .. }));
}

#[test]
fn what_is_due_and_has_no_newer_certificate_is_refused_by_name_all_at_once() {
    let mut site = running(30, &["-apiserver", "-kubelet-client", "-super-admin", "-scheduler"]);
    let faults = [("node1-admin".to_owned(), vec!["it is not signed yet".to_owned()])];
    site.signed.as_mut().unwrap().faults = BTreeMap::from(faults);
    let error = site.plan().unwrap_err();
    assert!(matches!(&error, RecipeError::CannotRenew { problems } if problems.len() == 8), "{error}");
    let text = error.to_string();
    for said in [
        "node1: /etc/kubernetes/admin.conf is due, and your site's CA has signed no newer one (node1-admin: it is not signed yet)",
        "node3: /etc/kubernetes/kubelet.conf is due",
        "kubexm-install certs requests -f cluster.yaml",
    ] {
        assert!(text.contains(said), "{text}");
    }
    assert_eq!(error.exit_code(), ExitCode::Preflight);
}

#[test]
fn what_was_signed_anew_is_taken_although_nothing_is_due_and_nothing_else_is() {
    let mut site = running(300, &["node2-apiserver"]);
    let plan = site.plan().unwrap().plan;
    assert_eq!(
        files(step(&plan, "node2/certs.site")),
        ["/etc/kubernetes/pki/apiserver.crt 0644", "/etc/kubernetes/pki/apiserver.key 0600"]
    );
    assert!(!plan.steps.iter().any(|step| step.id.0 == "node1/certs.site" || step.id.0.ends_with("/certs.kubelet")));
    // What it has already is none.
    let ends = NOW + 300 * DAY;
    let signed = site.signed.as_mut().unwrap().certificates.get_mut("node2-apiserver").unwrap();
    signed.ends = ends;
    let pem = Digest::of(&signed.pem);
    for one in &mut site.running.certificates {
        if one.host == "node2" && one.path.ends_with("/apiserver.crt") {
            one.file = Some(pem);
        }
    }
    assert!(!site.steps().iter().any(|id| id.ends_with("/certs.site")));
    site.ends("node1", ADMIN_CONF, NOW - 1);
    assert!(site.plan().unwrap_err().to_string().contains("node1: /etc/kubernetes/admin.conf is due"));
}
