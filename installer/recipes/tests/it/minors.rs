//! What differs from one minor version of Kubernetes to the next: in what kubeadm is given, and in what is refused.

use std::collections::BTreeSet;

use insta::{Settings, assert_snapshot};
use kubexm_manifests::{Catalogue, require};
use kubexm_plan::Plan;
use kubexm_plan::op::{Link, Op};
use kubexm_recipes::context::INSTALLABLE;
use kubexm_recipes::{RecipeError, config, sample};
use kubexm_spec::ExitCode;
use kubexm_spec::cluster::{
    API_PORT, Audit, Cluster, EtcdKind, InternalKind, Kubernetes, LoadBalancerMode, NetworkPlugin, ProxyMode, Runtime,
    RuntimeKind,
};
use serde_json::{Value, json};

use crate::common::{Site, fleet_text, text};
use crate::isulad;

fn kubernetes(cluster: &mut Cluster) -> &mut Kubernetes {
    cluster.kubernetes.as_mut().unwrap()
}

fn of(minor: &str, mut cluster: Cluster) -> Cluster {
    kubernetes(&mut cluster).version = Some(format!("v{minor}"));
    cluster
}

/// Two control planes behind kube-vip and two workers: the last host has its resolver elsewhere, and the one before none.
fn site(minor: &str) -> Site {
    let mut cluster = of(minor, sample::fleet(2, 2));
    cluster.load_balancer.mode = LoadBalancerMode::Internal {
        kind: InternalKind::KubeVip,
        vip: Some("10.77.0.100".parse().unwrap()),
        interface: None,
        port: API_PORT,
    };
    let mut site = Site::of(cluster);
    site.facts.get_mut("node3").unwrap().nameservers = Some(Vec::new());
    let last = site.facts.get_mut("node4").unwrap();
    last.nameservers = Some(vec!["127.0.0.53".parse().unwrap()]);
    last.resolved_nameservers = Some(vec!["10.77.0.1".parse().unwrap()]);
    site
}

/// What kubeadm, CoreDNS and kube-vip are given, line by line.
fn given(minor: &str) -> Vec<String> {
    let site = site(minor);
    let plan = site.checked();
    let mut lines = Vec::new();
    // Tags and versions are those of the catalogue.
    let is_shown =
        |line: &&str| !["imageTag: ", "kubernetesVersion: "].iter().any(|field| line.trim().starts_with(field));
    let mut add = |title: &str, text: &str| {
        lines.extend(text.lines().filter(is_shown).map(|line| format!("{title} | {line}")));
    };
    add("init", text(&plan, "/etc/kubexm/kubeadm.yaml"));
    add("join node2", fleet_text(&plan, "node2/join.node"));
    add("join node4", fleet_text(&plan, "node4/join.node"));
    add("Corefile", text(&plan, "coredns"));
    let links = plan.steps.iter().flat_map(|step| &step.ops).filter_map(|op| match op {
        Op::Link(Link { path, target, .. }) if path.ends_with("kube-vip.conf") => Some(target.as_str()),
        _ => None,
    });
    add("kube-vip reads", &links.collect::<Vec<_>>().join(" then "));
    let patched = plan.steps.iter().any(|step| step.id.0 == "node4/join.patch");
    add("patch of node4", if patched { "kubelet's configuration" } else { "none" });
    lines
}

/// The lines of which one text has more than the other, in their order.
fn more<'a>(of: &'a [String], than: &[String]) -> Vec<&'a String> {
    let mut left: Vec<&String> = than.iter().collect();
    let mut found = Vec::new();
    for line in of {
        match left.iter().position(|other| *other == line) {
            Some(at) => drop(left.swap_remove(at)),
            None => found.push(line),
        }
    }
    found
}

#[test]
fn what_kubeadm_is_given_by_the_oldest_minor_and_what_each_later_one_changes_of_it() {
    let mut before = given(INSTALLABLE[0]);
    let mut shown = format!("{}\n{}\n", INSTALLABLE[0], before.join("\n"));
    for minor in &INSTALLABLE[1..] {
        let now = given(minor);
        shown += &format!("\n{minor}\n");
        more(&before, &now).iter().for_each(|line| shown += &format!("- {line}\n"));
        more(&now, &before).iter().for_each(|line| shown += &format!("+ {line}\n"));
        before = now;
    }
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/minors");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| assert_snapshot!("given", shown));
}

/// Fields of kubeadm's API by the path of their object, as `v1beta3/types.go` and `v1beta4/types.go` of `cmd/kubeadm/app/apis/kubeadm` have
/// them; those of v1beta4 alone come after the bar. An empty list: kubeadm takes any key.
const FIELDS: [(&str, &str); 17] = [
    (
        "InitConfiguration",
        "bootstrapTokens nodeRegistration localAPIEndpoint certificateKey skipPhases patches | dryRun timeouts",
    ),
    ("JoinConfiguration", "nodeRegistration caCertPath discovery controlPlane skipPhases patches | dryRun timeouts"),
    (
        "ClusterConfiguration",
        "etcd networking kubernetesVersion controlPlaneEndpoint apiServer controllerManager scheduler dns certificatesDir imageRepository \
         featureGates clusterName | proxy encryptionAlgorithm certificateValidityPeriod caCertificateValidityPeriod",
    ),
    (
        "nodeRegistration",
        "name criSocket taints kubeletExtraArgs ignorePreflightErrors imagePullPolicy | imagePullSerial",
    ),
    ("localAPIEndpoint", "advertiseAddress bindPort"),
    ("patches", "directory"),
    ("discovery", "bootstrapToken file tlsBootstrapToken"),
    ("bootstrapToken", "token apiServerEndpoint caCertHashes unsafeSkipCAVerification"),
    ("controlPlane", "localAPIEndpoint certificateKey"),
    ("networking", "serviceSubnet podSubnet dnsDomain"),
    ("dns", "imageRepository imageTag | disabled"),
    ("proxy", "| disabled"),
    ("apiServer", "extraArgs extraVolumes certSANs | extraEnvs"),
    ("controllerManager", "extraArgs extraVolumes | extraEnvs"),
    ("scheduler", "extraArgs extraVolumes | extraEnvs"),
    ("local", "imageRepository imageTag dataDir extraArgs serverCertSANs peerCertSANs | extraEnvs"),
    ("external", "endpoints caFile certFile keyFile"),
];
/// Of KubeletConfiguration and KubeProxyConfiguration those that 1.24 to 1.36 have and that recipes set.
const OF_KUBELET: [&str; 8] =
    ["apiVersion", "kind", "cgroupDriver", "maxPods", "clusterDNS", "clusterDomain", "resolvConf", "featureGates"];
const OF_KUBE_PROXY: [&str; 4] = ["apiVersion", "kind", "mode", "featureGates"];

fn fields(of: &str, api: &str) -> Option<BTreeSet<&'static str>> {
    let (_, known) = FIELDS.iter().find(|(name, _)| *name == of)?;
    let (both, later) = known.split_once('|').unwrap_or((known, ""));
    let later = later.split_whitespace().filter(|_| api == "v1beta4");
    Some(both.split_whitespace().chain(later).collect())
}

/// Every object of a document, by its field.
fn walk(name: &str, value: &Value, api: &str, at: &str) {
    let Some(object) = value.as_object() else { return };
    if name == "etcd" {
        assert!(object.keys().all(|key| key == "local" || key == "external"), "{at}: {object:?}");
    } else {
        let known = fields(name, api).unwrap_or_else(|| panic!("{at}: {name} is not in the table"));
        let unknown: Vec<_> = object.keys().filter(|key| !known.contains(key.as_str())).collect();
        assert!(unknown.is_empty(), "{at}: {api} has no {name}.{unknown:?}");
    }
    for (field, value) in object {
        if field.ends_with("xtraArgs") {
            let flags = value
                .as_array()
                .map(|all| all.iter().all(|flag| flag["name"].is_string() && flag["value"].is_string()));
            match api {
                "v1beta3" => assert!(value.as_object().unwrap().values().all(Value::is_string), "{at}: {value}"),
                _ => assert_eq!(flags, Some(true), "{at}: {value}"),
            }
        } else if !["featureGates", "kubeletExtraArgs"].contains(&field.as_str()) {
            walk(field, value, api, at);
        }
    }
}

/// Clusters that together have every field that recipes write for kubeadm.
fn clusters(minor: &str) -> Vec<Cluster> {
    let all = of(minor, sample::fleet(2, 1));
    let mut flags = all.clone();
    let of_flags = kubernetes(&mut flags);
    of_flags.audit = Some(Audit::default());
    of_flags.scheduler_args = [("v".to_owned(), "2".to_owned())].into();
    of_flags.controller_manager_args = [("v".to_owned(), "2".to_owned())].into();
    of_flags.api_server_args = [("v".to_owned(), "2".to_owned())].into();
    of_flags.feature_gates = [("APIResponseCompression".to_owned(), true)].into();
    flags.etcd.quota = Some(8_589_934_592);
    let mut outside = all.clone();
    outside.etcd.kind = EtcdKind::Kubexm;
    outside.role_groups.etcd = outside.role_groups.control_plane.clone();
    let mut without_proxy = all;
    without_proxy.network.plugin = NetworkPlugin::Cilium;
    without_proxy.network.options = json!({"kubeProxyReplacement": true}).as_object().unwrap().clone();
    vec![flags, outside, without_proxy]
}

fn documents(plan: &Plan) -> Vec<Value> {
    let of_kubeadm = plan.texts.values().filter(|text| text.contains("kubeadm.k8s.io/"));
    of_kubeadm.flat_map(|text| serde_saphyr::from_multiple::<Value>(text).unwrap()).collect()
}

#[test]
fn kubeadm_is_given_no_field_that_its_version_does_not_have() {
    let mut seen = BTreeSet::new();
    for minor in INSTALLABLE {
        let api = Catalogue::embedded().release(minor).unwrap().kubeadm_api.clone();
        let of_minor: u32 = minor.strip_prefix("1.").unwrap().parse().unwrap();
        assert_eq!(api, if of_minor < 31 { "v1beta3" } else { "v1beta4" }, "{minor}");
        for cluster in clusters(minor) {
            let site = Site::of(cluster);
            let plan = site.create().unwrap_or_else(|error| panic!("{minor}: {error}"));
            for document in documents(&plan) {
                let kind = document["kind"].as_str().unwrap().to_owned();
                let names = document.as_object().unwrap().keys().map(String::as_str);
                match kind.as_str() {
                    "KubeletConfiguration" => {
                        assert!(names.clone().all(|name| OF_KUBELET.contains(&name)), "{document}")
                    }
                    "KubeProxyConfiguration" => {
                        assert!(names.clone().all(|name| OF_KUBE_PROXY.contains(&name)), "{document}");
                    }
                    _ => {
                        assert_eq!(document["apiVersion"], format!("kubeadm.k8s.io/{api}"), "{minor}");
                        let mut own = document.clone();
                        own.as_object_mut().unwrap().retain(|name, _| name != "apiVersion" && name != "kind");
                        walk(&kind, &own, &api, &format!("{minor} {kind}"));
                    }
                }
                seen.insert(kind);
            }
        }
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}

/// What `config::check` has to say of a cluster of this minor.
fn refused(minor: &str, change: impl Fn(&mut Cluster)) -> Vec<String> {
    let mut cluster = of(minor, sample::cluster());
    change(&mut cluster);
    let site = Site::of(cluster);
    let all = config::check(&site.cx());
    assert!(all.iter().all(|error| error.exit_code() == ExitCode::Unsupported), "{all:?}");
    all.iter().map(ToString::to_string).collect()
}

/// The first minor that has what is asked for.
fn first(change: impl Fn(&mut Cluster), named: &str) -> &'static str {
    let taken: Vec<&str> = INSTALLABLE.into_iter().filter(|minor| refused(minor, &change).is_empty()).collect();
    assert!(INSTALLABLE.ends_with(&taken), "{named}: {taken:?}");
    for minor in INSTALLABLE.iter().filter(|minor| !taken.contains(minor)) {
        let all = refused(minor, &change);
        assert!(all.len() == 1 && all[0].contains(&format!("spec.{named} with Kubernetes {minor}")), "{all:?}");
    }
    taken[0]
}

#[test]
fn what_an_older_minor_does_not_have_is_refused_by_name() {
    let validity = || kubexm_spec::cluster::Validity::OF_CERTIFICATES;
    assert_eq!(first(|_| (), "nothing"), "1.24");
    assert_eq!(
        first(|cluster| kubernetes(cluster).proxy_mode = ProxyMode::Nftables, "kubernetes.proxyMode nftables"),
        "1.31"
    );
    let period = |cluster: &mut Cluster| kubernetes(cluster).certificate_validity = Some(validity());
    assert_eq!(first(period, "kubernetes.certificateValidityPeriod"), "1.31");
    let period = |cluster: &mut Cluster| kubernetes(cluster).ca_certificate_validity = Some(validity());
    assert_eq!(first(period, "kubernetes.caCertificateValidityPeriod"), "1.31");
    for (field, since) in [("failCgroupV1", "1.31"), ("containerRuntimeEndpoint", "1.27"), ("userNamespaces", "1.33")] {
        let set = |cluster: &mut Cluster| {
            kubernetes(cluster).kubelet.insert(field.to_owned(), Value::Null);
        };
        assert_eq!(first(set, &format!("kubernetes.kubelet.{field}")), since);
    }
    let yaml = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  hosts: [{name: node1, address: \
                10.77.0.11}]\n  roleGroups: {master: [node1], worker: [node1]}\n  kubernetes: {version: v1.34.4, ca: {certFile: \
                site/ca.crt, certificatesFolder: /root/demo-certificates}}\n";
    let site = kubexm_spec::cluster::parse(yaml).unwrap();
    let ca = kubernetes(&mut site.clone()).ca.clone();
    let given = |cluster: &mut Cluster| kubernetes(cluster).ca = ca.clone();
    assert_eq!(first(given, "kubernetes.ca.certificatesFolder"), "1.33");
    let replaces = |cluster: &mut Cluster| {
        cluster.network.plugin = NetworkPlugin::Cilium;
        cluster.network.options.insert("kubeProxyReplacement".to_owned(), Value::Bool(true));
    };
    assert_eq!(first(replaces, "network.options.kubeProxyReplacement"), "1.31");
    let stacks = |cluster: &mut Cluster| {
        cluster.network.more_pod_cidrs = vec!["fd85:1::/56".parse().unwrap()];
        cluster.network.more_service_cidrs = vec!["fd85:2::/112".parse().unwrap()];
        for host in &mut cluster.hosts {
            host.more_internal_addresses = vec!["fd00::11".parse().unwrap()];
        }
    };
    assert_eq!(first(stacks, "network.podCidr of two stacks with flannel"), "1.29");
}

/// A bundle that was built when its minor was refused brings its own catalogue.
#[test]
fn a_bundle_that_an_earlier_builder_made_of_an_old_minor_is_to_be_built_again() {
    let mut site = Site::of(of("1.28", sample::cluster()));
    site.catalogue.releases.get_mut("1.28").unwrap().installable = false;
    let refused = config::check(&site.cx());
    let [RecipeError::Unsupported { hint, .. }] = refused.as_slice() else { panic!("{refused:?}") };
    assert!(hint.starts_with("build the bundle again"), "{hint}");
}

/// One line for what a cluster of each minor cannot have of runtimes and networks; all else is planned.
#[test]
fn every_runtime_and_network_is_planned_for_each_minor_or_refused_by_name() {
    let runtimes = [RuntimeKind::Containerd, RuntimeKind::CriO, RuntimeKind::Docker, RuntimeKind::Isulad];
    let networks = [
        NetworkPlugin::Flannel,
        NetworkPlugin::Calico,
        NetworkPlugin::Cilium,
        NetworkPlugin::KubeOvn,
        NetworkPlugin::Hybridnet,
        NetworkPlugin::None,
    ];
    let with = |minor: &str, runtime: RuntimeKind, network: NetworkPlugin| {
        let mut cluster = if runtime == RuntimeKind::Isulad { isulad::alone() } else { sample::cluster() };
        cluster = of(minor, cluster);
        cluster.runtime = Runtime { kind: runtime, ..Runtime::default() };
        cluster.network.plugin = network;
        if let Err(error) = require(&cluster, &Catalogue::embedded()) {
            return Some(error.to_string());
        }
        let mut site = Site::of(cluster);
        if runtime == RuntimeKind::Isulad {
            site.facts.values_mut().for_each(isulad::host);
        }
        let early = config::check(&site.cx()).first().map(ToString::to_string);
        early.or_else(|| site.create().err().map(|error| error.to_string()))
    };
    let mut table = String::new();
    for minor in INSTALLABLE {
        for runtime in runtimes {
            if let Some(why) = with(minor, runtime, NetworkPlugin::Flannel) {
                table += &format!("{minor} {runtime}: {why}\n");
            }
        }
        for network in networks {
            if let Some(why) = with(minor, RuntimeKind::Containerd, network) {
                table += &format!("{minor} {network}: {why}\n");
            }
        }
    }
    assert_snapshot!("refused_runtimes_and_networks", table);
}
