//! What is different between two bundles or locks, and what a delta would carry.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_archive::members::BLOBS;
use kubexm_archive::{Bundle, DOCUMENT_LIMIT, UnreadDocument, read_document};
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{ArtifactKey, Digest, ExitCode, Manifest, Platform};
use serde::Serialize;

use crate::diff::{Change, Changed, Diff, diff};
use crate::pack::outline;
use crate::session::{Session, SessionError, lockfile};

/// One of the two.
struct Side {
    manifest: Manifest,
    digest: Digest,
    /// None of a bare manifest.
    bundle: Option<Bundle>,
    /// A lock: it has no texts of a bundle, and no manifest.
    lock: bool,
}

/// The differences.
#[derive(Debug, Serialize)]
pub struct Difference {
    schema: &'static str,
    pub old: Compared,
    pub new: Compared,
    /// Whether the manifests, or the locks where one of the two is a lock, are others.
    pub differs: bool,
    pub artifacts: Vec<ChangedArtifact>,
    /// Artifacts that are the same in both, by number.
    pub same: usize,
    /// Members before the blobs.
    pub members: Vec<ChangedMember>,
    /// Of blobs.
    pub bytes: Bytes,
    pub delta: Delta,
}

/// What was compared.
#[derive(Debug, Serialize)]
pub struct Compared {
    /// As it was named.
    pub file: PathBuf,
    /// None of a lock.
    pub manifest: Option<Digest>,
    pub lock: Digest,
}

/// An artifact that one side lacks or has otherwise.
#[derive(Debug, Serialize)]
pub struct ChangedArtifact {
    pub change: Change,
    pub key: ArtifactKey,
    pub platform: Option<Platform>,
    pub old: Option<Content>,
    pub new: Option<Content>,
}

/// An artifact of one side.
#[derive(Debug, Serialize)]
pub struct Content {
    pub version: String,
    pub name: String,
    pub digest: Digest,
    pub manifest: Option<Digest>,
    /// In bytes.
    pub size: u64,
}

/// A member that one side lacks or has otherwise.
#[derive(Debug, Serialize)]
pub struct ChangedMember {
    pub change: Change,
    pub name: String,
}

/// Bytes of blobs.
#[derive(Debug, Serialize)]
pub struct Bytes {
    pub added: u64,
    pub removed: u64,
    pub kept: u64,
}

/// What a delta from the old to the new one would carry.
#[derive(Debug, Serialize)]
pub struct Delta {
    pub members: usize,
    /// Of content.
    pub bytes: u64,
    /// What these members take in the new bundle's file; none where there is no such file.
    pub stored: Option<u64>,
}

impl Difference {
    /// Compares two bundles, manifests or locks; of bundles only the manifests are read.
    pub fn between(session: &Session, old: &Path, new: &Path) -> Result<Self, SessionError> {
        let named = [old, new];
        let (mut old, mut new) = (side(old, session)?, side(new, session)?);
        let locks = old.lock || new.lock;
        if locks {
            // Only what both can have is compared.
            for side in [&mut old, &mut new] {
                side.manifest.members.retain(|member| member.name.starts_with(BLOBS));
            }
        }
        let diff = diff(&old.manifest, &new.manifest);
        let members =
            diff.texts.iter().map(|(name, change)| ChangedMember { change: *change, name: (*name).to_owned() });
        Ok(Self {
            schema: "kubexm.io/diff/v1",
            differs: if locks { old.manifest.lock != new.manifest.lock } else { old.digest != new.digest },
            artifacts: diff.artifacts.iter().filter_map(changed).collect(),
            same: diff.same,
            members: members.collect(),
            bytes: Bytes { added: diff.added_bytes, removed: diff.removed_bytes, kept: diff.kept_bytes },
            delta: Delta { members: diff.delta.len(), bytes: diff.delta_bytes(), stored: stored(&new, &diff) },
            old: compared(named[0], &old),
            new: compared(named[1], &new),
        })
    }

    /// Whether no artifact, no member and no byte of a blob is different; the manifests may be.
    pub fn has_same_content(&self) -> bool {
        self.artifacts.is_empty() && self.members.is_empty() && self.bytes.added == 0 && self.bytes.removed == 0
    }
}

fn compared(file: &Path, side: &Side) -> Compared {
    let manifest = (!side.lock).then_some(side.digest);
    Compared { file: file.to_owned(), manifest, lock: side.manifest.lock }
}

fn changed(changed: &Changed<'_, Artifact>) -> Option<ChangedArtifact> {
    let named = changed.new.or(changed.old)?;
    let content = |artifact: &Artifact| Content {
        version: artifact.version.clone(),
        name: artifact.name.clone(),
        digest: artifact.digest,
        manifest: artifact.manifest,
        size: artifact.size(),
    };
    Some(ChangedArtifact {
        change: changed.change(),
        key: named.key.clone(),
        platform: named.platform,
        old: changed.old.map(content),
        new: changed.new.map(content),
    })
}

/// What the delta's members take in the new bundle's file: what they would take in a delta of the same level.
fn stored(new: &Side, diff: &Diff<'_>) -> Option<u64> {
    let bundle = new.bundle.as_ref()?;
    diff.delta.iter().map(|member| Some(bundle.stored_size(bundle.find(&member.name)?))).sum()
}

/// A manifest begins with a brace, and nothing else that is asked for does.
fn side(path: &Path, session: &Session) -> Result<Side, SessionError> {
    let unreadable =
        |e: std::io::Error| SessionError::refused(ExitCode::Disk, format!("cannot read {}: {e}", path.display()));
    if path.is_file() {
        let mut file = File::open(path).map_err(unreadable)?;
        let mut json = Vec::new();
        file.by_ref().take(1).read_to_end(&mut json).map_err(unreadable)?;
        if json == b"{" {
            file.take(DOCUMENT_LIMIT).read_to_end(&mut json).map_err(unreadable)?;
            if json.len() as u64 > DOCUMENT_LIMIT {
                let text = format!("{} has more than the {DOCUMENT_LIMIT} bytes of a manifest.json", path.display());
                return Err(SessionError::refused(ExitCode::NotABundle, text));
            }
            return bare(path, &json);
        }
    }
    let bundle = session.bundle(path)?;
    let (manifest, digest) = (bundle.manifest().clone(), bundle.manifest_digest());
    Ok(Side { manifest, digest, bundle: Some(bundle), lock: false })
}

fn bare(path: &Path, json: &[u8]) -> Result<Side, SessionError> {
    if let Some(lock) = lockfile::of_json(path, json)? {
        let manifest = outline(&lock)?;
        return Ok(Side { digest: manifest.lock, manifest, bundle: None, lock: true });
    }
    let manifest = read_document(json).map_err(|e| match e {
        UnreadDocument::NewerFormat(format) => {
            let text = format!("{} is of a newer format: {format}; use the kubexm that came with it", path.display());
            SessionError::refused(ExitCode::BundleNewer, text)
        }
        // Nothing says that it is a manifest.
        e => {
            let text = format!("{} is neither a bundle nor the manifest.json of one: {e}", path.display());
            SessionError::refused(ExitCode::NotABundle, text)
        }
    })?;
    Ok(Side { manifest, digest: Digest::of(json), bundle: None, lock: false })
}
