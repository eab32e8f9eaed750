//! What a plan installs into a cluster, and what of it is there.

use kubexm_charts::stored::comparable;
use kubexm_charts::{documents, objects};
use kubexm_plan::addons::{InstalledAddon, InstalledAddons, InstalledKind};
use kubexm_plan::op::{HelmRelease, Manifests, ReleaseInput};
use kubexm_plan::{Op, Plan};
use kubexm_spec::rendering;
use serde_json::Value;

use crate::bundle::opened::Opened;

/// Length of the label in which a release notes its chart.
const LABEL: usize = 63;

/// An add-on, or the pod network, of a plan.
pub(crate) struct Planned<'a> {
    /// Of its step in the plan.
    pub step: usize,
    pub name: &'a str,
    pub namespace: &'a str,
    pub content: Content<'a>,
}

pub(crate) enum Content<'a> {
    Release(&'a HelmRelease, ReleaseInput),
    Objects(&'a Manifests),
}

/// What a plan installs, in its order. Removals are not among it.
pub(crate) fn planned(plan: &Plan) -> Vec<Planned<'_>> {
    let ops = plan.steps.iter().enumerate().flat_map(|(at, step)| step.ops.iter().map(move |op| (at, op)));
    let mut all = Vec::new();
    for (step, op) in ops {
        match op {
            Op::HelmRelease(release) => {
                let input = plan.texts.get(&release.input).and_then(|text| serde_json::from_str(text).ok());
                let content = Content::Release(release, input.unwrap_or_default());
                all.push(Planned { step, name: &release.name, namespace: &release.namespace, content });
            }
            Op::Manifests(op) if !op.is_removal() => {
                all.push(Planned { step, name: &op.name, namespace: &op.namespace, content: Content::Objects(op) });
            }
            _ => {}
        }
    }
    all
}

/// The objects of a file of the bundle, or of a text of the plan; what is no YAML there is reported by its step.
pub(crate) fn of_file(opened: &Opened, plan: &Plan, op: &Manifests) -> Option<Vec<Value>> {
    let text = match op.in_plan {
        true => plan.texts.get(&op.blob).cloned()?,
        false => {
            let bytes =
                opened.bundle().read(&kubexm_archive::members::blob_name(&op.blob), documents::STREAM_LIMIT).ok()?;
            String::from_utf8(bytes).ok()?
        }
    };
    documents::read(&text).ok().map(objects::flattened)
}

/// The release of this name that the cluster has, whoever installed it.
pub(super) fn there<'r>(running: Option<&'r InstalledAddons>, planned: &HelmRelease) -> Option<&'r InstalledAddon> {
    running?.addons.iter().find(|one| {
        one.kind == InstalledKind::Helm
            && (one.name.as_str(), one.namespace.as_str()) == (planned.name.as_str(), planned.namespace.as_str())
    })
}

/// Whether the cluster has a release already as it is planned.
pub(crate) fn is_installed(running: Option<&InstalledAddons>, planned: &HelmRelease, input: &ReleaseInput) -> bool {
    let label: String = planned.chart.hex().chars().take(LABEL).collect();
    let values = rendering::digest(&comparable(&input.values));
    there(running, planned).is_some_and(|one| {
        one.status == "deployed" && one.source.as_deref() == Some(&*label) && one.values == Some(values)
    })
}

/// Whether the cluster has the objects of a file already.
pub(crate) fn is_applied(running: Option<&InstalledAddons>, op: &Manifests) -> bool {
    let is_it = |one: &InstalledAddon| {
        one.kind == InstalledKind::Yaml
            && (one.name.as_str(), one.namespace.as_str()) == (op.name.as_str(), op.namespace.as_str())
            && one.source.as_deref() == Some(&*op.blob.hex())
    };
    running.is_some_and(|running| running.addons.iter().any(is_it))
}
