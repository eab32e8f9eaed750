//! YAML documents from values, so that the serialiser does the quoting.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::RecipeError;

/// One text with all documents, each after a `---`.
pub fn documents<T: Serialize>(name: &'static str, documents: &[T]) -> Result<String, RecipeError> {
    let mut text = String::new();
    for document in documents {
        let fault = |reason: String| RecipeError::Document { name, reason };
        let written = serde_saphyr::to_string(document).map_err(|e| fault(e.to_string()))?;
        text.push_str("---\n");
        text.push_str(&written);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

/// Merges `over` into `base`: maps key by key, anything else replaced.
pub fn merge(base: &mut Value, over: &Map<String, Value>) {
    let Value::Object(base) = base else { return };
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(inner @ Value::Object(_)), Value::Object(value)) => merge(inner, value),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_merge_key_by_key_and_the_users_value_wins() {
        let mut base = json!({"a": {"x": 1, "y": 2}, "b": [1]});
        let over = json!({"a": {"y": 3}, "b": [2], "c": true});
        merge(&mut base, over.as_object().unwrap());
        assert_eq!(base, json!({"a": {"x": 1, "y": 3}, "b": [2], "c": true}));
    }

    #[test]
    fn text_that_looks_like_another_type_stays_text() {
        let tricky = json!({"values": ["true", "no", "1.10", "0644", "1e3", "null", "~", "", "a: b", "#c", "- d", "2001-01-01", "12:30"], "text": "line one\nkey: \"x\"\n"});
        let text = documents("test", std::slice::from_ref(&tricky)).unwrap();
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, tricky, "{text}");
    }
}
