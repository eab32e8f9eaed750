//! How long the texts of a catalogue may be, and how many images its features may have. Addresses, names and tags are made of templates
//! of the same document, for each program, image and platform; a catalogue of a bundle may come from anybody.

use serde_json::{Map, Value};

use crate::version::is_version;

/// Of a text or a key, in bytes. Today's longest has 112; an address of somebody's own mirror may have some hundred.
const TEXT: usize = 2048;
/// Variables in one text: each becomes a version of at most 64 bytes, or the address. Today's have four at most.
const VARIABLES: usize = 16;
/// Images of all features together, each required for every platform. Today's have some 70.
const IMAGES: usize = 10_000;
/// Of a text that is too long, in the error.
const SHOWN: usize = 60;

/// What no catalogue has, with its place; the document is of the current schema.
pub(crate) fn check(catalogue: &Value) -> Result<(), String> {
    texts(catalogue, &mut Vec::new())?;
    for group in ["components", "features"] {
        for (name, entry) in members(catalogue, group) {
            if let Some((version, _)) = members(entry, "versions").find(|(version, _)| !is_version(version)) {
                return Err(format!("{group}.{name}.versions: {:?} is not a version", begin(version)));
            }
        }
    }
    let images = |feature: &Value| feature.get("images").and_then(Value::as_array).map_or(0, Vec::len);
    let images: usize = members(catalogue, "features").map(|(_, feature)| images(feature)).sum();
    match images > IMAGES {
        true => Err(format!("features have {images} images, and {IMAGES} are read at most")),
        false => Ok(()),
    }
}

fn members<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    value.get(name).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// `at` is where the value is, without what is in lists.
fn texts<'v>(value: &'v Value, at: &mut Vec<&'v str>) -> Result<(), String> {
    match value {
        Value::String(text) => one(text, at),
        Value::Array(all) => all.iter().try_for_each(|value| texts(value, at)),
        Value::Object(all) => all.iter().try_for_each(|(key, value)| {
            one(key, at)?;
            at.push(key);
            texts(value, at)?;
            at.pop();
            Ok(())
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn one(text: &str, at: &[&str]) -> Result<(), String> {
    let wrong = |what: String| Err(format!("{}: {:?}… has {what}", at.join("."), begin(text)));
    if text.len() > TEXT {
        return wrong(format!("{} bytes, and {TEXT} are read at most", text.len()));
    }
    match text.matches('{').count() {
        many if many > VARIABLES => wrong(format!("{many} variables, and {VARIABLES} are filled in at most")),
        _ => Ok(()),
    }
}

fn begin(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN)]
}
