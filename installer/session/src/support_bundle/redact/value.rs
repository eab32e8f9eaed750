//! Secrets in decoded values: JSON and YAML, and texts in them that are JSON or YAML themselves.

use serde_json::{Map, Value};

use super::mark::MARK;
use super::text::{is_secret_option, names_a_secret};

/// Removes secrets from a text at some depth.
type OfText<'a> = &'a dyn Fn(&str, usize) -> String;

/// Deeper values are removed completely.
const DEEPEST: usize = 64;

/// Removes secrets from a value.
pub(super) fn redact(of_text: OfText<'_>, value: &mut Value, depth: usize) {
    if depth > DEEPEST {
        *value = Value::from(MARK);
        return;
    }
    match value {
        Value::String(text) => *text = of_text(text, depth + 1),
        Value::Array(values) => list(of_text, values, depth),
        Value::Object(fields) => map(of_text, fields, depth),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The word after such an option is its value: `["kubeadm", "join", "--token", "…"]`.
fn list(of_text: OfText<'_>, values: &mut [Value], depth: usize) {
    let mut is_secret = false;
    for value in values {
        let next = value.as_str().is_some_and(is_secret_option);
        if is_secret {
            hide(value);
        } else {
            redact(of_text, value, depth + 1);
        }
        is_secret = next;
    }
}

fn map(of_text: OfText<'_>, fields: &mut Map<String, Value>, depth: usize) {
    let word = |key: &str| fields.get(key).and_then(Value::as_str);
    // An environment variable of a pod, a header: `{name: DB_PASSWORD, value: …}`.
    let named = ["name", "key"].into_iter().filter_map(word).any(names_a_secret);
    let is_secret_object = word("kind") == Some("Secret");
    for (key, value) in fields.iter_mut() {
        let hidden = names_a_secret(key)
            || (named && key.eq_ignore_ascii_case("value"))
            || (is_secret_object && matches!(key.as_str(), "data" | "stringData"));
        if hidden { hide(value) } else { redact(of_text, value, depth + 1) }
    }
}

/// Replaces every scalar; field names and nulls are kept.
fn hide(value: &mut Value) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::String(_) | Value::Number(_) => *value = Value::from(MARK),
        Value::Array(values) => values.iter_mut().for_each(hide),
        Value::Object(fields) => fields.values_mut().for_each(hide),
    }
}
