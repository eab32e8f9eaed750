//! Files of the shapes that KubeKey writes itself and shows in its documents.

use kubexm_spec::cluster::{
    AddonSource, EtcdKind, InternalKind, LoadBalancerMode, NetworkPlugin, ProxyMode, RegistryKind, RuntimeKind,
};
use kubexm_spec::{Cluster, Platform};

use super::super::Imported;
use super::{cluster, import, is_reported};

fn sample(text: &str) -> (Imported, Cluster) {
    let imported = import(text);
    let cluster = cluster(&imported);
    (imported, cluster)
}

fn paths(imported: &Imported) -> Vec<&str> {
    imported.left.iter().map(|left| left.path.as_str()).collect()
}

#[test]
fn what_kk_create_config_writes_is_carried_over() {
    let (imported, cluster) = sample(include_str!("samples/generated.yaml"));
    let kubernetes = cluster.kubernetes.as_ref().unwrap();
    assert_eq!((cluster.etcd.kind, cluster.runtime.kind), (EtcdKind::Kubexm, RuntimeKind::Containerd));
    assert_eq!((cluster.network.plugin, kubernetes.proxy_mode), (NetworkPlugin::Calico, ProxyMode::Ipvs));
    assert!(kubernetes.auto_renew_certs && kubernetes.nodelocaldns.is_some());
    assert_eq!(cluster.load_balancer.mode, LoadBalancerMode::None);
    assert_eq!(cluster.storage.open_ebs.unwrap().base_path, "/var/openebs");
    assert_eq!(
        paths(&imported),
        ["spec.hosts[0].password", "spec.hosts[1].password", "spec.storage.openebs", ""],
        "the last one is KubeSphere's document"
    );
}

#[test]
fn the_example_of_every_part_is_carried_over() {
    let (imported, cluster) = sample(include_str!("samples/every-part.yaml"));
    let kubernetes = cluster.kubernetes.as_ref().unwrap();
    assert_eq!(cluster.role_groups.etcd, ["node1", "node2", "node3"]);
    let LoadBalancerMode::Internal { kind, vip, .. } = &cluster.load_balancer.mode else { panic!("{cluster:?}") };
    assert_eq!((*kind, vip.unwrap().to_string().as_str()), (InternalKind::KubeVip, "10.20.0.100"));
    assert_eq!((cluster.system.pre_install.len(), cluster.system.post_install.len()), (1, 1));
    assert_eq!((cluster.etcd.quota, cluster.etcd.snapshots.keep), (Some(2_147_483_648), Some(5)));
    assert_eq!(kubernetes.kubelet["cpuCFSQuota"], false);
    assert_eq!(cluster.registry.auths.len(), 1);
    for field in ["heartbeatInterval", "maxWals", "maxRequestBytes", "logLevel"] {
        assert!(is_reported(&imported, &format!("spec.etcd.{field}")), "{field}");
    }
    assert!(is_reported(&imported, "spec.network.calico"));
    assert!(!is_reported(&imported, "spec.kubernetes"), "{:?}", imported.left);
}

#[test]
fn an_offline_site_is_carried_over() {
    let (imported, cluster) = sample(include_str!("samples/offline.yaml"));
    assert_eq!(cluster.bundle.platforms, [Platform::LINUX_AMD64, Platform::LINUX_ARM64]);
    assert_eq!((cluster.etcd.kind, cluster.etcd.external.as_ref().unwrap().endpoints.len()), (EtcdKind::External, 2));
    assert_eq!((cluster.registry.kind, cluster.network.plugin), (RegistryKind::Harbor, NetworkPlugin::KubeOvn));
    assert_eq!(cluster.registry.namespace_override.as_deref(), Some("mirror"));
    assert_eq!(cluster.network.more_pod_cidrs, ["fd00:244::/56".parse().unwrap()]);
    assert_eq!((cluster.load_balancer.mode.port(), cluster.hosts[0].more_internal_addresses.len()), (8443, 1));
    assert!(cluster.kubernetes.unwrap().nodelocaldns.is_none());
    let names: Vec<&str> = cluster.addons.iter().map(|addon| addon.name.as_str()).collect();
    assert_eq!(names, ["nfs-client", "glusterfs"]);
    assert!(matches!(&cluster.addons[0].source, AddonSource::Repository { version, .. } if version == "4.0.11"));
    for path in ["spec.addons[1].sources.yaml.path[1]", "spec.addons[2]", "spec.network.kubeovn"] {
        assert!(is_reported(&imported, path), "{path}: {:#?}", imported.left);
    }
    assert!(!imported.cluster_yaml.contains("Harbor12345"));
}

#[test]
fn a_file_written_by_hand_is_carried_over() {
    let (imported, cluster) = sample(include_str!("samples/small.yaml"));
    assert_eq!(cluster.kubernetes.as_ref().unwrap().version.as_deref(), Some("v1.23.15"));
    assert_eq!(
        (cluster.load_balancer.mode.clone(), cluster.runtime.kind),
        (LoadBalancerMode::None, RuntimeKind::Docker)
    );
    assert_eq!(paths(&imported), ["spec.kubernetes.version"]);
}

#[test]
fn an_artifacts_manifest_is_carried_over() {
    let (imported, cluster) = sample(include_str!("samples/manifest.yaml"));
    assert_eq!(cluster.bundle.os, ["ubuntu-20.04", "centos-7"]);
    assert_eq!((cluster.bundle.extra_images.len(), cluster.bundle.platforms.len()), (3, 2));
    assert_eq!((cluster.runtime.kind, cluster.runtime.version.as_deref()), (RuntimeKind::Containerd, Some("1.7.8")));
    assert_eq!(cluster.registry.harbor.unwrap().version.as_deref(), Some("2.5.3"));
    assert!(is_reported(&imported, "spec.registry.auths") && is_reported(&imported, "spec.components.etcd"));
}
