//! What helm must not remove, though a chart has made it: volumes and claims, definitions of which there are objects,
//! namespaces in which there is something.
//!
//! In an upgrade helm looks at the annotation of the object itself, when it uninstalls at the manifest that it has kept: the
//! former is set before an upgrade, and from the latter these objects are taken out. Afterwards those that nobody uses go.

use kubexm_charts::objects::{Identity, list};
use kubexm_charts::stored::Revision;
use kubexm_plan::op::HelmRelease;
use serde_json::Value;

use super::look;
use crate::kube::kubectl;
use crate::kube::objects::printed;
use crate::kube::removal::{CRD, by_namespace, can_be_named};
use crate::{Machine, OpError};

/// helm does not remove an object with this annotation.
const POLICY: &str = "helm.sh/resource-policy=keep";

/// Before an upgrade: what the last revision made and must stay, if the next one does not name it.
pub(super) fn protect(machine: &Machine, op: &HelmRelease, last: Option<&Revision>) -> Result<(), OpError> {
    let Some(last) = last else { return Ok(()) };
    let objects = look::objects(&look::read(last)?)?.into_iter().filter(|object| Identity::of(object).is_kept());
    for (namespace, objects) in by_namespace(objects, &op.namespace) {
        let get = kubectl(["get", "--ignore-not-found", "--output=json", "--namespace", &namespace, "--filename", "-"]);
        let get = get.stdin(list(&objects));
        let there = printed(&machine.run(&get)?.stdout);
        let there = there.map_err(|error| OpError::other(format!("`{get}` did not return JSON: {error}")))?;
        if !there.is_empty() {
            let args = ["annotate", "--overwrite", "--namespace", &namespace, "--filename", "-", POLICY];
            machine.run(&kubectl(args).stdin(list(&there)))?;
        }
    }
    Ok(())
}

/// Takes what must stay out of the manifest by which helm uninstalls.
pub(super) fn take_out(machine: &Machine, op: &HelmRelease, last: &Revision) -> Result<Vec<Identity>, OpError> {
    let release = look::read(last)?;
    let kept: Vec<Identity> = look::objects(&release)?.iter().map(Identity::of).filter(Identity::is_kept).collect();
    if kept.is_empty() {
        return Ok(kept);
    }
    let secret = release.without(Identity::is_kept).map_err(|error| OpError::other(error.to_string()))?;
    let program = kubectl(["replace", "--namespace", &op.namespace, "--filename", "-"]).stdin(secret.to_string());
    machine.run(&program)?;
    Ok(kept)
}

/// The definitions in a rendering that the cluster does not have yet.
pub(super) fn absent_crds(machine: &Machine, rendered: &[Value]) -> Result<Vec<Identity>, OpError> {
    let crds = rendered.iter().map(Identity::of).filter(|object| object.kind == CRD && object.is_kept());
    let crds: Vec<Identity> = crds.filter(can_be_named).collect();
    if crds.is_empty() {
        return Ok(crds);
    }
    let names = crds.iter().map(|crd| crd.name.clone());
    let there = machine.run(&kubectl(["get", "--ignore-not-found", "--output=name", "crd"]).args(names))?.stdout();
    let is_there = |crd: &Identity| there.lines().any(|line| line.rsplit('/').next() == Some(&*crd.name));
    Ok(crds.into_iter().filter(|crd| !is_there(crd)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::removal::remove_unused;

    #[test]
    fn a_name_in_a_chart_that_no_object_can_have_is_no_option_of_kubectl() {
        let folder = tempfile::tempdir().unwrap();
        // It has no kubectl: asking for one is an error.
        let machine = Machine::rooted(folder.path());
        let definition = |name: &str| {
            let version = "apiextensions.k8s.io/v1";
            serde_json::json!({"apiVersion": version, "kind": CRD, "metadata": {"name": name}})
        };
        let namespace =
            |name: &str| serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        for name in ["--kubeconfig=x", "-f", "", " a"] {
            assert_eq!(absent_crds(&machine, &[definition(name)]).unwrap(), [], "{name:?}");
            let kept = [definition(name), namespace(name)].map(|object| Identity::of(&object));
            remove_unused(&machine, &kept).unwrap();
        }
        let named = definition("widgets.example.com");
        assert!(absent_crds(&machine, std::slice::from_ref(&named)).is_err());
        assert!(remove_unused(&machine, &[Identity::of(&named)]).is_err());
        assert!(remove_unused(&machine, &[Identity::of(&namespace("web"))]).is_err());
    }
}
