//! `layout.json`: how this file stores what the manifest lists. Not signed, and nothing in it must be trusted.

use kubexm_spec::Digest;
use kubexm_spec::manifest::FORMAT;
use serde::{Deserialize, Serialize};

use crate::Encoding;

/// How a bundle's members are stored. Canonical JSON, like the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Layout {
    /// Format version, as in the manifest.
    pub format: u32,
    /// Compressor and version, so that a merge can tell whether it would write the same bytes.
    pub encoder: String,
    /// Level of the compressed members.
    pub level: i32,
    /// Members of this file after layout.json, in its order.
    pub members: Vec<StoredMember>,
    /// Of a delta: digest of the base's manifest.json.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Digest>,
    /// Of a delta: names of the members that the base has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Names of the members that are stored in another compression than they have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recoded: Vec<String>,
}

/// One member of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoredMember {
    /// As in the manifest.
    pub name: String,
    /// Of all its frames.
    pub encoding: Encoding,
}

impl Layout {
    /// Of a full bundle, written by this program.
    pub(crate) fn full(level: i32, members: Vec<StoredMember>) -> Self {
        let encoder = format!("zstd {}", zstd::zstd_safe::version_string());
        Self { format: FORMAT, encoder, level, members, base: None, left_out: Vec::new(), recoded: Vec::new() }
    }

    /// Sorted keys, no blanks.
    pub(crate) fn canonical_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&serde_json::to_value(self)?)
    }
}
