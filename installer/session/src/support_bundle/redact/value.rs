//! Secrets in decoded values: JSON and YAML, and texts in them that are JSON or YAML themselves.

use std::collections::BTreeMap;

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
            hide(of_text, value, depth + 1);
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
        if hidden { hide(of_text, value, depth + 1) } else { redact(of_text, value, depth + 1) }
    }
    names(of_text, fields, depth);
}

/// Replaces every scalar; nulls are kept, and names of fields but for secrets in them.
fn hide(of_text: OfText<'_>, value: &mut Value, depth: usize) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::String(_) | Value::Number(_) => *value = Value::from(MARK),
        Value::Array(values) => values.iter_mut().for_each(|value| hide(of_text, value, depth + 1)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| hide(of_text, value, depth + 1));
            names(of_text, fields, depth);
        }
    }
}

/// Removes secrets from the names of fields: a map by address or by token has some. Those that become the same get numbers, so that no
/// field is lost.
fn names(of_text: OfText<'_>, fields: &mut Map<String, Value>, depth: usize) {
    let both = |name: &String| (name.clone(), of_text(name, depth + 1));
    let renamed: Vec<(String, String)> = fields.keys().map(both).filter(|(name, shown)| name != shown).collect();
    // The last number of each: a map may have a hundred thousand tokens.
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for (name, shown) in renamed {
        let Some(value) = fields.remove(&name) else { continue };
        let number = numbers.entry(shown.clone()).or_default();
        let free = loop {
            *number += 1;
            let name = if *number == 1 { shown.clone() } else { format!("{shown} ({number})") };
            if !fields.contains_key(&name) {
                break name;
            }
        };
        fields.insert(free, value);
    }
}
