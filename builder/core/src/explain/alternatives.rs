//! The same cluster with one setting changed: explains how an artifact that is not in the bundle would get in. Pure.

use std::net::{IpAddr, Ipv4Addr};

use kubexm_manifests::Catalogue;
use kubexm_spec::Cluster;
use kubexm_spec::cluster::{
    API_PORT, Addon, AddonKind, AddonSource, EtcdKind, ExternalKind, InternalKind, Keyword, Kubernetes, KubernetesKind,
    LoadBalancerMode, NetworkPlugin, Nfs, NodeLocalDns, OpenEbs, RegistryKind, RuntimeKind,
};

/// The same cluster with one thing otherwise, and what that is in the words of cluster.yaml.
pub(super) fn of_fields(cluster: &Cluster) -> Vec<(String, Cluster)> {
    let mut all = Vec::new();
    let mut with = |change: String, make: &dyn Fn(&mut Cluster)| {
        let mut changed = cluster.clone();
        make(&mut changed);
        if changed != *cluster {
            all.push((change, changed));
        }
    };
    for name in &cluster.bundle.exclude {
        with(format!("{name} not in spec.bundle.exclude"), &|c| c.bundle.exclude.retain(|other| other != name));
    }
    if cluster.kubernetes.is_none() {
        with("spec.kubernetes: {}".to_owned(), &|c| c.kubernetes = Some(Kubernetes::named(&c.name)));
    }
    for kind in KubernetesKind::ALL {
        with(format!("kubernetes.type: {kind}"), &|c| {
            if let Some(kubernetes) = &mut c.kubernetes {
                kubernetes.kind = *kind;
            }
        });
    }
    with("kubernetes.nodelocaldns: {}".to_owned(), &|c| {
        if let Some(kubernetes) = &mut c.kubernetes {
            kubernetes.nodelocaldns.get_or_insert_with(NodeLocalDns::default);
        }
    });
    for kind in EtcdKind::ALL {
        with(format!("etcd.type: {kind}"), &|c| c.etcd.kind = *kind);
    }
    for kind in RuntimeKind::ALL {
        with(format!("runtime.type: {kind}"), &|c| {
            // A version is one of the runtime it stood beside.
            (c.runtime.kind, c.runtime.version) = (*kind, c.runtime.version.take().filter(|_| c.runtime.kind == *kind));
        });
    }
    for plugin in NetworkPlugin::ALL {
        with(format!("network.plugin: {plugin}"), &|c| c.network.plugin = *plugin);
    }
    with("network.multus: true".to_owned(), &|c| c.network.multus = true);
    // Any address will do: none of them brings anything in.
    let vip = IpAddr::V4(Ipv4Addr::LOCALHOST);
    for kind in ExternalKind::ALL {
        let mode =
            LoadBalancerMode::External { kind: *kind, vip, port: API_PORT, interface: None, virtual_router_id: None };
        with(format!("loadBalancer.external.type: {kind}"), &|c| c.load_balancer.mode = mode.clone());
    }
    for kind in InternalKind::ALL {
        let vip = (*kind == InternalKind::KubeVip).then_some(vip);
        let mode = LoadBalancerMode::Internal { kind: *kind, vip, port: API_PORT, interface: None };
        with(format!("loadBalancer.internal.type: {kind}"), &|c| c.load_balancer.mode = mode.clone());
    }
    for kind in RegistryKind::ALL {
        with(format!("registry.type: {kind}"), &|c| c.registry.kind = *kind);
    }
    with("storage.openebs: {}".to_owned(), &|c| {
        c.storage.open_ebs.get_or_insert_with(OpenEbs::default);
    });
    with("storage.nfs: {server, path}".to_owned(), &|c| {
        let (server, path) = ("nfs.invalid".to_owned(), "/".to_owned());
        c.storage.nfs.get_or_insert(Nfs { server, path, mount_options: Vec::new(), default_class: false });
    });
    all
}

/// Each chart of the catalogue as one of `spec.addons`.
pub(super) fn of_add_ons(cluster: &Cluster, catalogue: &Catalogue) -> Vec<(String, Cluster)> {
    let charts = catalogue.features.values().filter(|feature| feature.chart.is_some());
    charts
        .map(|feature| {
            let mut changed = cluster.clone();
            changed.kubernetes.get_or_insert_with(|| Kubernetes::named(&cluster.name));
            changed.addons.push(Addon {
                name: feature.name.clone(),
                kind: AddonKind::Helm,
                source: AddonSource::Catalogue { name: feature.name.clone(), version: None },
                namespace: "default".to_owned(),
                values: serde_json::Map::new(),
                values_file: None,
                after: Vec::new(),
                secrets: Vec::new(),
            });
            let name = &feature.name;
            (format!("spec.addons: [{{name: {name}, type: helm, source: {{catalogue: {name}}}}}]"), changed)
        })
        .collect()
}
