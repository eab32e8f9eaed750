//! Images that are pulled to a node in advance and pinned, so that system pods start while the registry is
//! down.

use std::collections::BTreeSet;

use kubexm_plan::op::{ImageLoaded, ImageSource};
use kubexm_plan::{OVER_NETWORK, Step, Undo};
use kubexm_spec::cluster::{Cluster, EtcdKind, RegistryKind};
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{ArtifactKey, ClusterImage, Digest, Platform};

use crate::balancer;
use crate::charts;
use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;
use crate::network;
use crate::runtime;

/// On every node, in addition to the pod network's images: sandbox, kube-proxy, and CoreDNS, which may be scheduled
/// anywhere.
const EVERY_NODE: [ClusterImage; 3] = [ClusterImage::Pause, ClusterImage::KubeProxy, ClusterImage::Coredns];

/// In addition on control planes: the static pods that kubeadm writes.
const CONTROL_PLANE: [ClusterImage; 4] =
    [ClusterImage::Etcd, ClusterImage::KubeApiserver, ClusterImage::KubeControllerManager, ClusterImage::KubeScheduler];

/// The images of a node's roles.
pub fn of_roles(cluster: &Cluster, node: &PlannedHost<'_>) -> impl Iterator<Item = ClusterImage> {
    let control_plane = if node.roles.control_plane { CONTROL_PLANE.as_slice() } else { &[] };
    let of_network = network::of(cluster).images;
    let no_proxy = network::replaces_kube_proxy(cluster);
    let no_etcd = cluster.etcd.kind != EtcdKind::Kubeadm;
    let all = EVERY_NODE.iter().chain(of_network).chain(control_plane).copied();
    all.filter(move |image| !(no_proxy && *image == ClusterImage::KubeProxy))
        .filter(move |image| !(no_etcd && *image == ClusterImage::Etcd))
}

/// The images of the pod network's chart or manifest, which no node can do without.
pub fn of_network<'a>(cx: &PlanContext<'a>, platform: Platform) -> impl Iterator<Item = &'a Artifact> {
    let names = charts::network_images(cx);
    let features: BTreeSet<&str> =
        network::all_of(cx.cluster).into_iter().flat_map(|network| network.feature_images).copied().collect();
    let of_feature =
        move |key: &ArtifactKey| matches!(key, ArtifactKey::FeatureImage(name) if features.contains(name.as_str()));
    let artifacts = cx.manifest.artifacts.iter().filter(move |a| a.platform.is_none_or(|p| p == platform));
    artifacts.filter(move |a| names.contains(&a.name) || of_feature(&a.key))
}

/// One step for each image; they are independent of each other.
pub fn steps(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Vec<Step>, RecipeError> {
    let all = of_node(cx, node)?;
    Ok(all.iter().map(|(name, artifact)| step(cx, node, name, artifact)).collect())
}

/// The images that a node has in advance, each with the end of its step's id.
pub fn of_node<'a>(cx: &PlanContext<'a>, node: &PlannedHost<'_>) -> Result<Vec<(String, &'a Artifact)>, RecipeError> {
    let mut all = Vec::new();
    for image in of_roles(cx.cluster, node) {
        all.push((image.name().to_owned(), cx.image(image, node.platform)?));
    }
    // What is imported every node gets below, as it gets all others.
    let of_balancer = balancer::images(cx, node)?.filter(|_| !runtime::imports(cx.cluster));
    all.extend(of_balancer.map(|(name, image)| (name.to_owned(), image)));
    // A reference cannot be part of a step id; its digest can, and is the same in every plan.
    let short = |artifact: &Artifact| Digest::of(&artifact.name).hex()[..12].to_owned();
    if runtime::imports(cx.cluster) {
        all.extend(extra(cx, node).map(|a| (format!("extra-{}", short(a)), a)));
    } else {
        let mut seen = BTreeSet::new();
        let once = of_network(cx, node.platform).filter(|a| seen.insert(a.name.as_str()));
        all.extend(once.map(|a| (format!("network-{}", short(a)), a)));
    }
    Ok(all)
}

/// The images that kubeadm asks for on a node, each with the end of its step's id: those of its own pods, whatever cluster.yaml says of others.
pub fn of_kubeadm<'a>(
    cx: &PlanContext<'a>,
    node: &PlannedHost<'_>,
) -> Result<Vec<(&'static str, &'a Artifact)>, RecipeError> {
    let control_plane = if node.roles.control_plane { CONTROL_PLANE.as_slice() } else { &[] };
    let no_etcd = cx.cluster.etcd.kind != EtcdKind::Kubeadm;
    let all = EVERY_NODE.iter().chain(control_plane).filter(|image| !(no_etcd && **image == ClusterImage::Etcd));
    all.map(|image| Ok((image.name(), cx.image(*image, node.platform)?))).collect()
}

/// Images of the user, of add-ons and of charts, without the cluster's own images. They are imported where a node has no other
/// source for them.
fn extra<'a>(cx: &PlanContext<'a>, node: &PlannedHost<'_>) -> impl Iterator<Item = &'a Artifact> {
    let platform = node.platform;
    let artifacts = &cx.manifest.artifacts;
    let of_cluster = |name: &str| artifacts.iter().any(|a| a.name == name && matches!(a.key, ArtifactKey::Image(_)));
    artifacts.iter().filter(move |a| {
        matches!(a.key, ArtifactKey::ExtraImage(_) | ArtifactKey::FeatureImage(_) | ArtifactKey::ChartImage(_))
            && a.platform.is_none_or(|p| p == platform)
            && !of_cluster(&a.name)
    })
}

/// What is imported comes from the blobs in the node's content store.
fn source(cx: &PlanContext<'_>, artifact: &Artifact) -> ImageSource {
    if runtime::imports(cx.cluster) {
        ImageSource::Store { blobs: artifact.blobs.iter().map(|blob| blob.digest).collect() }
    } else {
        ImageSource::Registry
    }
}

/// What Harbor or the user's registry may have under the tag: it may refuse an index whose other platforms are not in the
/// bundle, so that the manifest of the bundle's only platform is there (`kubexm-install seed` does so).
fn instead(cx: &PlanContext<'_>, artifact: &Artifact) -> Option<Digest> {
    let checks_indexes = matches!(cx.cluster.registry.kind, RegistryKind::External | RegistryKind::Harbor);
    let only_platform = checks_indexes && cx.manifest.platforms.len() == 1;
    artifact.manifest.filter(|manifest| only_platform && *manifest != artifact.digest)
}

/// Loads one of them.
pub fn step(cx: &PlanContext<'_>, node: &PlannedHost<'_>, name: &str, artifact: &Artifact) -> Step {
    let id = format!("images.{name}");
    let source = source(cx, artifact);
    let retries = if source == ImageSource::Registry { OVER_NETWORK } else { 2 };
    Step::on(node.name(), &id, &format!("Load image {}", artifact.name))
        .ensure(ImageLoaded {
            reference: artifact.name.clone(),
            digest: artifact.digest,
            manifest: instead(cx, artifact),
            platform: node.platform.to_string(),
            source,
            runtime: cx.cluster.runtime.kind,
        })
        .timeout_s(300)
        .retries(retries)
        .undo(Undo::RestoreBefore)
        .build()
}
