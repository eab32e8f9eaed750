//! What is inside a bundle, by its head and tail: artifacts, where they are from, signatures.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_archive::{Bundle, Signature};
use kubexm_spec::lock::{Content, PackageIndex, PackageSet, SignatureCheck};
use kubexm_spec::manifest::{Artifact, ClusterSummary, Member};
use kubexm_spec::sources::ArtifactSources;
use kubexm_spec::{ArtifactKey, Digest, ExitCode, Lock, Platform, Sources};
use serde::Serialize;

use super::signatures::{Listed, listed};
use crate::session::SessionError;
use crate::{complete, sources};

/// What is inside.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspected<'b> {
    schema: &'static str,
    /// As it was named.
    pub file: PathBuf,
    /// Of all volumes, in bytes.
    pub size: u64,
    /// Digest of manifest.json.
    pub manifest: Digest,
    pub bundle_id: Digest,
    /// None of them is checked.
    pub signatures: Vec<Listed>,
    pub name: &'b str,
    /// None in a bundle of extras only.
    pub cluster: Option<&'b ClusterSummary>,
    pub platforms: &'b [Platform],
    pub format: u32,
    /// None where the places were left out.
    pub zone: Option<String>,
    pub tool: &'b str,
    /// Digest of the lock.
    pub lock: Digest,
    /// Repositories whose unsigned metadata came over plain http, by the lock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trust_unsigned: Vec<TrustedIndex>,
    pub artifacts: Vec<Traced<'b>>,
    pub members: &'b [Member],
}

/// The metadata of a repository that nobody signed, and that came over plain http with the user's consent.
#[derive(Debug, Serialize)]
pub struct TrustedIndex {
    pub os: String,
    pub platform: Platform,
    pub repository: String,
    /// Of the metadata.
    pub digest: Digest,
}

/// An artifact and where it is from.
#[derive(Debug, Serialize)]
pub struct Traced<'b> {
    #[serde(flatten)]
    pub artifact: &'b Artifact,
    #[serde(flatten)]
    pub places: Option<Places>,
    /// Of an image: what its lock claims of its signature, which `verify` checks; none where cluster.yaml demands none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed: Option<SignatureCheck>,
}

/// Where an artifact is from.
#[derive(Debug, Serialize)]
pub struct Places {
    /// The address upstream, before any zone rewrote it.
    pub asked: Option<String>,
    /// What was asked, in order.
    #[serde(rename = "sources")]
    pub candidates: Vec<String>,
    /// Who answered; empty where nobody wrote it down.
    pub from: Vec<String>,
}

impl Traced<'_> {
    /// What the lock claims of the signature of an image, for people.
    pub fn claim(&self) -> Option<String> {
        let check = self.signed.as_ref()?;
        let subject = check.signature.as_ref().map(|signature| format!(", over {}", signature.subject.short()));
        Some(format!("{check}{}", subject.unwrap_or_default()))
    }
}

impl<'b> Inspected<'b> {
    /// Reads no content but the places and, of a bundle with images or packages, the lock.
    pub fn of(file: &Path, bundle: &'b Bundle) -> Result<Self, SessionError> {
        let manifest = bundle.manifest();
        let sources = sources::of(bundle)?;
        let known = sources.as_ref().map(Sources::by_artifact);
        let places = |artifact: &Artifact| {
            let ArtifactSources { asked, candidates, from, .. } =
                known.as_ref()?.find(&artifact.key, artifact.platform)?.clone();
            Some(Places { asked, candidates, from })
        };
        let lock = lock(bundle)?;
        let items = lock.as_ref().map(Lock::by_artifact);
        let signed = |artifact: &Artifact| {
            let item = items.as_ref()?.find(&artifact.key, artifact.platform)?;
            match &item.content {
                Content::Image { signed, .. } => signed.as_deref().cloned(),
                Content::File { .. } => None,
            }
        };
        let traced = |artifact| Traced { artifact, places: places(artifact), signed: signed(artifact) };
        let artifacts = manifest.artifacts.iter().map(traced).collect();
        Ok(Self {
            schema: "kubexm.io/inspect/v1",
            file: file.to_owned(),
            size: bundle.size(),
            manifest: bundle.manifest_digest(),
            bundle_id: bundle.bundle_id(),
            signatures: listed(bundle.signatures()),
            name: &manifest.name,
            cluster: manifest.cluster.as_ref(),
            platforms: &manifest.platforms,
            format: manifest.format,
            artifacts,
            zone: sources.map(|sources| sources.zone),
            trust_unsigned: lock.iter().flat_map(trust_unsigned).collect(),
            tool: &manifest.tool,
            lock: manifest.lock,
            members: &manifest.members,
        })
    }
}

/// The lock, where something in the bundle has more to it than the manifest says.
fn lock(bundle: &Bundle) -> Result<Option<Lock>, SessionError> {
    let has_more =
        |artifact: &Artifact| artifact.manifest.is_some() || matches!(artifact.key, ArtifactKey::Package { .. });
    match bundle.manifest().artifacts.iter().any(has_more) {
        true => Ok(Some(complete::lock(bundle)?)),
        false => Ok(None),
    }
}

fn trust_unsigned(lock: &Lock) -> Vec<TrustedIndex> {
    let of = |set: &PackageSet| {
        let (os, platform) = (set.os.clone(), set.platform);
        let trusted = set.indexes.iter().filter(|index| index.trust_unsigned);
        let index = move |index: &PackageIndex| {
            let (repository, digest) = (index.repository.clone(), index.digest);
            TrustedIndex { os: os.clone(), platform, repository, digest }
        };
        trusted.map(index).collect::<Vec<_>>()
    };
    lock.packages.iter().flat_map(of).collect()
}

/// One signature of a bundle, by its number, from 1 on, or the id of its key.
pub fn signature<'b>(file: &Path, bundle: &'b Bundle, wanted: &str) -> Result<&'b Signature, SessionError> {
    let all = bundle.signatures();
    let number = wanted.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let found = all.iter().find(|signature| signature.key_id == wanted).or_else(|| all.get(number?));
    let file = file.display();
    found.ok_or_else(|| {
        let text = match all.len() {
            0 => format!("{file} is unsigned"),
            count => format!("{file} has {count} signatures and none that is {wanted:?}; `inspect` lists them"),
        };
        SessionError::refused(ExitCode::BundleUntrusted, text)
    })
}

/// The exact bytes that a signature signs: its statement, or (format 1) manifest.json.
pub fn signed_bytes<'b>(bundle: &'b Bundle, signature: &'b Signature) -> &'b [u8] {
    signature.statement.as_ref().map_or(bundle.manifest_json(), String::as_bytes)
}

/// The bytes of a signature as openssl takes them: DER for ECDSA, 64 bytes for Ed25519.
pub fn signature_bytes(file: &Path, signature: &Signature) -> Result<Vec<u8>, SessionError> {
    STANDARD.decode(&signature.sig).map_err(|_| {
        let text = format!("the signature of key {} in {} is no base64", signature.key_id, file.display());
        SessionError::refused(ExitCode::BundleUntrusted, text)
    })
}
