//! The closed world, once more: a chart is rendered with its real values in its real cluster before it is applied, since what it
//! names may depend on both, and the bundle was built without either.

use kubexm_charts::judge::{Known, outside};
use kubexm_charts::{documents, extract, objects};
use kubexm_plan::op::{HelmRelease, ReleaseInput};
use serde_json::Value;

use super::helm;
use crate::kube::{self, apis};
use crate::{Machine, OpError};

/// Every object that helm would create, hooks and CRDs included; each of their images is in the bundle.
pub(super) fn checked(
    machine: &Machine,
    op: &HelmRelease,
    input: &ReleaseInput,
    upgrade: bool,
) -> Result<Vec<Value>, OpError> {
    let (kubernetes, apis) = (server_version(machine)?, apis(machine)?);
    let output = machine.run(&helm::template(machine, op, &input.values, upgrade, (&kubernetes, &apis)))?;
    let documents = documents::read(&output.stdout()).map_err(|error| {
        OpError::other(format!("what helm renders of {} cannot be read: {}: {}", op.name, error.place, error.problem))
    })?;
    let known = Known::new(input.images.iter().map(String::as_str), input.ignored.iter().map(String::as_str));
    let missing = outside(&extract::images(&documents), &known);
    if missing.is_empty() {
        return Ok(objects::flattened(documents));
    }
    let each: Vec<String> = missing.iter().map(|(name, place)| format!("{name} ({place})")).collect();
    Err(OpError::other(format!(
        "release {}/{} was not installed: with the values of this site its chart names images that the bundle does not have: {}; \
         build a bundle with them (spec.bundle.extraImages), or list what is no image under spec.bundle.ignoreImages",
        op.namespace,
        op.name,
        each.join(", ")
    )))
}

fn server_version(machine: &Machine) -> Result<String, OpError> {
    let version = kube::raw(machine, "/version")?;
    let text = version.as_ref().and_then(|version| version["gitVersion"].as_str());
    text.map(str::to_owned).ok_or_else(|| OpError::other("the API server does not report its version; run again"))
}

/// What `.Capabilities.APIVersions` of a chart has: `apps/v1`, `apps/v1/Deployment`.
fn apis(machine: &Machine) -> Result<Vec<String>, OpError> {
    let served = apis::served(machine)?;
    let names = served.into_iter().flat_map(|api| [format!("{}/{}", api.version, api.kind), api.version]);
    let mut all: Vec<String> = names.collect();
    all.sort_unstable();
    all.dedup();
    Ok(all)
}
