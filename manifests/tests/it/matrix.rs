//! Every Kubernetes minor with every network plugin, runtime, etcd, load balancer, registry and kind of cluster, on every
//! architecture, resolves to a complete, non-empty, closed set. What is complete is written down here a second time.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use std::collections::{BTreeMap, BTreeSet};

use kubexm_manifests::{Catalogue, RequireError, Requirements, Source, require, version};
use kubexm_spec::cluster::{
    Addon, AddonKind, AddonSource, Cluster, EtcdKind, ExternalKind, InternalKind, Keyword, KubernetesKind,
    LoadBalancerMode, NetworkPlugin, Registry, RegistryKind, RuntimeKind, for_version,
};
use kubexm_spec::{ArtifactKey, Platform};

/// What every cluster has, whatever it is made of.
const ALWAYS: &[&str] = &[
    "binary/cni-plugins",
    "binary/crictl",
    "binary/helm",
    "binary/kubectl",
    "binary/kubelet",
    "image/coredns",
    "image/pause",
    "installer/kubexm-install",
];

fn of_kind(kind: KubernetesKind) -> &'static [&'static str] {
    match kind {
        KubernetesKind::Kubeadm => &[
            "binary/kubeadm",
            "image/kube-apiserver",
            "image/kube-controller-manager",
            "image/kube-proxy",
            "image/kube-scheduler",
        ],
        KubernetesKind::Kubexm => {
            &["binary/kube-apiserver", "binary/kube-controller-manager", "binary/kube-proxy", "binary/kube-scheduler"]
        }
    }
}

fn of_plugin(plugin: NetworkPlugin) -> &'static [&'static str] {
    match plugin {
        NetworkPlugin::None => &[],
        NetworkPlugin::Flannel => &["image/flannel", "image/flannel-cni-plugin"],
        NetworkPlugin::Calico => &[
            "binary/calico-manifest",
            "binary/calicoctl",
            "feature-image/calico-cni",
            "feature-image/calico-kube-controllers",
            "feature-image/calico-node",
            "feature-image/calico-typha",
        ],
        NetworkPlugin::Cilium => &[
            "chart/cilium",
            "feature-image/cilium",
            "feature-image/cilium-certgen",
            "feature-image/cilium-envoy",
            "feature-image/cilium-hubble-relay",
            "feature-image/cilium-hubble-ui",
            "feature-image/cilium-hubble-ui-backend",
            "feature-image/cilium-operator-generic",
        ],
        NetworkPlugin::KubeOvn => {
            &["chart/kube-ovn", "feature-image/kube-ovn", "feature-image/kube-ovn-vpc-nat-gateway"]
        }
        NetworkPlugin::Hybridnet => &["chart/hybridnet", "feature-image/hybridnet"],
    }
}

fn of_runtime(runtime: RuntimeKind) -> &'static [&'static str] {
    match runtime {
        RuntimeKind::Containerd => &["binary/containerd", "binary/runc"],
        RuntimeKind::Docker => &["binary/cri-dockerd", "binary/docker"],
        RuntimeKind::CriO => &["binary/cri-o"],
        // itself packages of openEuler
        RuntimeKind::Isulad => &["binary/runc"],
    }
}

fn of_etcd(etcd: EtcdKind) -> &'static [&'static str] {
    match etcd {
        EtcdKind::Kubeadm => &["binary/etcd", "image/etcd"],
        // Of the user's own the tools alone, for backups.
        EtcdKind::Kubexm | EtcdKind::External => &["binary/etcd"],
    }
}

fn of_balancer(mode: &LoadBalancerMode) -> &'static [&'static str] {
    match mode {
        // keepalived with haproxy or nginx: packages of the distribution
        LoadBalancerMode::None | LoadBalancerMode::External { .. } => &[],
        LoadBalancerMode::Internal { kind: InternalKind::Haproxy, .. } => &["feature-image/haproxy"],
        LoadBalancerMode::Internal { kind: InternalKind::Nginx, .. } => &["feature-image/nginx"],
        LoadBalancerMode::Internal { kind: InternalKind::KubeVip, .. } => &["feature-image/kube-vip"],
    }
}

fn of_registry(registry: RegistryKind) -> &'static [&'static str] {
    match registry {
        RegistryKind::Embedded | RegistryKind::External | RegistryKind::None => &[],
        RegistryKind::Registry => &["binary/registry"],
        RegistryKind::Harbor => &["binary/docker", "binary/docker-compose", "binary/harbor"],
    }
}

fn balancers() -> Vec<LoadBalancerMode> {
    let vip = "10.0.0.100".parse().unwrap();
    let external = ExternalKind::ALL.iter().map(|kind| LoadBalancerMode::External {
        kind: *kind,
        vip,
        port: 6443,
        interface: None,
        virtual_router_id: None,
    });
    let internal = InternalKind::ALL.iter().map(|kind| LoadBalancerMode::Internal {
        kind: *kind,
        vip: (*kind == InternalKind::KubeVip).then_some(vip),
        port: 6443,
        interface: None,
    });
    [LoadBalancerMode::None].into_iter().chain(external).chain(internal).collect()
}

/// Harbor is built by upstream for amd64 only; here somebody else's build is had.
fn catalogue() -> Catalogue {
    let overlay = "schema: kubexm.io/catalogue/v1\nname: arm\ncomponents: {harbor: {urls: {arm64: \"https://mirror.example/harbor-{tag}-{arch}.tgz\"}}}\n";
    Catalogue::embedded().overlaid(overlay).unwrap()
}

/// One item of each key and platform, each with an address and with somebody who says its digest.
fn closed(found: &Requirements, what: &dyn Fn() -> String) {
    for pair in found.items.windows(2) {
        assert!((&pair[0].key, pair[0].platform) < (&pair[1].key, pair[1].platform), "{}: {}", what(), pair[1].key);
    }
    for item in &found.items {
        assert!(!item.because.is_empty() && item.role.is_some(), "{}: {}", what(), item.key);
        let sound = match &item.source {
            Source::File { url, sha256, checksum_url, .. } => {
                url.starts_with("https://") && (sha256.is_some() || checksum_url.is_some()) && !url.contains('{')
            }
            Source::Image { reference, .. } => {
                reference.ends_with(&format!(":{}", item.version))
                    && !item.version.is_empty()
                    && !reference.contains('{')
            }
            Source::Chart { .. } => !item.version.is_empty() && !item.version.contains('{'),
            Source::Installer => true,
            other => panic!("{}: {} from {other:?}", what(), item.key),
        };
        assert!(sound, "{}: {} {:?}", what(), item.key, item.source);
    }
}

/// Every key of the tables above, read once.
fn keys() -> BTreeMap<&'static str, ArtifactKey> {
    let mut all: Vec<&'static str> = ALWAYS.to_vec();
    all.extend(KubernetesKind::ALL.iter().flat_map(|kind| of_kind(*kind)));
    all.extend(NetworkPlugin::ALL.iter().flat_map(|plugin| of_plugin(*plugin)));
    all.extend(RuntimeKind::ALL.iter().flat_map(|runtime| of_runtime(*runtime)));
    all.extend(EtcdKind::ALL.iter().flat_map(|etcd| of_etcd(*etcd)));
    all.extend(balancers().iter().flat_map(of_balancer));
    all.extend(RegistryKind::ALL.iter().flat_map(|registry| of_registry(*registry)));
    all.into_iter().map(|key| (key, key.parse().unwrap())).collect()
}

/// Every combination of one minor; how many they were.
fn of_minor(minor: &str, catalogue: &Catalogue) -> usize {
    let mut cluster = for_version(Some(minor));
    cluster.bundle.platforms = Platform::ALL.to_vec();
    let keys = keys();
    let mut seen = 0;
    let mut wanted = BTreeSet::new();
    for balancer in balancers() {
        cluster.load_balancer.mode = balancer;
        for registry in RegistryKind::ALL {
            cluster.registry = Registry::of(*registry);
            for plugin in NetworkPlugin::ALL {
                cluster.network.plugin = *plugin;
                for runtime in RuntimeKind::ALL {
                    cluster.runtime.kind = *runtime;
                    for etcd in EtcdKind::ALL {
                        cluster.etcd.kind = *etcd;
                        // both kinds come with every etcd, plugin and runtime; with balancer and registry they take turns
                        let kind = KubernetesKind::ALL[(seen + seen / 3) % 2];
                        cluster.kubernetes.as_mut().unwrap().kind = kind;
                        wanted.clear();
                        let parts = [
                            ALWAYS,
                            of_kind(kind),
                            of_balancer(&cluster.load_balancer.mode),
                            of_registry(*registry),
                            of_plugin(*plugin),
                            of_runtime(*runtime),
                            of_etcd(*etcd),
                        ];
                        wanted.extend(parts.concat().into_iter().map(|key| keys[key].clone()));
                        try_one(&cluster, catalogue, &wanted, seen % 211 == 0);
                        seen += 1;
                    }
                }
            }
        }
    }
    seen
}

fn try_one(cluster: &Cluster, catalogue: &Catalogue, wanted: &BTreeSet<ArtifactKey>, again: bool) {
    let what = || {
        let kubernetes = cluster.kubernetes.as_ref().unwrap();
        format!(
            "{} {:?} {} {} {} {:?} {}",
            kubernetes.kind,
            kubernetes.version,
            cluster.network.plugin,
            cluster.runtime.kind,
            cluster.etcd.kind,
            cluster.load_balancer.mode,
            cluster.registry.kind
        )
    };
    let found = require(cluster, catalogue).unwrap_or_else(|error| panic!("{}: {error}", what()));
    closed(&found, &what);
    for platform in Platform::ALL {
        let keys = found.items.iter().filter(|item| item.platform.is_none_or(|own| own == platform));
        assert!(keys.map(|item| &item.key).eq(wanted), "{} on {platform}: {wanted:?}", what());
    }
    supported(&found, catalogue, &what);
    if again {
        // the installer computes the same from what the bundle carries of the catalogue
        let used = Catalogue::from_json(&catalogue.used_by(&found).to_json().unwrap()).unwrap();
        assert_eq!(require(cluster, &used).unwrap(), found, "{}", what());
    }
}

/// Each program is one that the minor goes with.
fn supported(found: &Requirements, catalogue: &Catalogue, what: &dyn Fn() -> String) {
    let versions = found.versions.as_ref().unwrap();
    let support = catalogue.support(versions.kubernetes.bare()).unwrap();
    let at_least = |name: &str, minimum: &str| {
        let old = versions.programs.get(name).filter(|version| version::compare(version, minimum).is_lt());
        assert!(old.is_none(), "{}: {name} {old:?} is older than {minimum}", what());
    };
    at_least("containerd", &support.minimum_containerd);
    // The minimum is that of the minor's newest patch; an older kubeadm takes the etcd that it would run itself.
    let patch = versions.kubernetes.patch();
    let own = catalogue.release(versions.kubernetes.bare()).unwrap().constants(patch).unwrap().etcd_version();
    let minimum = support.minimum_etcd.as_deref().unwrap();
    at_least("etcd", if version::compare(own, minimum).is_lt() { own } else { minimum });
    let cri_o = versions.programs.get("cri-o");
    assert!(cri_o.is_none_or(|v| version::minor(v) == versions.kubernetes.line()), "{}", what());
}

#[test]
fn every_combination_resolves_to_a_complete_and_closed_set() {
    let catalogue = catalogue();
    let minors: Vec<&String> = catalogue.releases.keys().collect();
    let seen: usize = std::thread::scope(|scope| {
        let shared = &catalogue;
        let halves = [0, 1].map(|half| {
            let mine: Vec<&String> = minors.iter().skip(half).step_by(2).copied().collect();
            scope.spawn(move || mine.iter().map(|minor| of_minor(minor, shared)).sum::<usize>())
        });
        halves.map(|half| half.join().unwrap()).iter().sum()
    });
    assert_eq!(minors.len(), 13, "minors of the catalogue");
    assert_eq!(seen, 13 * 7 * 5 * 6 * 4 * 3);
}

#[test]
fn every_chart_of_the_catalogue_is_an_add_on_for_every_minor_with_its_images() {
    let catalogue = Catalogue::embedded();
    for minor in catalogue.releases.keys() {
        let mut cluster = for_version(Some(minor));
        for feature in catalogue.features.values().filter(|feature| feature.chart.is_some()) {
            cluster.addons = vec![Addon {
                name: feature.name.clone(),
                kind: AddonKind::Helm,
                source: AddonSource::Catalogue { name: feature.name.clone(), version: None },
                namespace: "default".to_owned(),
                values: serde_json::Map::new(),
                values_file: None,
                after: Vec::new(),
                secrets: Vec::new(),
            }];
            let what = || format!("{} for {minor}", feature.name);
            let found = require(&cluster, &catalogue).unwrap_or_else(|error| panic!("{}: {error}", what()));
            closed(&found, &what);
            let version = &found.versions.as_ref().unwrap().features[&feature.name];
            let images = feature.images_of(version).count();
            let because = format!("spec.addons {}", feature.name);
            let own = found.items.iter().filter(|item| item.because == because);
            let keys: BTreeSet<&ArtifactKey> = own.map(|item| &item.key).collect();
            assert_eq!(keys.len(), images + 1, "{}: {keys:?}", what());
        }
    }
}

#[test]
fn harbor_for_arm64_is_refused_with_a_remedy_unless_an_overlay_names_its_address() {
    let mut cluster = for_version(Some("1.34"));
    cluster.registry = Registry::of(RegistryKind::Harbor);
    cluster.bundle.platforms = Platform::ALL.to_vec();
    let error = require(&cluster, &Catalogue::embedded()).unwrap_err();
    assert!(matches!(&error, RequireError::NoOrigin { component, .. } if component == "harbor"), "{error}");
    assert!(error.to_string().contains("components.harbor.urls.arm64"), "{error}");
    let found = require(&cluster, &catalogue()).unwrap();
    let key = ArtifactKey::Binary(kubexm_spec::Program::Harbor);
    let arm = found.items.iter().find(|item| item.key == key && item.platform != Some(Platform::LINUX_AMD64)).unwrap();
    // the digest of that version is known, whoever publishes it
    assert!(
        matches!(&arm.source, Source::File { url, sha256: Some(_), .. } if url == "https://mirror.example/harbor-v2.10.2-arm64.tgz"),
        "{:?}",
        arm.source
    );
}
