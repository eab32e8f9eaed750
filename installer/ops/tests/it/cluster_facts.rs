//! What a host sees of its cluster, on directories with a fake of a cluster behind them.

use std::sync::Arc;

use crate::common::Host;
use kubexm_ops::fake::RootedSystem;
use kubexm_ops::{cluster_facts, dispatch};
use kubexm_plan::ClusterId;
use kubexm_plan::cluster_facts::{APPLIED, BUDGETS, ClusterFacts, SERVER_VERSION, applied};
use kubexm_plan::op::{KubeObject, KubeadmInit, Op, Stamp};
use serde_json::{Value, json};

const CONFIG: &str = "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration:\n  name: node1\n---\n\
                      apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n---\nkind: KubeletConfiguration\n";

/// A control plane, alone.
fn control_plane() -> Host {
    let host = Host::fresh();
    host.ready_for_init();
    host.put("/etc/kubexm/kubeadm.yaml", CONFIG);
    let interfaces = json!([{"name": "eth0", "addresses": ["10.0.0.1/24"], "mac": "02::1", "mtu": 1500}]);
    host.put("/run/kubexm-double/interfaces.json", interfaces.to_string());
    let config = "/etc/kubexm/kubeadm.yaml".to_owned();
    let socket = "unix:///run/containerd/containerd.sock".to_owned();
    let init = Op::from(KubeadmInit { config, cri_socket: socket, ignore: vec![], backup: None });
    dispatch::converge(&init, &host.machine).expect("init");
    host
}

fn gaps(facts: &ClusterFacts) -> Vec<&str> {
    facts.gaps.iter().map(|gap| gap.what.as_str()).collect()
}

/// An upgrade may have ended before kubeadm upgraded it.
#[test]
fn the_image_of_kube_proxy_is_seen_and_a_cluster_without_it_has_no_gap() {
    let host = control_plane();
    let none = cluster_facts::collect(&host.machine, "node1");
    let image = "registry.k8s.io/kube-proxy:v1.34.4";
    host.put("/run/kubexm-double/kube-proxy-image", json!(image).to_string());
    let one = cluster_facts::collect(&host.machine, "node1");
    assert_eq!((none.kube_proxy, one.kube_proxy.as_deref()), (None, Some(image)));
    assert_eq!(none.gaps, one.gaps);
}

/// Who has rights in one namespace makes any number of them, each as large as an object may be.
#[test]
fn budgets_of_users_are_read_in_pages_and_so_many_of_them_are_looked_at() {
    let host = control_plane();
    let with = |count: usize| {
        let budget = |at: usize| {
            json!({
                "metadata": {"namespace": "web", "name": format!("b{at}"), "annotations": {"a": "x".repeat(100)}},
                "status": {"expectedPods": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1},
            })
        };
        host.put("/run/kubexm-double/budgets.json", (0..count).map(budget).collect::<serde_json::Value>().to_string());
        cluster_facts::collect(&host.machine, "node1")
    };
    let few = with(20);
    assert_eq!((few.tight_budgets.len(), gaps(&few).contains(&BUDGETS)), (20, false));
    assert_eq!(few.tight_budgets[0].name, "web/b0");
    let many = with(3_500);
    assert_eq!((many.tight_budgets.len(), gaps(&many).contains(&BUDGETS)), (3_000, true));
}

fn certificate(days: i64) -> String {
    let mut params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    params.distinguished_name.push(rcgen::DnType::CommonName, "kube-apiserver");
    params.not_after = rcgen::date_time_ymd(2027, 1, u8::try_from(days).expect("a day"));
    let key = rcgen::KeyPair::generate().expect("a key");
    params.self_signed(&key).expect("a certificate").pem()
}

#[test]
fn a_control_plane_sees_nodes_etcd_components_certificates_and_what_was_applied() {
    let mut host = control_plane();
    let id = ClusterId::from_random([3; 16]);
    let stamp = Op::from(Stamp { cluster: "demo".to_owned(), id: Some(id), bundle: None, adopted: false });
    dispatch::converge(&stamp, &host.machine).expect("stamp");
    host.put("/etc/kubernetes/pki/apiserver.crt", certificate(2));
    host.put("/etc/cni/net.d/10-flannel.conflist", "{}");
    let record = json!({
        "schema": applied::SCHEMA, "name": "demo", "id": id, "kubernetes": "v1.34.4", "cluster": {"kind": "Cluster"},
        "clusterSha256": kubexm_spec::Digest::of("yaml"), "bundle": {"manifest": kubexm_spec::Digest::of("m")},
        "program": "kubexm-install 0.1.0",
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {applied::KEY: record.to_string()},
        "metadata": {"name": applied::CONFIG_MAP, "namespace": applied::NAMESPACE},
    });
    let text = host.text(&map.to_string());
    let object = Op::from(KubeObject::new(applied::CONFIG_MAP, text));
    dispatch::converge(&object, &host.machine).expect("applied");
    let before = host.tree();

    let facts = cluster_facts::collect(&host.machine, "cp1");
    assert_eq!((facts.name.as_deref(), facts.id), (Some("demo"), Some(id)));
    assert_eq!(facts.server_version.as_deref(), Some("v1.34.4"), "{:#?}", facts.gaps);
    assert_eq!(facts.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["node1"]);
    let [member] = facts.etcd.as_slice() else { panic!("{:#?}", facts.etcd) };
    assert_eq!((member.name.as_str(), member.healthy, member.learner), ("node1", true, false));
    assert_eq!((member.version.as_deref(), member.peer_urls.len()), (Some("3.6.5"), 1));
    assert!(member.id.starts_with("a000"), "hexadecimal: {}", member.id);
    let database = member.database.expect("its database");
    assert_eq!((database.size, database.in_use, database.quota), (24 << 20, 12 << 20, Some(2 << 30)));
    let [component] = facts.components.as_slice() else { panic!("{:#?}", facts.components) };
    assert_eq!((component.name.as_str(), component.ready, component.restarts), ("kube-apiserver", true, 1));
    let api = facts.certificates.iter().find(|one| one.path.ends_with("/apiserver.crt")).expect("its certificate");
    assert_eq!((api.host.as_str(), api.subject.as_str(), api.ends), ("cp1", "kube-apiserver", 1_798_848_000));
    assert_eq!(facts.network.as_deref(), Some("flannel"));
    assert_eq!(facts.applied.expect("the record").id, Some(id));
    assert_eq!(host.tree(), before, "it only looks");
}

#[test]
fn a_member_at_whose_address_another_one_answers_is_not_healthy() {
    let host = control_plane();
    let path = host.machine.path("/run/kubexm-double/state.json");
    let mut state: Value = serde_json::from_slice(&std::fs::read(&path).expect("the fake's state")).expect("JSON");
    let own = state["members"].as_object().expect("members").values().next().expect("a member").clone();
    let mut moved = own.clone();
    moved["name"] = json!("node9");
    state["members"]["9"] = moved;
    std::fs::write(&path, state.to_string()).expect("written");
    let facts = cluster_facts::collect(&host.machine, "cp1");
    let healthy: Vec<_> = facts.etcd.iter().map(|member| (member.name.as_str(), member.healthy)).collect();
    assert_eq!(healthy, [("node1", true), ("node9", false)], "{:#?}", facts.gaps);
    assert!(facts.gaps.iter().any(|gap| gap.why.contains("another member of etcd answers")), "{:#?}", facts.gaps);
}

#[test]
fn a_member_of_a_users_etcd_is_known_by_its_id_where_its_own_name_leads_nowhere() {
    let host = control_plane();
    for folder in ["/etc/kubernetes/pki/etcd", "/etc/kubernetes/manifests/etcd.yaml"] {
        let path = host.machine.path(folder);
        let gone = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        gone.expect("kubeadm's etcd is not there");
    }
    let files = ["cafile", "certfile", "keyfile"].map(|name| format!("    - --etcd-{name}=/root/{name}\n"));
    ["cafile", "certfile", "keyfile"].iter().for_each(|name| host.put(&format!("/root/{name}"), *name));
    let servers = "    - --etcd-servers=https://10.0.9.1:2379\n";
    host.put("/etc/kubernetes/manifests/kube-apiserver.yaml", format!("{servers}{}", files.concat()));
    let theirs = json!({"endpoints": ["https://10.0.9.1:2379"], "keys": {}});
    host.put("/run/kubexm-double/external-etcd.json", theirs.to_string());
    let facts = cluster_facts::collect(&host.machine, "cp1");
    let healthy: Vec<_> = facts.etcd.iter().map(|member| (member.name.as_str(), member.healthy)).collect();
    assert_eq!(healthy, [("theirs1", true)], "{:#?}", facts.gaps);
}

#[test]
fn components_that_do_not_answer_are_gaps_and_the_rest_is_reported() {
    let host = control_plane();
    host.put("/etc/kubernetes/pki/apiserver.crt", "damaged");
    host.put("/var/lib/kubexm/stamp.json", "{");
    let facts = cluster_facts::collect(&host.machine, "cp1");
    assert!(facts.api_answers() && !facts.nodes.is_empty());
    for what in ["stamp", "certificate /etc/kubernetes/pki/apiserver.crt", APPLIED] {
        assert!(gaps(&facts).contains(&what), "{what}: {:#?}", facts.gaps);
    }
    Arc::new(RootedSystem::new(host.machine.root())).kill_member("node1").expect("killed");
    let facts = cluster_facts::collect(&host.machine, "cp1");
    assert!(!facts.api_answers() && facts.etcd.is_empty());
    assert!(gaps(&facts).contains(&SERVER_VERSION) && gaps(&facts).contains(&"etcd members"), "{:#?}", facts.gaps);
    assert!(facts.gaps.iter().all(|gap| gap.host == "cp1" && !gap.why.is_empty()));
    let worker = Host::fresh();
    assert_eq!(
        cluster_facts::collect(&worker.machine, "w1"),
        ClusterFacts::default(),
        "a host of no cluster sees none"
    );
}

#[test]
fn a_credential_that_outlived_its_plugin_is_not_taken_for_the_plugin() {
    let host = Host::fresh();
    host.put("/etc/cni/net.d/calico-kubeconfig", "");
    assert_eq!(cluster_facts::collect(&host.machine, "node1").network, None);
    host.put("/etc/cni/net.d/05-cilium.conflist", "{}");
    assert_eq!(cluster_facts::collect(&host.machine, "node1").network.as_deref(), Some("cilium"));
}

#[test]
fn a_node_that_kubeadm_made_names_its_runtime_and_another_host_is_none() {
    let host = Host::fresh();
    assert_eq!(cluster_facts::collect(&host.machine, "w1").kubelets, []);
    host.put("/etc/kubernetes/kubelet.conf", "");
    let runtime = || cluster_facts::collect(&host.machine, "w1").kubelets[0].runtime.clone();
    assert_eq!(runtime(), None);
    host.put("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\ncontainerRuntimeEndpoint: \"\"\n");
    assert_eq!(runtime(), None);
    let instance = "kind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///var/run/crio/crio.sock\n";
    host.put("/var/lib/kubelet/instance-config.yaml", instance);
    assert_eq!(runtime().as_deref(), Some("unix:///var/run/crio/crio.sock"));
    let flags = "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///run/containerd/containerd.sock --node-ip=10.0.0.1\"\n";
    host.put("/var/lib/kubelet/kubeadm-flags.env", flags);
    assert_eq!(runtime().as_deref(), Some("unix:///run/containerd/containerd.sock"));
}

#[test]
fn a_host_of_the_load_balancer_names_those_units_of_its_own_proxy_that_do_not_run() {
    const KEEPALIVED: &str = "vrrp_instance a {\n    virtual_ipaddress {\n        10.0.0.9/32 dev eth0\n    }\n}\n";
    let stopped = |config: &str| {
        let host = Host::fresh();
        host.put("/etc/kubexm/balancer/keepalived.conf", KEEPALIVED);
        host.put(config, "");
        let facts = cluster_facts::collect(&host.machine, "lb1");
        facts.balancers.into_iter().flat_map(|one| one.stopped).collect::<Vec<_>>()
    };
    let (keepalived, check) = ("kubexm-keepalived.service", "kubexm-nginx-check.service");
    assert_eq!(stopped("/etc/kubexm/balancer/haproxy.cfg"), [keepalived, "kubexm-haproxy.service"]);
    assert_eq!(stopped("/etc/kubexm/balancer/nginx.conf"), [keepalived, check, "kubexm-nginx.service"]);
}

/// What an upgrade replaces: of other clusters nobody asks.
#[test]
fn a_host_that_was_adopted_says_where_its_programs_are_and_whose() {
    let host = control_plane();
    let programs = |host: &Host| {
        let facts = cluster_facts::collect(&host.machine, "cp1");
        let [kubelet] = facts.kubelets.as_slice() else { panic!("{facts:#?}") };
        let all = kubelet.programs.iter().map(|one| (one.name.clone(), one.path.clone(), one.package.clone()));
        all.collect::<Vec<_>>()
    };
    assert_eq!(programs(&host), []);
    let id = Some(ClusterId::from_random([3; 16]));
    let stamp = Op::from(Stamp { cluster: "demo".to_owned(), id, bundle: None, adopted: true });
    dispatch::converge(&stamp, &host.machine).expect("stamp");
    let one =
        |name: &str, path: &str, package: Option<&str>| (name.to_owned(), path.to_owned(), package.map(str::to_owned));
    let [kubelet, kubeadm, kubectl] =
        ["kubelet", "kubeadm", "kubectl"].map(|name| one(name, &format!("/usr/local/bin/{name}"), None));
    assert_eq!(programs(&host), [kubelet, kubeadm, kubectl.clone()]);

    // Packages; a link says nothing of itself, and a drop-in wins over the unit's own file.
    host.put("/usr/bin/kubelet", "#!/bin/true\n");
    host.put(
        "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
        "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet $ARGS\n",
    );
    let link = host.machine.path("/usr/local/bin/kubeadm");
    std::fs::remove_file(&link).expect("removed");
    host.put("/opt/bin/kubeadm", "#!/bin/true\n");
    std::os::unix::fs::symlink("../../../opt/bin/kubeadm", &link).expect("a link");
    host.put("/usr/bin/dpkg-query", "#!/bin/true\n");
    host.put("/run/kubexm-double/dpkg-owners", "kubelet: /usr/bin/kubelet\n");
    host.put("/usr/local/bin/etcdutl", "#!/bin/true\n");
    let (kubelet, kubeadm) =
        (one("kubelet", "/usr/bin/kubelet", Some("kubelet")), one("kubeadm", "/opt/bin/kubeadm", None));
    assert_eq!(programs(&host), [kubelet, kubeadm, kubectl, one("etcdutl", "/usr/local/bin/etcdutl", None)]);
}

/// A control plane over an etcd of others, with these files for it.
fn over_an_etcd_of_others([ca, certificate, key]: [&str; 3]) -> Host {
    let host = control_plane();
    for gone in ["/etc/kubernetes/pki/etcd", "/etc/kubernetes/manifests/etcd.yaml"] {
        let path = host.machine.path(gone);
        let gone = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        gone.expect("kubeadm's etcd is not there");
    }
    let flags = format!(
        "    - --etcd-cafile={ca}\n    - --etcd-certfile={certificate}\n    - --etcd-keyfile={key}\n    - \
         --etcd-servers=https://10.0.9.1:2379\n    - --tls-cert-file=/etc/kubernetes/pki/apiserver.crt\n"
    );
    host.put("/etc/kubernetes/manifests/kube-apiserver.yaml", flags);
    let theirs = json!({"endpoints": ["https://10.0.9.1:2379"], "keys": {}});
    host.put("/run/kubexm-double/external-etcd.json", theirs.to_string());
    host
}

/// An authority, and what it has signed for these names.
fn signed<const N: usize>(names: [&str; N]) -> (String, [String; N]) {
    let key = || rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    params.distinguished_name.push(rcgen::DnType::CommonName, "etcd-ca");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_key = key();
    let ca = params.self_signed(&ca_key).expect("an authority").pem();
    let issuer = rcgen::Issuer::new(params, ca_key);
    let leaves = names.map(|name| {
        let mut params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.signed_by(&key(), &issuer).expect("a certificate").pem()
    });
    (ca, leaves)
}

#[test]
fn an_etcd_of_others_is_known_by_the_manifest_with_what_its_ca_has_signed_beside_the_clients_certificate() {
    let folder = "/etc/ssl/etcd/ssl";
    let [ca, certificate, key] = ["ca.pem", "node-a1.pem", "node-a1-key.pem"].map(|name| format!("{folder}/{name}"));
    let host = over_an_etcd_of_others([&ca, &certificate, &key]);
    let (authority, [node, member]) = signed(["node-a1", "member-a1"]);
    for (path, text) in [(&ca, &authority), (&certificate, &node), (&format!("{folder}/member-a1.pem"), &member)] {
        host.put(path, text.clone());
    }
    host.put(&key, "a key");
    host.put(&format!("{folder}/member-a1-key.pem"), "a key");
    host.put(&format!("{folder}/notes.crt"), "no certificate");
    host.put(&format!("{folder}/others.pem"), self::certificate(3));
    let mut state: Value = serde_json::from_str(&host.read("/run/kubexm-double/state.json")).expect("JSON");
    let config = format!(
        "etcd:\n  external:\n    caFile: {ca}\n    certFile: {folder}/node-a0.pem\n    endpoints:\n    - https://10.0.9.1:2379\n    keyFile: {key}\n"
    );
    let object =
        json!({"kind": "ConfigMap", "metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration": config}});
    state["objects"]["ConfigMap/kubeadm-config"] = object.to_string().into();
    host.put("/run/kubexm-double/state.json", state.to_string());
    let before = host.tree();
    let facts = cluster_facts::collect(&host.machine, "cp1");
    let of_etcd = facts.certificates.iter().filter(|one| one.path.starts_with(folder));
    let of_etcd: Vec<_> =
        of_etcd.map(|one| (one.path.rsplit('/').next().unwrap_or_default(), one.subject.as_str())).collect();
    assert_eq!(of_etcd, [("ca.pem", "etcd-ca"), ("member-a1.pem", "member-a1"), ("node-a1.pem", "node-a1")]);
    // What is no certificate, or of others, is nobody's gap.
    assert!(!gaps(&facts).iter().any(|gap| gap.contains(folder) || gap.contains("etcd of")), "{:#?}", facts.gaps);
    let etcd = facts.kubelets[0].etcd.clone().expect("an etcd of others");
    assert_eq!((etcd.access.files(), etcd.prefix.as_str()), ([ca.as_str(), &certificate, &key], "/registry"));
    // What kubeadm would write into the manifest, and is not there.
    assert_eq!(etcd.lacks, [format!("{folder}/node-a0.pem")], "{:?}", facts.kubeadm);
    assert_eq!(host.tree(), before, "it only looks");
    assert_eq!(cluster_facts::collect(&control_plane().machine, "cp1").kubelets[0].etcd, None, "of kubeadm's");
}

/// As its documentation has it ("Set up a High Availability etcd Cluster with kubeadm").
#[test]
fn an_etcd_of_others_whose_files_have_kubeadms_names_is_not_looked_for_on_the_host_itself() {
    let pki = "/etc/kubernetes/pki";
    let files =
        ["etcd/ca.crt", "apiserver-etcd-client.crt", "apiserver-etcd-client.key"].map(|name| format!("{pki}/{name}"));
    let host = over_an_etcd_of_others(files.each_ref().map(String::as_str));
    files.iter().for_each(|path| host.put(path, "pem"));
    let facts = cluster_facts::collect(&host.machine, "cp1");
    let healthy: Vec<_> = facts.etcd.iter().map(|member| (member.name.as_str(), member.healthy)).collect();
    assert_eq!(healthy, [("theirs1", true)], "{:#?}", facts.gaps);
}

/// As kubespray makes it.
#[test]
fn certificates_to_which_kubeadms_folder_is_a_link_are_in_that_folder() {
    let host = control_plane();
    let of = |folder: &str| {
        let manifest = format!("    - --tls-cert-file={folder}/apiserver.crt\n");
        host.put("/etc/kubernetes/manifests/kube-apiserver.yaml", manifest);
        cluster_facts::collect(&host.machine, "cp1").kubelets[0].certificates.clone().expect("a folder")
    };
    assert_eq!(of("/etc/kubernetes/pki"), "/etc/kubernetes/pki");
    assert_eq!(of("/etc/kubernetes/ssl"), "/etc/kubernetes/ssl", "it is not there");
    let [pki, ssl] = ["pki", "ssl"].map(|name| host.machine.path(format!("/etc/kubernetes/{name}")));
    std::fs::rename(&pki, &ssl).expect("moved");
    assert_eq!(of("/etc/kubernetes/ssl"), "/etc/kubernetes/ssl", "nothing leads to it");
    std::os::unix::fs::symlink("ssl", &pki).expect("a link");
    assert_eq!(of("/etc/kubernetes/ssl"), "/etc/kubernetes/pki");
}
