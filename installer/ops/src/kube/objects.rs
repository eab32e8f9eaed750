//! Objects as kubexm applies them: server-side, as field manager `kubexm`; and as it reads them, to apply them again.

use serde_json::Value;

use crate::kube::kubectl;
use crate::system::Program;

/// Field manager of what kubexm applies.
pub(crate) const MANAGER: &str = "kubexm";
pub(crate) const FORCE: [&str; 3] = ["--server-side", "--force-conflicts", "--field-manager=kubexm"];
/// Metadata that the API server sets on every object; an apply that contains it is refused or has no effect.
const SET_BY_THE_SERVER: [&str; 6] =
    ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];

/// A command of kubectl about the objects of a text.
pub(crate) fn on<const N: usize>(verb: &str, options: [&str; N], text: &str) -> Program {
    kubectl([verb]).args(options).args(["--filename", "-"]).stdin(text)
}

/// An object without the fields that the API server sets.
pub(crate) fn own(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|key, _| !SET_BY_THE_SERVER.contains(&key.as_str()));
        }
    }
    object
}

pub(crate) fn is_secret(object: &Value) -> bool {
    object.get("kind").is_some_and(|kind| kind == "Secret")
}

/// The objects that kubectl prints as JSON: one alone, several in a list, none as nothing.
pub(crate) fn printed(stdout: &[u8]) -> Result<Vec<Value>, serde_json::Error> {
    if stdout.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let mut answer: Value = serde_json::from_slice(stdout)?;
    Ok(match answer.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => vec![answer],
    })
}
