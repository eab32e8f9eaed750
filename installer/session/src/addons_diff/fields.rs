//! What differs between two documents, field by field. What is compared may be a chart's, or the answer of a host: neither how many
//! fields there are nor how long their names are is known before.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::diff::path_without_secrets;
use crate::support_bundle::redact::MARK;

/// Most fields of an add-on that are named; an upgrade with all its definitions changes some thousand.
const MOST_FIELDS: usize = 50_000;
/// Most bytes that the paths of these have together: each has all keys above it.
const MOST_BYTES: usize = 16 << 20;
/// Where the path of a field would have more bytes, what is above it is one change.
const LONGEST: usize = 4096;

/// A value, and what is shown of it.
type Pair<'a> = (Option<&'a Value>, Option<&'a Value>);

/// A field that would change.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// `spec.template.spec.containers[0].image`.
    pub field: String,
    /// None if it is not there.
    pub before: Option<Value>,
    /// None if it would go.
    pub after: Option<Value>,
}

/// What differs between documents of one add-on.
pub(super) struct Fields {
    /// Fields of the document that is compared.
    named: Vec<Changed>,
    /// How many more may be named.
    fields: usize,
    /// How many bytes further paths may have.
    bytes: usize,
    /// How many differ and are not named.
    more: usize,
}

impl Default for Fields {
    fn default() -> Self {
        Self::within(MOST_FIELDS, MOST_BYTES)
    }
}

impl Fields {
    const fn within(fields: usize, bytes: usize) -> Self {
        Self { named: Vec::new(), fields, bytes, more: 0 }
    }

    /// What differs between two documents, as deep as they have the same shape; none if they are the same.
    pub(super) fn of(&mut self, before: Pair<'_>, after: Pair<'_>) -> Option<Vec<Changed>> {
        if before.0 == after.0 {
            return None;
        }
        self.compare(&mut String::new(), before, after);
        Some(std::mem::take(&mut self.named))
    }

    /// How many differ and are not named, of all documents.
    pub(super) const fn more(&self) -> usize {
        self.more
    }

    fn compare(&mut self, field: &mut String, before: Pair<'_>, after: Pair<'_>) {
        match (before.0, after.0) {
            (old, new) if old == new => {}
            (Some(Value::Object(one)), Some(Value::Object(other))) if are_short(field, one, other) => {
                let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
                for key in keys {
                    let name = match (field.is_empty(), key.contains(['.', '/'])) {
                        (_, true) => format!("[{key:?}]"),
                        (true, false) => key.clone(),
                        (false, false) => format!(".{key}"),
                    };
                    let old = (one.get(key), before.1.and_then(|shown| shown.get(key)));
                    let new = (other.get(key), after.1.and_then(|shown| shown.get(key)));
                    self.below(field, &name, old, new);
                }
            }
            (Some(Value::Array(one)), Some(Value::Array(other)))
                if one.len() == other.len() && field.len() <= LONGEST =>
            {
                for (n, (old, new)) in one.iter().zip(other).enumerate() {
                    let old = (Some(old), before.1.and_then(|shown| shown.get(n)));
                    let new = (Some(new), after.1.and_then(|shown| shown.get(n)));
                    self.below(field, &format!("[{n}]"), old, new);
                }
            }
            _ => self.add(field, before, after),
        }
    }

    fn below(&mut self, field: &mut String, name: &str, before: Pair<'_>, after: Pair<'_>) {
        let length = field.len();
        field.push_str(name);
        self.compare(field, before, after);
        field.truncate(length);
    }

    fn add(&mut self, field: &str, before: Pair<'_>, after: Pair<'_>) {
        let left = self.bytes.checked_sub(field.len());
        let (Some(fields), Some(bytes)) = (self.fields.checked_sub(1), left) else {
            self.more += 1;
            return;
        };
        (self.fields, self.bytes) = (fields, bytes);
        // Below a name that is a secret nothing is shown.
        let of = |(value, shown): Pair<'_>| value.map(|_| shown.cloned().unwrap_or_else(|| MARK.into()));
        self.named.push(Changed { field: path_without_secrets(field), before: of(before), after: of(after) });
    }
}

/// Whether the paths of all that two maps have are short enough.
fn are_short(field: &str, one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    one.keys().chain(other.keys()).all(|key| field.len() + key.len() <= LONGEST)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(fields: &mut Fields, before: &Value, after: &Value) -> Vec<Changed> {
        fields.of((Some(before), Some(before)), (Some(after), Some(after))).unwrap()
    }

    #[test]
    fn what_differs_below_a_long_key_is_one_change_of_what_is_above_it() {
        let document = |value: u32| {
            let below: Map<String, Value> = (0..1000).map(|n| (format!("k{n}"), json!(value))).collect();
            json!({"spec": {"a".repeat(LONGEST): below, "b": value}, "c": value})
        };
        let found = of(&mut Fields::default(), &document(1), &document(2));
        let names: Vec<&str> = found.iter().map(|one| one.field.as_str()).collect();
        assert_eq!(names, ["c", "spec"]);
        assert_eq!(found[1].after, Some(document(2)["spec"].take()));
    }

    #[test]
    fn what_is_not_named_is_counted_for_all_documents() {
        let document = |value: u32| json!({"a": [value, value], "b": {"c": value}});
        let mut fields = Fields::within(4, 1000);
        assert_eq!(of(&mut fields, &document(1), &document(2)).len(), 3);
        assert_eq!(of(&mut fields, &document(1), &document(2)).len(), 1);
        assert!(of(&mut fields, &document(1), &document(2)).is_empty());
        assert_eq!(fields.more(), 5);
        assert_eq!(fields.of((None, None), (None, None)), None);
        // `a[0]` and `a[1]`.
        let mut fields = Fields::within(4, 8);
        assert_eq!(of(&mut fields, &document(1), &document(2)).len(), 2);
        assert_eq!(fields.more(), 1);
    }
}
