//! Secrets of an add-on: cluster.yaml says where their values come from, and they are read on the controller when the step needs them.

use kubexm_manifests::ChartRelease;
use kubexm_plan::addons::of_secrets;
use kubexm_plan::op::Manifests;
use kubexm_plan::{SlotProvider, Step, Undo};
use serde_json::{Map, json};

use crate::context::PlannedHost;
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::yaml;

/// How long the API server may take to have them, in seconds.
pub(super) const WAIT: u64 = 30;

/// The step that creates them, before the add-on; none if it has none. One that cluster.yaml no longer has goes as an object of an earlier
/// version of an add-on does.
pub fn step(
    draft: &mut Draft<'_>,
    first: &PlannedHost<'_>,
    addon: &ChartRelease,
    undo: &Undo,
) -> Result<Option<Step>, RecipeError> {
    let mut addons = draft.cx.cluster.addons.iter();
    let Some(of) = addons.find(|of| of.name == addon.name && !of.secrets.is_empty()) else { return Ok(None) };
    let (mut slots, mut objects) = (Vec::new(), Vec::new());
    for secret in &of.secrets {
        let mut data = Map::new();
        for key in secret.data.keys() {
            let slot = format!("addons.{}/{}/{key}", of.name, secret.name);
            let slot = draft.slot(&slot, SlotProvider::Secret { field: secret.field(&of.name, key) });
            data.insert(key.clone(), slot.placeholder().into());
            slots.push(slot);
        }
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": secret.name, "labels": {"app.kubernetes.io/managed-by": "kubexm"}},
            "type": secret.kind,
            "data": data,
        }));
    }
    let blob = draft.text(yaml::documents("Secrets of an add-on", &objects)?);
    let name = of_secrets(&of.name);
    let step = Step::on(first.name(), &format!("addons.{name}"), &format!("Create the Secrets of {}", of.name))
        .ensure(Manifests { name, namespace: of.namespace.clone(), blob, in_plan: true, slots, wait_s: WAIT })
        .retries(3)
        .undo(undo.clone())
        .build();
    Ok(Some(step))
}
