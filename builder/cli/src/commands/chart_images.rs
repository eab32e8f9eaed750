//! What verbs that fetch nothing say of the images of charts: those of the last rendering with these values, where a lock or
//! the cache has it.

use std::path::Path;

use kubexm_builder::charts;
use kubexm_builder::session::{Needed, Session};
use kubexm_spec::{ArtifactKey, Lock};
use serde_json::{Value, json};

/// By chart or YAML add-on; none where only rendering could tell.
pub struct ChartImages(Vec<(ArtifactKey, Option<Vec<String>>)>);

impl ChartImages {
    /// Looks them up; writes nothing, and nothing goes over the network.
    pub fn known(session: &Session, needed: &Needed, locked: Option<&Lock>, cache: Option<&Path>) -> Self {
        let store = session.store_at_hand(cache);
        Self(charts::known(&needed.cluster, &needed.requirements, locked, store.as_ref()))
    }

    /// Of one of them: names, or why there are none.
    pub fn lines(&self, key: &ArtifactKey) -> Vec<String> {
        match self.0.iter().find(|(known, _)| known == key) {
            Some((_, Some(images))) if images.is_empty() => vec!["none, as it was rendered last".to_owned()],
            Some((_, Some(images))) => images.clone(),
            Some((_, None)) => vec!["learnt by rendering it, when it is locked or built".to_owned()],
            None => Vec::new(),
        }
    }

    /// Of one of them for a machine; null where only rendering could tell, and for what is no chart.
    pub fn value(&self, key: &ArtifactKey) -> Value {
        self.0.iter().find(|(known, _)| known == key).map_or(Value::Null, |(_, images)| json!(images))
    }

    /// All of them, as they are known.
    pub fn all(&self) -> &[(ArtifactKey, Option<Vec<String>>)] {
        &self.0
    }

    /// All of them, for a machine.
    pub fn values(&self) -> Vec<Value> {
        self.0.iter().map(|(key, images)| json!({ "key": key, "images": images })).collect()
    }

    /// All of them for people, a line each.
    pub fn all_lines(&self) -> Vec<String> {
        self.0
            .iter()
            .flat_map(|(key, _)| self.lines(key).into_iter().map(move |line| format!("images of {key}: {line}")))
            .collect()
    }
}
