//! SELinux that confines containers (`system.selinux: confine`): the runtime gives them labels of their own. Pods that are
//! parts of the node (the control plane, the pod network) reach its files under the label that container-selinux has for such.

use kubexm_plan::Facts;
use kubexm_plan::op::{Dir, File};
use kubexm_spec::Cluster;
use kubexm_spec::cluster::Selinux;
use serde_json::{Value, json};

use crate::draft::Draft;
use crate::error::RecipeError;
use crate::{paths, yaml};

/// The package of the policy for containers.
const POLICY: &str = "container-selinux";
/// kubeadm's static pods, as a file of patches names them (`target+patchtype.extension`, kubeadm's "Customizing components").
const STATIC_PODS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Whether containers are confined.
pub fn confines(cluster: &Cluster) -> bool {
    cluster.system.selinux == Selinux::Confine
}

/// Whether a host has the policy for containers, or gets it.
pub fn has_policy(cluster: &Cluster, facts: &Facts) -> bool {
    let line = format!("N\t{POLICY}\t");
    let installed = facts.packages.as_ref().is_some_and(|all| all.list.lines().any(|one| one.starts_with(&line)));
    installed || cluster.system.rpms.iter().any(|name| name == POLICY)
}

/// The security context of a pod that is a part of its node; none if containers are not confined.
pub fn host_pod(cluster: &Cluster) -> Option<Value> {
    // "Super privileged container".
    confines(cluster).then(|| json!({"seLinuxOptions": {"type": "spc_t"}}))
}

/// kubeadm's patches of the control plane's pods on a node, with their folder.
pub fn patches(draft: &mut Draft<'_>) -> Result<Option<(Dir, Vec<File>)>, RecipeError> {
    let Some(context) = host_pod(draft.cx.cluster) else { return Ok(None) };
    let text = yaml::documents("patch of static pods", &[json!({"spec": {"securityContext": context}})])?;
    let path = |pod: &&str| format!("{}/{pod}+merge.yaml", paths::KUBEADM_PATCHES);
    let files = STATIC_PODS.iter().map(|pod| draft.file(path(pod), 0o644, text.clone())).collect();
    Ok(Some((Dir { path: paths::KUBEADM_PATCHES.to_owned(), mode: 0o755 }, files)))
}
