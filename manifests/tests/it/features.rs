//! What each field of cluster.yaml asks for beyond the cluster's own line: features, add-ons, and the nodes that they are for.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use kubexm_manifests::{Catalogue, NodeRole, RequireError, Requirement, Source, require};
use kubexm_spec::cluster::{
    Cluster, EtcdKind, InternalKind, LoadBalancerMode, NetworkPlugin, NodeLocalDns, OpenEbs, Registry, RegistryKind,
    RuntimeKind, for_version, parse,
};
use kubexm_spec::{ArtifactKey, ExitCode, Program};

fn cluster(spec: &str) -> Cluster {
    let text = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: x}}\nspec:\n  kubernetes: {{version: v1.34.4}}\n{spec}"
    );
    parse(&text).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
}

fn items(cluster: &Cluster) -> Vec<Requirement> {
    require(cluster, &Catalogue::embedded()).unwrap_or_else(|error| panic!("{error}")).items
}

fn find(items: &[Requirement], key: &str) -> Requirement {
    let key: ArtifactKey = key.parse().unwrap();
    items.iter().find(|item| item.key == key).unwrap_or_else(|| panic!("{key} is not required")).clone()
}

fn refused(cluster: &Cluster) -> RequireError {
    require(cluster, &Catalogue::embedded()).unwrap_err()
}

#[test]
fn a_network_plugin_comes_in_the_version_that_is_named() {
    let mut cluster = for_version(Some("1.34.4"));
    cluster.network.plugin = NetworkPlugin::Cilium;
    assert_eq!(find(&items(&cluster), "chart/cilium").version, "1.19.6");
    cluster.network.version = Some("1.20.0".to_owned());
    let named = items(&cluster);
    assert_eq!(find(&named, "chart/cilium").version, "1.20.0");
    assert_eq!(find(&named, "feature-image/cilium-certgen").version, "v0.4.8");
    cluster.network.version = Some("1.2.3".to_owned());
    let error = refused(&cluster);
    assert!(matches!(error, RequireError::UnknownFeatureVersion { .. }), "{error}");
}

#[test]
fn each_thing_says_which_field_asks_for_it_and_which_nodes_it_is_for() {
    let mut cluster = for_version(Some("1.34.4"));
    cluster.runtime.kind = RuntimeKind::Docker;
    cluster.network.plugin = NetworkPlugin::Calico;
    cluster.network.multus = true;
    cluster.etcd.kind = EtcdKind::Kubexm;
    cluster.registry = Registry::of(RegistryKind::Harbor);
    cluster.kubernetes.as_mut().unwrap().nodelocaldns = Some(NodeLocalDns::default());
    cluster.load_balancer.mode =
        LoadBalancerMode::Internal { kind: InternalKind::KubeVip, vip: None, port: 6443, interface: None };
    cluster.storage.open_ebs = Some(OpenEbs::default());
    let items = items(&cluster);
    for (key, because, role) in [
        ("binary/kubelet", "Kubernetes 1.34.4", NodeRole::All),
        ("binary/docker", "spec.runtime.type docker", NodeRole::All),
        ("binary/etcd", "spec.etcd.type kubexm", NodeRole::Etcd),
        ("binary/harbor", "spec.registry.type harbor", NodeRole::Registry),
        ("binary/calicoctl", "a tool; spec.bundle.exclude leaves it out", NodeRole::ControlPlane),
        ("feature-image/calico-node", "spec.network.plugin calico", NodeRole::All),
        ("feature-image/multus-cni", "spec.network.multus", NodeRole::All),
        ("feature-image/k8s-dns-node-cache", "spec.kubernetes.nodelocaldns", NodeRole::All),
        ("feature-image/kube-vip", "spec.loadBalancer.internal.type kube-vip", NodeRole::ControlPlane),
        ("feature-image/openebs-linux-utils", "spec.storage.openebs", NodeRole::All),
        ("chart/openebs", "spec.storage.openebs", NodeRole::ControlPlane),
        ("image/kube-proxy", "kubeadm 1.34.4 runs it", NodeRole::All),
    ] {
        let item = find(&items, key);
        assert_eq!((item.because.as_str(), item.role), (because, Some(role)), "{key}");
    }
    // the installer has Harbor's images inside
    assert!(!items.iter().any(|item| item.key.to_string().starts_with("feature-image/harbor")));
    // with another runtime docker is on the registry host only
    cluster.runtime.kind = RuntimeKind::Containerd;
    assert_eq!(find(&self::items(&cluster), "binary/docker").role, Some(NodeRole::Registry));
}

#[test]
fn a_tool_of_calico_is_left_out_by_name_and_the_definitions_are_of_the_same_version_as_the_images() {
    let with = cluster("  network: {plugin: calico}\n");
    let items = items(&with);
    let node = find(&items, "feature-image/calico-node");
    assert_eq!(format!("v{}", find(&items, "binary/calico-manifest").version), node.version);
    assert_eq!(format!("v{}", find(&items, "binary/calicoctl").version), node.version);
    let without = cluster("  network: {plugin: calico}\n  bundle: {exclude: [calicoctl]}\n");
    assert!(!self::items(&without).iter().any(|item| item.key == ArtifactKey::Binary(Program::Calicoctl)));
}

#[test]
fn versions_that_cluster_yaml_names_are_taken_and_unknown_ones_are_refused_with_the_nearest() {
    let docker = cluster("  runtime: {type: docker, version: 24.0.6}\n");
    assert_eq!(find(&items(&docker), "binary/docker").version, "24.0.6");
    let harbor =
        |version: &str| cluster(&format!("  registry: {{type: harbor, harborConfig: {{version: v{version}}}}}\n"));
    assert_eq!(find(&items(&harbor("2.5.3")), "binary/harbor").version, "2.5.3");
    let error = refused(&harbor("2.11.0"));
    assert_eq!(error.exit_code(), ExitCode::UnknownVersion);
    assert!(error.to_string().contains("nearest: 2.10.2"), "{error}");
    // nobody publishes a digest of it
    assert!(matches!(refused(&harbor("2.10.3")), RequireError::NoDigest { .. }));
    // CRI-O goes with the minor of Kubernetes
    let crio = cluster("  runtime: {type: cri-o}\n");
    assert_eq!(find(&items(&crio), "binary/cri-o").version, "1.34.11");
}

#[test]
fn add_ons_of_the_catalogue_come_by_name_with_chart_and_images() {
    let with = cluster(
        "  addons:\n  - {name: metrics, type: helm, source: {catalogue: metrics-server}}\n  - {name: certs, type: helm, source: {catalogue: cert-manager, version: v1.19.2}}\n",
    );
    let items = items(&with);
    let chart = find(&items, "chart/metrics");
    assert!(matches!(&chart.source, Source::Chart { .. }) && chart.because == "spec.addons metrics");
    assert_eq!(find(&items, "feature-image/metrics-server").version, "v0.8.0");
    assert_eq!(find(&items, "chart/certs").version, "v1.19.2");
    assert_eq!(items.iter().filter(|item| item.because == "spec.addons certs").count(), 6);
}

#[test]
fn a_balancer_of_services_and_an_ingress_come_in_their_order_with_every_image_that_their_charts_name() {
    let with = cluster(
        "  addons:\n  - {name: metallb, type: helm, namespace: metallb-system, source: {catalogue: metallb}}\n  - {name: pools, type: yaml, namespace: metallb-system, source: {path: pools.yaml}, after: [metallb]}\n  - {name: traefik, type: helm, namespace: traefik, source: {catalogue: traefik}, after: [pools]}\n  - {name: nfd, type: helm, source: {catalogue: node-feature-discovery}}\n",
    );
    let items = items(&with);
    for (key, version) in [
        ("chart/metallb", "0.16.1"),
        ("feature-image/metallb-controller", "v0.16.1"),
        ("feature-image/metallb-speaker", "v0.16.1"),
        ("feature-image/metallb-frr-k8s", "v0.0.25"),
        ("feature-image/metallb-frr", "10.4.3"),
        ("chart/traefik", "41.3.0"),
        ("feature-image/traefik", "v3.7.11"),
        ("chart/nfd", "0.19.0"),
        ("feature-image/node-feature-discovery", "v0.19.0"),
    ] {
        assert_eq!(find(&items, key).version, version, "{key}");
    }
    assert_eq!(find(&items, "feature-image/traefik").because, "spec.addons traefik");
}

#[test]
fn an_add_on_that_the_catalogue_cannot_give_is_refused_and_the_nearest_is_named() {
    let catalogue =
        |source: &str| refused(&cluster(&format!("  addons: [{{name: a, type: helm, source: {source}}}]\n")));
    let error = catalogue("{catalogue: metric-server}");
    assert_eq!(error.exit_code(), ExitCode::UnknownVersion);
    assert!(error.to_string().contains("metrics-server"), "{error}");
    // known, and no chart
    assert!(matches!(catalogue("{catalogue: haproxy}"), RequireError::UnknownFeature { .. }));
    let error = catalogue("{catalogue: cert-manager, version: 1.2.0}");
    assert!(error.to_string().contains("nearest: 1.18.6"), "{error}");
    let twice = "  storage: {openebs: {}}\n  addons: [{name: openebs, source: {path: mine}, type: helm}]\n";
    let error = refused(&cluster(twice));
    assert!(matches!(&error, RequireError::SameAddonName { name } if name == "openebs"), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Config);
    let yaml = "  addons: [{name: metrics-server, type: yaml, source: {catalogue: metrics-server}}]\n";
    assert!(matches!(refused(&cluster(yaml)), RequireError::NoYaml { .. }));
    // Left out in silence, it would be missed inside the gap only.
    let mut extras = for_version(Some("1.34.4"));
    extras.kubernetes = None;
    let with = cluster("  bundle: {extraCharts: [{name: metrics, source: {catalogue: metrics-server}}]}\n");
    extras.bundle.extra_charts = with.bundle.extra_charts;
    let error = refused(&extras);
    assert!(matches!(&error, RequireError::ChartOfNoCluster { name } if name == "metrics"), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Config);
}

#[test]
fn a_minor_means_its_newest_known_patch() {
    for (minor, newest, api) in
        [("v1.24", "1.24.17", "v1beta3"), ("1.30", "1.30.14", "v1beta3"), ("v1.31", "1.31.14", "v1beta4")]
    {
        let versions = require(&for_version(Some(minor)), &Catalogue::embedded()).unwrap().versions.unwrap();
        assert_eq!((versions.kubernetes.bare(), versions.kubeadm_api.as_str()), (newest, api));
        assert!(Catalogue::embedded().release(minor).unwrap().installable);
    }
    let error = refused(&for_version(Some("1.37")));
    assert!(error.to_string().contains("nearest: 1.36, 1.35"), "{error}");
}

#[test]
fn harbors_own_images_are_listed_for_every_version_of_its_installer() {
    let catalogue = Catalogue::embedded();
    let harbor = &catalogue.features["harbor"];
    let installer = catalogue.component(Program::Harbor).unwrap();
    assert!(harbor.versions.keys().eq(installer.versions.keys()));
    let images = harbor.references("2.10.2");
    assert!(images.contains(&"docker.io/goharbor/harbor-core:v2.10.2".to_owned()), "{images:?}");
}

/// The table of origins of the design, by the newest pinned version of each component.
#[test]
fn addresses_are_those_that_upstreams_publish_at() {
    let catalogue = Catalogue::embedded();
    let mut table = String::new();
    for program in Program::ALL {
        let component = catalogue.component(program).unwrap();
        let version = kubexm_manifests::version::newest(component.versions.keys().map(String::as_str)).unwrap();
        for arch in [kubexm_spec::Arch::Amd64, kubexm_spec::Arch::Arm64] {
            let url = component.published_url(version, arch).unwrap_or_else(|| "not published".to_owned());
            let digest = component.checksum_url(version, arch).unwrap_or_else(|| "no digest is published".to_owned());
            table.push_str(&format!("{program:?} {arch}\n  {url}\n  {digest}\n"));
        }
    }
    insta::assert_snapshot!(table);
}
