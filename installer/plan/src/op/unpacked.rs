//! Members of an archive, unpacked as files.

use std::collections::BTreeMap;
use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::ResourceChange;

/// Selected members of a gzip-compressed tar archive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unpacked {
    /// Blob of the node's content store.
    pub blob: Digest,
    /// Member path in the archive (without leading `./`) → absolute path on the host; mode 0755.
    pub members: BTreeMap<String, String>,
    /// If set, every regular file below this folder of the archive is unpacked into one directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_into: Option<AllInto>,
}

/// Every regular file of an archive folder, unpacked into one directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllInto {
    /// Folder in the archive, `""` for its top.
    pub folder: String,
    /// Absolute directory on the host.
    pub directory: String,
}

/// The files that it writes, and whether they are those of the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placed {
    /// By their paths.
    pub files: Vec<PathState>,
    /// Whether the files are those of the archive; none if the archive is not in the store.
    pub settled: Option<bool>,
}

impl OpKind for Unpacked {
    type State = Placed;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let members = self.members.iter();
        let members = members.map(|(name, to)| ResourceChange::file(to, format!("file 0755 {}#{name}", self.blob)));
        let all = self
            .all_into
            .iter()
            .map(|all| ResourceChange::file(format!("{}/*", all.directory), format!("{}#{}/*", self.blob, all.folder)));
        members.chain(all).collect()
    }

    fn needs(&self) -> Needs<'_> {
        Needs { blobs: vec![self.blob], ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for Unpacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut places: Vec<String> = self.members.values().cloned().collect();
        places.extend(self.all_into.iter().map(|all| format!("{}/*", all.directory)));
        write!(f, "unpacked {} from {}", places.join(" "), self.blob.short())
    }
}

impl State for Placed {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        self.files.iter().collect()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
