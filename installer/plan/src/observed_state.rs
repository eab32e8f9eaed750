//! The results of observing a host: the state of an op, and whether a probe succeeds.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::kind::{OpKind, State};

/// The observed state of one op (digests, never secrets), and whether it is the desired one.
///
/// It is journalled, and kept in the ledgers of nodes for years: each state has the version of its kind's format (1 if
/// absent), and readers get a typed state ([`ObservedState::state`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedState {
    /// Version of the state's format, by [`State::SCHEMA`].
    #[serde(default = "first", skip_serializing_if = "is_first")]
    schema: u32,
    /// Its JSON as text: a run keeps those of all steps, and as values they would take many times as much memory.
    #[serde(serialize_with = "written", deserialize_with = "read")]
    state: Arc<str>,
    /// Whether nothing has to be changed.
    pub satisfied: bool,
}

fn written<S: Serializer>(state: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::from_str::<Value>(state).map_err(serde::ser::Error::custom)?.serialize(serializer)
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    Ok(Value::deserialize(deserializer)?.to_string().into())
}

const fn first() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_first(schema: &u32) -> bool {
    *schema == 1
}

/// Why a recorded state cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Its format is newer than this program.
    #[error(
        "the recorded state of an op has schema {found}, and this program reads up to {known}: a newer kubexm-install \
         wrote it; use that version"
    )]
    Newer {
        /// Schema of the state.
        found: u32,
        /// [`State::SCHEMA`] here.
        known: u32,
    },
    /// It is not in its kind's format.
    #[error("the recorded state of an op cannot be read: {0}; was it written by another version, or changed by hand?")]
    Unreadable(String),
}

impl ObservedState {
    /// The state of an op of this kind.
    pub fn new<K: OpKind>(state: &K::State, satisfied: bool) -> Result<Self, serde_json::Error> {
        Ok(Self { schema: K::State::SCHEMA, state: serde_json::to_value(state)?.to_string().into(), satisfied })
    }

    /// A state that only its own link can read, such as that of a simulated host.
    pub fn opaque(state: &Value, satisfied: bool) -> Self {
        Self { schema: first(), state: state.to_string().into(), satisfied }
    }

    /// The state as the type of this op kind.
    pub fn state<K: OpKind>(&self) -> Result<K::State, StateError> {
        let known = K::State::SCHEMA;
        if self.schema > known {
            return Err(StateError::Newer { found: self.schema, known });
        }
        serde_json::from_str(&self.state).map_err(|error| StateError::Unreadable(error.to_string()))
    }

    /// The state as JSON, for callers that made it with [`ObservedState::opaque`], and for people.
    pub fn raw(&self) -> Value {
        serde_json::from_str(&self.state).unwrap_or_default()
    }

    /// The length of its JSON in bytes, and what parsing it takes as memory at most.
    pub fn size(&self) -> (usize, usize) {
        (self.state.len(), kubexm_spec::json::memory_of(self.state.as_bytes()))
    }
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeAnswer {
    /// Whether the probe succeeded.
    pub holds: bool,
    /// What was observed, for the log and for the error on a timeout.
    pub seen: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ObservedState, StateError};
    use crate::kind::{OpKind, State};
    use crate::op::{Op, PackageState, Packages, StateDir, Unit};
    use crate::path_state::PathEntry;

    #[test]
    fn a_state_without_a_schema_has_the_first_one_and_is_written_without_it() {
        let text = json!({"state": {"path": "/var/lib/x", "entry": {"is": "absent"}}, "satisfied": true});
        let found: ObservedState = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(found.state::<StateDir>().unwrap().entry, PathEntry::Absent);
        assert_eq!(serde_json::to_value(&found).unwrap(), text);
    }

    #[test]
    fn a_state_of_a_newer_program_is_refused_by_its_schema() {
        let schema = <Unit as OpKind>::State::SCHEMA + 1;
        let text = json!({"schema": schema, "state": {}, "satisfied": true});
        let found: ObservedState = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(found.state::<Unit>(), Err(StateError::Newer { found: schema, known: schema - 1 }));
        // It is kept unchanged: the version that wrote it can read it again.
        assert_eq!(serde_json::to_value(&found).unwrap(), text);
    }

    #[test]
    fn a_state_of_another_kind_is_no_state() {
        let found = ObservedState::opaque(&json!({"path": "/etc/x", "entry": {"is": "absent"}}), false);
        let error = found.state::<Packages>().unwrap_err();
        assert!(
            error.to_string().contains("cannot be read") && error.to_string().contains("another version"),
            "{error}"
        );
        let place = Op::from(StateDir::at("/etc/x"));
        assert_eq!(place.places(&found).unwrap().len(), 1);
        let gone = json!({"packages": {"socat": {"is": "absent"}}, "links": []});
        let standing = ObservedState::opaque(&gone, false).state::<Packages>().unwrap().packages;
        assert_eq!(standing["socat"], PackageState::Absent);
    }
}
