//! Converts catalogues that older programs wrote to the current schema: a bundle lives longer than the program that
//! made it.

use serde_json::{Map, Value, json};

/// The schema of `catalogue.json` and of overlays.
pub const SCHEMA: &str = "kubexm.io/catalogue/v2";
/// What programs before wrote: it is read, and becomes [`SCHEMA`].
pub const SCHEMA_1: &str = "kubexm.io/catalogue/v1";

/// A catalogue of [`SCHEMA_1`] as one of [`SCHEMA`]; anything else is returned unchanged, and the reader refuses it.
pub(crate) fn to_current(mut value: Value) -> Value {
    if value.get("schema").and_then(Value::as_str) != Some(SCHEMA_1) {
        return value;
    }
    value["schema"] = json!(SCHEMA);
    for feature in members(&mut value, "features") {
        let images = feature.get_mut("versions").and_then(Value::as_object_mut);
        images.into_iter().flat_map(|versions| versions.values_mut()).for_each(verified);
    }
    for release in members(&mut value, "releases") {
        let patches = release.get_mut("patches").and_then(Value::as_array_mut);
        patches.into_iter().flatten().for_each(verified);
    }
    value
}

fn members<'v>(value: &'v mut Value, name: &str) -> impl Iterator<Item = &'v mut Value> {
    value.get_mut(name).and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
}

/// v1 had only `unverified: true`; it did not record what a check was made with.
fn verified(row: &mut Value) {
    let Some(row) = row.as_object_mut() else { return };
    if row.get("unverified").is_some_and(|said| !said.is_boolean()) {
        return;
    }
    if row.remove("unverified") != Some(Value::Bool(true)) {
        row.insert("verified".to_owned(), json!({"by": "the program that made the bundle"}));
    }
}
