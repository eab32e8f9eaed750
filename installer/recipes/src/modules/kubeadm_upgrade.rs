//! `kubeadm upgrade` on a node, and the files that it reads.

use std::collections::BTreeMap;

use kubexm_plan::op::{KubeadmUpgrade, KubeadmUpgradeUndo, Probe, UpgradeOf};
use kubexm_plan::{Step, Undo};
use kubexm_spec::cluster::EtcdKind;
use kubexm_spec::{ClusterImage, Digest};

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::{control_plane, join, kubeadm_config};
use crate::{minors, network, paths, selinux};

/// The static pods of a control plane, by the names of their manifests.
pub const STATIC_PODS: [(&str, ClusterImage); 4] = [
    ("etcd", ClusterImage::Etcd),
    ("kube-apiserver", ClusterImage::KubeApiserver),
    ("kube-controller-manager", ClusterImage::KubeControllerManager),
    ("kube-scheduler", ClusterImage::KubeScheduler),
];

/// The images of a control plane's static pods in the bundle. An etcd that is not kubeadm's has no pod.
pub fn images<'a>(
    cx: &PlanContext<'a>,
    node: &PlannedHost<'_>,
) -> Result<BTreeMap<&'static str, &'a str>, RecipeError> {
    let stacked = cx.cluster.etcd.kind == EtcdKind::Kubeadm;
    let pods = STATIC_PODS.into_iter().filter(|(_, image)| stacked || *image != ClusterImage::Etcd);
    pods.map(|(pod, image)| Ok((pod, cx.image(image, node.platform)?.name.as_str()))).collect()
}

/// What kubeadm reads during the upgrade of a node: on the first control plane the cluster's config, elsewhere patches.
pub fn configure(
    draft: &mut Draft<'_>,
    first: &PlannedHost<'_>,
    node: &PlannedHost<'_>,
) -> Result<Option<Step>, RecipeError> {
    if node.name() != first.name() {
        return join::patch(draft, first, node);
    }
    let text = kubeadm_config::upgraded(draft.cx, node)?;
    let (folder, patches) = selinux::patches(draft)?.unzip();
    Ok(Some(
        Step::on(node.name(), "upgrade.config", "Write kubeadm's config for the upgrade")
            .ensure_all(folder)
            .ensure_all(patches.into_iter().flatten())
            .ensure(draft.file(paths::KUBEADM_UPGRADE_CONFIG, 0o644, text))
            .undo(Undo::RestoreBefore)
            .build(),
    ))
}

/// What kubeadm's configuration of the cluster is afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configuration {
    /// That of cluster.yaml, which was written before ([`configure`]).
    Ours {
        /// It has the settings of etcd that the cluster has already.
        same_etcd: bool,
        /// Of it, where it has other settings than the nodes.
        settings: Option<Digest>,
    },
    /// Its own, as kubeadm finds it in the cluster: one that was adopted.
    Theirs {
        /// It has a kube-proxy.
        kube_proxy: bool,
    },
}

impl Configuration {
    /// Whether the cluster has no kube-proxy. kubeadm of 1.32 and later makes the one that its init has skipped, unless that phase is skipped
    /// again (CHANGELOG-1.32, "Urgent Upgrade Notes"). Those before know no such phase, and make none where its ConfigMap is not there.
    fn has_no_proxy(self, cx: &PlanContext<'_>) -> bool {
        match self {
            Self::Ours { .. } => network::replaces_kube_proxy(cx.cluster),
            Self::Theirs { kube_proxy } => !kube_proxy,
        }
    }
}

/// kubeadm's own checks of the upgrade of the cluster, while everything can be rolled back.
pub fn preflight(draft: &Draft<'_>, first: &PlannedHost<'_>, config: Configuration) -> Result<Step, RecipeError> {
    let upgrade = act(draft, first, first, config)?;
    let title = format!("Ask kubeadm whether it would upgrade the cluster to {}", upgrade.version);
    Ok(Step::on(first.name(), "upgrade.preflight", &title)
        .probe(Probe::KubeadmUpgradePasses { upgrade: Box::new(upgrade) }, 60)
        .timeout_s(400)
        .undo(Undo::Nothing)
        .build())
}

/// `kubeadm upgrade`. On a worker it changes kubelet's configuration only, which can be restored.
pub fn step(
    draft: &Draft<'_>,
    first: &PlannedHost<'_>,
    node: &PlannedHost<'_>,
    config: Configuration,
) -> Result<Step, RecipeError> {
    let act = act(draft, first, node, config)?;
    let version = &act.version;
    let (id, title) = match act.of {
        UpgradeOf::Cluster { .. } => {
            ("upgrade.apply", format!("Upgrade the cluster and its first control plane to {version} with kubeadm"))
        }
        UpgradeOf::ControlPlane => ("upgrade.node", format!("Upgrade the control plane to {version} with kubeadm")),
        UpgradeOf::Worker => ("upgrade.node", format!("Get kubelet's configuration of {version} with kubeadm")),
    };
    let undo = match act.of.is_control_plane() {
        true => Undo::Irreversible { why: one_way(draft.cx) },
        false => Undo::Act { act: KubeadmUpgradeUndo { version: version.clone(), settings: act.settings }.into() },
    };
    Ok(Step::on(node.name(), id, &title).ensure(act).timeout_s(LIMIT_S).undo(undo).build())
}

fn act(
    draft: &Draft<'_>,
    first: &PlannedHost<'_>,
    node: &PlannedHost<'_>,
    config: Configuration,
) -> Result<KubeadmUpgrade, RecipeError> {
    let (cx, ours) = (draft.cx, matches!(config, Configuration::Ours { .. }));
    let of = match (node.name() == first.name(), node.roles.control_plane) {
        (true, _) => UpgradeOf::Cluster { config: ours.then(|| paths::KUBEADM_UPGRADE_CONFIG.to_owned()) },
        (false, true) => UpgradeOf::ControlPlane,
        (false, false) => UpgradeOf::Worker,
    };
    let patched = match of {
        _ if !ours => false,
        UpgradeOf::Cluster { .. } => selinux::confines(cx.cluster),
        UpgradeOf::ControlPlane | UpgradeOf::Worker => join::is_patched(draft, first, node)?,
    };
    let images = match of.is_control_plane() {
        true => images(cx, node)?.into_iter().map(|(pod, image)| (pod.to_owned(), image.to_owned())).collect(),
        false => BTreeMap::new(),
    };
    let skips = config.has_no_proxy(cx) && minors::of(cx, node)? >= minors::UPGRADE_PHASES;
    let skip_phases = if skips { vec![kubeadm_config::PROXY_PHASE.to_owned()] } else { Vec::new() };
    let (same_etcd, settings) = match config {
        Configuration::Ours { same_etcd, settings } => (same_etcd, settings),
        Configuration::Theirs { .. } => (false, None),
    };
    // A patch may be one of etcd's manifest.
    let same_etcd = same_etcd && !patched && images.contains_key("etcd");
    Ok(KubeadmUpgrade {
        version: cx.kubernetes_version(node.platform)?,
        of,
        images,
        patches: patched.then(|| paths::KUBEADM_PATCHES.to_owned()),
        ignore: control_plane::ignored(cx, node)?,
        skip_phases,
        same_etcd,
        settings,
    })
}

/// Said before anything is changed.
fn one_way(cx: &PlanContext<'_>) -> String {
    let data = match cx.cluster.etcd.kind {
        EtcdKind::External => {
            "the data of before is only in a snapshot that you have taken of your etcd, which has the keys of others, too"
        }
        EtcdKind::Kubeadm | EtcdKind::Kubexm => "the data of before is in the snapshot of etcd that is taken before",
    };
    format!(
        "kubeadm cannot go back to an earlier version once a control plane's API server and etcd may have written data of the new one; {data}"
    )
}

/// kubeadm waits five minutes for each static pod; before that its host may boot, and its health check be asked several times.
const LIMIT_S: u64 = 2_400;
