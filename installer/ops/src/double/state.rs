//! What the double remembers between programs.

use std::collections::BTreeMap;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FOLDER, RootedSystem};
use crate::OpError;

const FILE: &str = "state.json";

/// The double's state.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct State {
    /// By unit name.
    pub units: BTreeMap<String, Unit>,
    /// Digest of each unit file as systemd read it last.
    pub known: BTreeMap<String, Digest>,
    /// Grows with every start of a unit; makes invocation ids.
    pub starts: u64,
    /// containerd's images by name.
    pub images: BTreeMap<String, Image>,
    /// Applied documents by `Kind/name`.
    pub objects: BTreeMap<String, String>,
    /// Node objects by name.
    pub nodes: BTreeMap<String, Value>,
}

/// A unit that was started or stopped.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Unit {
    pub active: bool,
    pub invocation: String,
}

/// An image.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Image {
    pub digest: String,
    pub labels: BTreeMap<String, String>,
}

impl State {
    /// Reads the state; the first time, every unit file is known, as after a boot.
    pub(super) fn load(system: &RootedSystem) -> Result<Self, OpError> {
        let path = system.at(&format!("{FOLDER}/{FILE}"));
        match crate::fsio::read(&path)? {
            Some(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| OpError::other(format!("{} cannot be read: {error}", path.display()))),
            None => Ok(Self { known: super::units::files(system), ..Self::default() }),
        }
    }

    pub(super) fn save(&self, system: &RootedSystem) -> Result<(), OpError> {
        let bytes = serde_json::to_vec(self)
            .map_err(|error| OpError::other(format!("the double's state cannot be written as JSON: {error}")))?;
        system.put(FILE, &bytes)
    }
}
