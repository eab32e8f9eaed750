//! Blobs of the node's content store in the file-system layout of the distribution registry.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use kubexm_spec::Digest;
use kubexm_spec::depot::Repository;
use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::ResourceChange;

/// Blobs of the node's content store in the file-system layout of the distribution registry (`docker/registry/v2` below
/// its root; distribution v3, registry/storage/paths.go). Blobs are hard links or reflinks if the file system supports
/// them. Content that others put there is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryLayout {
    /// `rootdirectory` of the registry, absolute.
    pub data_dir: String,
    /// Repositories by name, `registry.k8s.io/pause`.
    pub repositories: BTreeMap<String, Repository>,
}

/// What is missing or different in the layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LayoutDifference {
    /// Missing files; of a missing folder only the topmost one.
    pub missing: BTreeSet<String>,
    /// Files with other content: a tag that points elsewhere, a truncated blob.
    pub changed: Vec<PathState>,
}

impl RegistryLayout {
    /// The folder with all repositories.
    pub fn folder(data_dir: &str) -> String {
        format!("{data_dir}/docker/registry/v2/repositories")
    }

    /// The file by which a repository has a manifest.
    pub fn manifest_link(data_dir: &str, name: &str, digest: &Digest) -> String {
        format!("{}/{name}/_manifests/revisions/sha256/{}/link", Self::folder(data_dir), digest.hex())
    }

    /// The file by which a repository has a config or layer.
    pub fn blob_link(data_dir: &str, name: &str, digest: &Digest) -> String {
        format!("{}/{name}/_layers/sha256/{}/link", Self::folder(data_dir), digest.hex())
    }
}

impl LayoutDifference {
    /// Whether a file was not there, or another one.
    pub fn has(&self, path: &str) -> bool {
        let missing = |at: &Path| self.missing.contains(at.to_string_lossy().as_ref());
        Path::new(path).ancestors().any(missing) || self.changed.iter().any(|changed| changed.path == path)
    }
}

impl OpKind for RegistryLayout {
    type State = LayoutDifference;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let names: Vec<&str> = self.repositories.keys().map(String::as_str).collect();
        vec![ResourceChange::file(format!("{}/docker", self.data_dir), format!("repositories {}", names.join(" ")))]
    }

    fn needs(&self) -> Needs<'_> {
        let all = self.repositories.values().flat_map(|one| one.manifests.iter().chain(&one.blobs));
        Needs { blobs: all.copied().collect(), ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Made
    }
}

impl fmt::Display for RegistryLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} repositories in {}", self.repositories.len(), self.data_dir)
    }
}

impl State for LayoutDifference {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        self.changed.iter().collect()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
