//! Pods in virtual machines, by an add-on of the catalogue: a pod of its chart puts handlers into drop-ins of a node's runtime, and
//! restarts it. It leaves the configuration that kubexm writes alone if that imports its drop-ins already.

use kubexm_manifests::chart::VIRTUAL_MACHINES;
use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::op::StateDir;
use kubexm_spec::cluster::{Addon, AddonSource, Cluster};
use serde_json::{Map, Value, json};

use super::of_cluster::imports;
use crate::error::RecipeError;
use crate::selinux;

/// The field of a configuration that imports drop-ins.
const IMPORTS: &str = "imports";
/// How long helm waits for it, in seconds: its pods come one node after the other, and each restarts the runtime.
pub const WAIT: u64 = 1800;
/// Where its programs are.
const PROGRAMS: &str = "/opt/kata";

/// Whether a cluster has the add-on.
pub fn are_added(cluster: &Cluster) -> bool {
    cluster.addons.iter().any(is_it)
}

/// Whether it is this add-on.
pub fn is_it(addon: &Addon) -> bool {
    matches!(&addon.source, AddonSource::Catalogue { name, .. } if name == VIRTUAL_MACHINES)
}

fn were_added(last: &AppliedCluster) -> bool {
    let all = last.cluster.pointer("/spec/addons").and_then(Value::as_array);
    all.into_iter()
        .flatten()
        .any(|addon| addon.pointer("/source/catalogue").is_some_and(|name| name == VIRTUAL_MACHINES))
}

/// Refuses a cluster in which it cannot work. `other`: the runtime, where its configuration would be changed, and what to use instead.
pub(super) fn refused(cluster: &Cluster, other: Option<(String, String)>) -> Option<RecipeError> {
    let taken_out = || "take it out of spec.addons".to_owned();
    let (what, hint) = match other {
        _ if !are_added(cluster) => return None,
        Some(other) => other,
        // The job with which its chart ends pulls an image called `latest`, whatever a node has.
        None if imports(cluster) => ("no registry".to_owned(), taken_out()),
        None if selinux::confines(cluster) => ("spec.system.selinux: confine".to_owned(), taken_out()),
        None => return None,
    };
    Some(RecipeError::Unsupported { what: format!("the add-on {VIRTUAL_MACHINES} with {what}"), hint })
}

/// Refuses to install it where the runtimes of a cluster that runs do not read its drop-ins: it would change what kubexm has written.
pub fn are_known(cluster: &Cluster, last: Option<&AppliedCluster>) -> Result<(), RecipeError> {
    match last {
        Some(last) if are_added(cluster) && !were_added(last) => Err(RecipeError::Unsupported {
            what: format!("the add-on {VIRTUAL_MACHINES}, which the runtimes of the nodes do not know yet,"),
            hint: "run `kubexm-install create` with the bundle of the cluster first, which configures them and installs it"
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Refuses to change the runtimes of a cluster that has it before it is gone: they would not read its drop-ins any more, and its pods
/// remove them only where they are read.
pub fn are_gone(cluster: &Cluster, last: Option<&AppliedCluster>) -> Result<(), RecipeError> {
    match last {
        Some(last) if !are_added(cluster) && were_added(last) => Err(RecipeError::Unsupported {
            what: format!("taking out the add-on {VIRTUAL_MACHINES} together with other changes"),
            hint: "run `kubexm-install addons apply` first, which removes it alone".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// What it writes on a node, drop-ins of the runtime among it: that goes with the cluster.
pub(super) fn state(cluster: &Cluster, drop_ins: &[String]) -> Vec<StateDir> {
    let all = drop_ins.iter().map(String::as_str).chain([PROGRAMS]).map(StateDir::at);
    if are_added(cluster) { all.collect() } else { Vec::new() }
}

/// Fields of a configuration: the user's, and the import of its drop-ins.
pub(super) fn extra_config(cluster: &Cluster, import: &str) -> Map<String, Value> {
    let mut extra = cluster.runtime.extra_config.clone();
    if are_added(cluster) {
        let imports = extra.entry(IMPORTS).or_insert_with(|| json!([]));
        // What is no list is reported as it is.
        if let Some(all) = imports.as_array_mut().filter(|all| !all.iter().any(|one| one == import)) {
            all.push(json!(import));
        }
    }
    extra
}
