//! A backup of a sample's cluster, as a recipe sees it.

use std::collections::BTreeMap;

use kubexm_plan::backup::{Archive, BackedUpCluster, BackedUpNode};
use kubexm_spec::cluster::{Keyword as _, MaterialUse};
use serde_json::json;

use crate::backup_source::{BackupSource, PAIRS};
use crate::context::PlanContext;
use crate::sample;

/// Of the cluster that this plans, when it was on two other hosts.
pub fn of(cx: &PlanContext<'_>, archive: Archive) -> BackupSource {
    let (cluster, network) = (cx.cluster, &cx.cluster.network);
    let joined = |all: Vec<String>| all.join(",");
    let services = joined(network.service_cidrs().map(|one| one.to_string()).collect());
    let pods = joined(network.pod_cidrs().map(|one| one.to_string()).collect());
    let platform = cx.manifest.platforms.first();
    let version = platform.and_then(|platform| cx.kubernetes_version(*platform).ok()).unwrap_or_default();
    let version = version.trim_start_matches('v');
    let pod = |name: &str, flags: [String; 2]| {
        let command = [vec![name.to_owned()], flags.to_vec()].concat();
        let container = json!({"command": command, "image": format!("registry.k8s.io/{name}:v{version}")});
        json!({"kind": "Pod", "spec": {"containers": [container]}}).to_string()
    };
    let manifests = [
        (
            "/etc/kubernetes/manifests/kube-apiserver.yaml",
            pod(
                "kube-apiserver",
                [format!("--service-cluster-ip-range={services}"), "--etcd-servers=https://127.0.0.1:2379".to_owned()],
            ),
        ),
        (
            "/etc/kubernetes/manifests/kube-controller-manager.yaml",
            pod("kube-controller-manager", [format!("--cluster-cidr={pods}"), "--cluster-name=kubernetes".to_owned()]),
        ),
    ];
    let materials = cluster.materials();
    let ca = materials.iter().find(|of| of.usage == MaterialUse::Authority).map(|of| &of.file.name);
    let ca = ca.and_then(|name| sample::materials(cluster).remove(name));
    let text = |path: &str| match &ca {
        Some(ca) if path == PAIRS[0].0 => ca.clone(),
        _ => format!("{path} of the backup\n"),
    };
    let texts: BTreeMap<String, String> = PAIRS.iter().map(|(path, _)| ((*path).to_owned(), text(path))).collect();
    let manifests = manifests.into_iter().map(|(path, text)| (path.to_owned(), text));
    let node = |name: &str, last: u8| BackedUpNode {
        name: name.to_owned(),
        addresses: vec![format!("10.66.0.{last}")],
        control_plane: last == 11,
    };
    let addons: Vec<_> = cluster
        .addons
        .iter()
        .map(|addon| json!({"name": addon.name, "type": addon.kind.word(), "namespace": addon.namespace}))
        .collect();
    let mut spec_of_network = json!({"plugin": network.plugin.word()});
    if !network.options.is_empty() {
        spec_of_network["options"] = network.options.clone().into();
    }
    BackupSource {
        cluster: cluster.name.clone(),
        cluster_id: sample::CLUSTER_ID,
        created: 1_795_600_000,
        archive,
        snapshot: 1 << 20,
        now: 1_795_642_200,
        had: Some(BackedUpCluster {
            nodes: vec![node("old1", 11), node("old2", 12)],
            members: vec!["old1".to_owned()],
            network: Some(network.plugin.word().to_owned()),
            applied: Some(json!({"spec": {"network": spec_of_network, "addons": addons}})),
        }),
        texts: texts.into_iter().chain(manifests).collect(),
        keys: PAIRS.iter().map(|(_, key)| (*key).to_owned()).collect(),
    }
}
