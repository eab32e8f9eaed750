//! The closed world, once more: a chart is rendered with its real values in its real cluster before it is applied, since what it
//! names may depend on both, and the bundle was built without either.

use kubexm_charts::documents::{self, Unreadable};
use kubexm_charts::judge::{Known, outside};
use kubexm_charts::{extract, objects};
use kubexm_plan::op::{HelmRelease, ReleaseInput};
use serde_json::Value;

use super::helm::{self, Rendering};
use super::look;
use crate::kube::removal::CRD;
use crate::kube::{self, apis};
use crate::{Machine, OpError};

/// How often a chart is rendered until its own definitions change nothing any more.
const ROUNDS: usize = 3;

/// Every object that helm would create, hooks and CRDs included; each of their images is in the bundle. helm installs a chart's
/// definitions before it renders the rest, so it is rendered with them, too.
pub(super) fn checked(
    machine: &Machine,
    op: &HelmRelease,
    input: &ReleaseInput,
    upgrade: bool,
) -> Result<Vec<Value>, OpError> {
    let (kubernetes, mut apis) = (server_version(machine)?, apis::names(machine)?);
    for _ in 0..ROUNDS {
        let render = |tests: bool| {
            let rendering = Rendering { upgrade, tests, kubernetes: &kubernetes, apis: &apis };
            let output = machine.run(&helm::template(machine, op, &input.values, rendering))?;
            documents::read(&output.stdout()).map_err(|error| OpError::other(unreadable(op, &error)))
        };
        let mut documents = render(true)?;
        if objects::has_tests(&documents) {
            documents = objects::installed(documents, render(false)?);
        }
        if let Some(text) = outside_of_bundle(op, input, &documents) {
            return Err(OpError::other(format!("release {}/{} was not installed: {text}", op.namespace, op.name)));
        }
        let objects = objects::flattened(documents);
        let known = apis.len();
        apis.extend(objects.iter().filter(|object| object["kind"] == CRD).flat_map(objects::defined));
        apis.sort_unstable();
        apis.dedup();
        if apis.len() == known {
            return Ok(objects);
        }
    }
    Err(OpError::other(format!("the definitions of release {}/{} change with every rendering", op.namespace, op.name)))
}

/// Why what helm has installed may not stay; none if each of its images is in the bundle. A chart can render to something else than in
/// the check before: by the number of the revision, by chance, by time.
pub(super) fn refused(machine: &Machine, op: &HelmRelease, input: &ReleaseInput) -> Result<Option<String>, OpError> {
    let history = look::history(machine, op)?;
    let Some(last) = history.last() else { return Ok(None) };
    let release = look::read(last)?;
    if let Err(error) = release.check() {
        return Ok(Some(unreadable(op, &error)));
    }
    let documents = release.documents().map_err(|error| OpError::other(unreadable(op, &error)))?;
    Ok(outside_of_bundle(op, input, &documents))
}

fn unreadable(op: &HelmRelease, error: &Unreadable) -> String {
    format!("what helm renders of {} cannot be read: {}: {}", op.name, error.place, error.problem)
}

fn outside_of_bundle(op: &HelmRelease, input: &ReleaseInput, objects: &[Value]) -> Option<String> {
    let known = Known::new(input.images.iter().map(String::as_str), input.ignored.iter().map(String::as_str));
    let missing = outside(&extract::images(objects), &known);
    if missing.is_empty() {
        return None;
    }
    let each: Vec<String> = missing.iter().map(|(name, place)| format!("{name} ({place})")).collect();
    Some(format!(
        "with the values of this site the chart of {} names images that the bundle does not have: {}; build a bundle with them \
         (spec.bundle.extraImages), or list what is no image under spec.bundle.ignoreImages",
        op.name,
        each.join(", ")
    ))
}

fn server_version(machine: &Machine) -> Result<String, OpError> {
    let version = kube::raw(machine, "/version")?;
    let text = version.as_ref().and_then(|version| version["gitVersion"].as_str());
    text.map(str::to_owned).ok_or_else(|| OpError::other("the API server does not report its version; run again"))
}
