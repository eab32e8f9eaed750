//! A mapping of a document that is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::cluster::SecretSource;

/// A mapping that keys are put into as far as they are set.
#[derive(Default)]
pub(super) struct Part(pub(super) Map<String, Value>);

impl Part {
    pub(super) fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), value.into());
    }

    pub(super) fn maybe<T: serde::Serialize>(&mut self, key: &str, value: Option<T>) {
        if let Some(value) = value {
            self.put(key, json!(value));
        }
    }

    pub(super) fn path(&mut self, key: &str, value: Option<&PathBuf>) {
        self.maybe(key, value.map(|path| text(path)));
    }

    pub(super) fn some(&mut self, key: &str, part: Self) {
        if !part.0.is_empty() {
            self.put(key, part.0);
        }
    }

    pub(super) fn raw(&mut self, key: &str, map: &Map<String, Value>) {
        self.some(key, Self(map.clone()));
    }

    pub(super) fn named<T: serde::Serialize>(&mut self, key: &str, map: &BTreeMap<String, T>) {
        self.some(key, Self(map.iter().map(|(key, value)| (key.clone(), json!(value))).collect()));
    }

    pub(super) fn each<T>(&mut self, key: &str, items: &[T], show: impl Fn(&T) -> Value) {
        if !items.is_empty() {
            self.put(key, items.iter().map(show).collect::<Vec<_>>());
        }
    }

    pub(super) fn list<T: serde::Serialize>(&mut self, key: &str, items: &[T]) {
        self.each(key, items, |item| json!(item));
    }

    /// One value, or a list where there are others.
    pub(super) fn one_or_two<T: serde::Serialize>(&mut self, key: &str, first: &T, more: &[T]) {
        let all: Vec<_> = std::iter::once(first).chain(more).collect();
        self.put(key, if more.is_empty() { json!(first) } else { json!(all) });
    }

    pub(super) fn secret(&mut self, key: &str, source: Option<&SecretSource>) {
        if let Some(source) = source {
            self.put(
                key,
                match source {
                    SecretSource::Env(name) => json!({"env": name}),
                    SecretSource::File(path) => json!({"file": text(path)}),
                },
            );
        }
    }
}

impl From<Part> for Value {
    fn from(part: Part) -> Self {
        Self::Object(part.0)
    }
}

/// Paths were read from a text, and so are one.
pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
