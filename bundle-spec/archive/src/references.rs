//! Whether everything that the bundle names inside is there (not: whether its bytes are right, which [`crate::verify`] says).

use std::collections::{BTreeSet, HashSet};

use kubexm_spec::{Digest, ExitCode, Platform};
use serde::Deserialize;

use crate::{ArchiveError, DOCUMENT_LIMIT, Documents, check_values, members};

/// The most bytes that a manifest or an image's index may have; registries take 4 MiB (distribution-spec, "Pushing Manifests").
const MANIFEST_LIMIT: u64 = 16 << 20;
/// How deep indexes may lie in one another.
const DEPTH: usize = 8;
/// Missing things that are kept: more than anybody reads before building the bundle again.
const KEPT: usize = 1000;
/// Of a missing thing's description, in bytes: longer ones are cut. A digest has 71, and what a reader says of a document some hundred,
/// unless it repeats the document.
const LENGTH: usize = 400;

/// Something that is named and not there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// What is missing: a blob's digest, a member, a platform.
    pub what: String,
    /// Who names it: an artifact, index.json, a manifest.
    pub named_by: String,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, named by {}", self.what, self.named_by)
    }
}

/// The answer of [`check_references`] when it is not "complete".
#[derive(Debug, thiserror::Error)]
pub enum Incomplete {
    /// Things are named and not there.
    #[error("{} is missing {} things that it names, the first: {}; build it again", path.display(), missing.len() + more, missing.first().map_or_else(String::new, ToString::to_string))]
    Missing {
        /// The file.
        path: std::path::PathBuf,
        /// The first thousand that were found, sorted.
        missing: Vec<Missing>,
        /// How often something was missing beyond those.
        more: usize,
    },
    /// A member that must be read for this check cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ArchiveError),
}

impl Incomplete {
    /// How a program ends on it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Missing { .. } => ExitCode::BundleIncomplete,
            Self::Unreadable(error) => error.exit_code(),
        }
    }
}

/// Follows every artifact of the manifest, and index.json through indexes and manifests down to configs and layers.
///
/// An index may lack what is for platforms that the bundle does not carry (sparse index); of a platform that it carries
/// and the index has, one manifest must be there.
pub fn check_references(bundle: &dyn Documents) -> Result<(), Incomplete> {
    let mut walk = Walk { bundle, missing: BTreeSet::new(), more: 0, seen: HashSet::new() };
    walk.artifacts();
    walk.index()?;
    if walk.missing.is_empty() {
        return Ok(());
    }
    let missing = walk.missing.into_iter().collect();
    Err(Incomplete::Missing { path: bundle.path().to_owned(), missing, more: walk.more })
}

/// Index and image manifest (OCI image-spec, image-index.md and manifest.md) in the parts that name blobs.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    manifests: Option<Vec<Reference>>,
    #[serde(default)]
    config: Option<Reference>,
    #[serde(default)]
    layers: Vec<Reference>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    platform: Option<ReferencePlatform>,
}

#[derive(Deserialize)]
struct ReferencePlatform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
}

impl Reference {
    fn is_for(&self, platform: Platform) -> bool {
        self.platform.as_ref().is_some_and(|p| p.os == platform.os() && p.architecture == platform.arch.as_str())
    }

    fn is_manifest(&self) -> bool {
        matches!(
            self.media_type.as_str(),
            "application/vnd.oci.image.index.v1+json"
                | "application/vnd.oci.image.manifest.v1+json"
                | "application/vnd.docker.distribution.manifest.list.v2+json"
                | "application/vnd.docker.distribution.manifest.v2+json"
        )
    }
}

struct Walk<'a> {
    bundle: &'a dyn Documents,
    missing: BTreeSet<Missing>,
    /// Found when there were [`KEPT`] already.
    more: usize,
    seen: HashSet<Digest>,
}

impl Walk<'_> {
    fn artifacts(&mut self) {
        let manifest = self.bundle.manifest();
        let lock = manifest.members.iter().find(|member| member.name == "lock.yaml");
        match lock.filter(|lock| self.bundle.size_of(&lock.name).is_some()) {
            Some(lock) if lock.sha256 == manifest.lock => {}
            Some(_) => self.lacks("the lock.yaml with the manifest's digest", members::MANIFEST),
            None => self.lacks("lock.yaml", members::MANIFEST),
        }
        for artifact in &manifest.artifacts {
            let named_by = artifact.key.to_string();
            for blob in &artifact.blobs {
                self.has(&blob.digest, Some(blob.size), &named_by);
            }
            for digest in [Some(artifact.digest), artifact.manifest].into_iter().flatten() {
                self.has(&digest, None, &named_by);
            }
        }
    }

    fn index(&mut self) -> Result<(), ArchiveError> {
        for name in ["oci-layout", "index.json"] {
            if self.bundle.size_of(name).is_none() {
                self.lacks(name, "the OCI image layout");
            }
        }
        if self.bundle.size_of("index.json").is_none() {
            return Ok(());
        }
        let index = self.bundle.document("index.json", DOCUMENT_LIMIT)?;
        let Some(document) = self.parse(&index, "index.json") else { return Ok(()) };
        for reference in document.manifests.unwrap_or_default() {
            self.follow(&reference, "index.json", DEPTH)?;
        }
        Ok(())
    }

    /// A reference that must be there, and everything below it.
    fn follow(&mut self, reference: &Reference, named_by: &str, depth: usize) -> Result<(), ArchiveError> {
        let Ok(digest) = reference.digest.parse::<Digest>() else {
            self.lacks(&format!("{} (only sha256 is known)", reference.digest), named_by);
            return Ok(());
        };
        if !self.has(&digest, Some(reference.size), named_by) || !reference.is_manifest() || !self.seen.insert(digest) {
            return Ok(());
        }
        if depth == 0 {
            self.lacks(&format!("the end of indexes below {digest}"), named_by);
            return Ok(());
        }
        let content = self.bundle.document(&members::blob_name(&digest), MANIFEST_LIMIT)?;
        let me = digest.to_string();
        let Some(document) = self.parse(&content, &me) else { return Ok(()) };
        for blob in document.config.iter().chain(&document.layers) {
            self.follow(blob, &me, depth - 1)?;
        }
        self.platforms(document.manifests.unwrap_or_default(), &me, depth - 1)
    }

    /// The manifests of an image's index: those that are there are followed, those of carried platforms must be.
    fn platforms(&mut self, manifests: Vec<Reference>, named_by: &str, depth: usize) -> Result<(), ArchiveError> {
        let bundle = self.bundle;
        let there = |reference: &&Reference| {
            reference.digest.parse().is_ok_and(|digest| bundle.size_of(&members::blob_name(&digest)).is_some())
        };
        for platform in &bundle.manifest().platforms {
            let mut wanted = manifests.iter().filter(|reference| reference.is_for(*platform)).peekable();
            if wanted.peek().is_some() && !wanted.any(|reference| there(&reference)) {
                self.lacks(&format!("the manifest for {platform}"), named_by);
            }
        }
        for reference in manifests.iter().filter(there) {
            self.follow(reference, named_by, depth)?;
        }
        Ok(())
    }

    fn parse(&mut self, json: &[u8], name: &str) -> Option<Document> {
        let parsed = check_values(json)
            .map_err(|e| format!("it {e}"))
            .and_then(|()| serde_json::from_slice(json).map_err(|e| e.to_string()));
        parsed.map_err(|problem| self.lacks(&format!("an OCI document that can be read ({problem})"), name)).ok()
    }

    fn has(&mut self, digest: &Digest, size: Option<u64>, named_by: &str) -> bool {
        match self.bundle.size_of(&members::blob_name(digest)) {
            Some(found) if size.is_none_or(|size| size == found) => true,
            Some(found) => {
                self.lacks(&format!("{digest} with another size than {found}"), named_by);
                false
            }
            None => {
                self.lacks(&digest.to_string(), named_by);
                false
            }
        }
    }

    fn lacks(&mut self, what: &str, named_by: &str) {
        // A few KiB of a bundle can name a hundred thousand things, each with the same long text.
        if self.missing.len() >= KEPT {
            self.more += 1;
            return;
        }
        let cut = |text: &str| text[..text.floor_char_boundary(LENGTH)].to_owned();
        self.missing.insert(Missing { what: cut(what), named_by: cut(named_by) });
    }
}
