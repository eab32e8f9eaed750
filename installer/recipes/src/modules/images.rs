//! Images that a node must have of its own, pinned: its control plane survives a dead registry.

use kubexm_plan::op::ImageLoaded;
use kubexm_plan::{Step, Undo};
use kubexm_spec::ClusterImage;

use crate::context::{Node, PlanCx};
use crate::error::RecipeError;

/// On every node: the sandbox, kube-proxy, the pod network, and DNS, which may be scheduled anywhere.
const EVERY_NODE: [ClusterImage; 5] = [
    ClusterImage::Pause,
    ClusterImage::KubeProxy,
    ClusterImage::Coredns,
    ClusterImage::Flannel,
    ClusterImage::FlannelCniPlugin,
];

/// On control planes besides: the static pods that kubeadm writes.
const CONTROL_PLANE: [ClusterImage; 4] =
    [ClusterImage::Etcd, ClusterImage::KubeApiserver, ClusterImage::KubeControllerManager, ClusterImage::KubeScheduler];

/// The images of a node's roles.
pub fn of_roles(node: &Node<'_>) -> impl Iterator<Item = ClusterImage> {
    let control_plane = if node.control_plane { CONTROL_PLANE.as_slice() } else { &[] };
    EVERY_NODE.iter().chain(control_plane).copied()
}

/// One step for each image; they need not wait for one another.
pub fn steps(cx: &PlanCx<'_>, node: &Node<'_>) -> Result<Vec<Step>, RecipeError> {
    of_roles(node).map(|image| step(cx, node, image)).collect()
}

fn step(cx: &PlanCx<'_>, node: &Node<'_>, image: ClusterImage) -> Result<Step, RecipeError> {
    let artifact = cx.image(image, node.platform)?;
    let id = format!("images.{}", image.name());
    Ok(Step::on(node.name(), &id, &format!("Load image {}", artifact.name))
        .ensure(ImageLoaded {
            reference: artifact.name.clone(),
            digest: artifact.digest,
            platform: node.platform.to_string(),
        })
        .timeout_s(300)
        .retries(2)
        .undo(Undo::RestoreBefore)
        .build())
}
