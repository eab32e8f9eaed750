//! Bundle → registry. Members are read from the file as they are sent; nothing is unpacked.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, TryStreamExt, stream};
use kubexm_archive::{Bundle, SIGNATURE_ROOM, members};
use kubexm_spec::Digest;
use kubexm_spec::event::EventKind;
use kubexm_transport::Repository;
use kubexm_transport::oci::{Bytes, Content, Outcome, referrers_tag};

use super::address::Wanted;
use super::artifact::{Artifact, EMPTY, IMAGE_MANIFEST, Layer};
use super::error::OciError;
use super::referrer::{self, IMAGE_INDEX, Referrer, Subject};
use crate::Report;

/// What is pushed, and where to.
pub struct Push<'a> {
    /// An opened bundle, full or a delta, in one file or split.
    pub bundle: &'a Bundle,
    pub to: &'a Repository,
    /// The tag; a digest must be that of the artifact.
    pub wanted: &'a Wanted,
    /// CycloneDX of the bundle, when it is to go along.
    pub sbom: Option<Vec<u8>>,
    /// How many blobs are sent at once.
    pub jobs: usize,
}

/// What is in the registry now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Of the artifact's manifest: the same for the same file.
    pub digest: Digest,
    /// Bytes of all members.
    pub size: u64,
    /// Members and referrers that were sent, and their bytes.
    pub sent: (usize, u64),
    /// Those that were mounted from another repository.
    pub mounted: usize,
    /// Those that were there.
    pub present: usize,
    /// What refers to it: artifact type and digest.
    pub referrers: Vec<(&'static str, Digest)>,
}

/// Sends what is missing, then the manifest, then what refers to it, and moves the tag last: who pulls by the tag finds
/// all of it.
pub async fn push(push: &Push<'_>, report: Report<'_>) -> Result<Pushed, OciError> {
    let artifact = Artifact::of(push.bundle)?;
    let place = || format!("{}:{}", push.to.place(), push.wanted);
    let manifest = artifact.to_json().map_err(|source| OciError::Artifact { place: place(), source })?;
    let subject = Subject { digest: Digest::of(&manifest), size: manifest.len() as u64 };
    if let Wanted::Digest(digest) = push.wanted
        && *digest != subject.digest
    {
        let source = super::artifact::ArtifactError::Broken(format!("this bundle's artifact is {}", subject.digest));
        return Err(OciError::Artifact { place: place(), source });
    }
    report(EventKind::Phase { name: "push".to_owned() });
    let referrers = referrers(push)?;
    let results = send(push, &artifact, &referrers, report).await?;
    push.to.push_manifest(&subject.digest.to_string(), IMAGE_MANIFEST, &manifest).await?;
    let mut reported = Vec::new();
    let mut unlisted = Vec::new();
    for referrer in &referrers {
        let bytes = referrer.to_json(subject);
        let own = Subject { digest: Digest::of(&bytes), size: bytes.len() as u64 };
        let answer = push.to.push_manifest(&own.digest.to_string(), IMAGE_MANIFEST, &bytes).await?;
        reported.push((referrer.artifact_type, own.digest));
        if !answer.keeps_referrers {
            unlisted.push((referrer, own));
        }
    }
    list(push.to, &subject.digest, &unlisted).await?;
    if let Wanted::Tag(tag) = push.wanted {
        push.to.push_manifest(tag, IMAGE_MANIFEST, &manifest).await?;
    }
    let of = |wanted: Outcome| results.iter().filter(move |(_, outcome)| *outcome == wanted);
    Ok(Pushed {
        digest: subject.digest,
        size: artifact.size(),
        sent: (of(Outcome::Sent).count(), of(Outcome::Sent).map(|(size, _)| size).sum()),
        mounted: of(Outcome::Mounted).count(),
        present: of(Outcome::Present).count(),
        referrers: reported,
    })
}

/// The signature slot, if the bundle is signed, and the bill of materials.
fn referrers(push: &Push<'_>) -> Result<Vec<Referrer>, OciError> {
    let mut all = Vec::new();
    if !push.bundle.signatures().is_empty() {
        all.push(Referrer::signature(push.bundle.read(members::SIGNATURE, SIGNATURE_ROOM as u64)?));
    }
    all.extend(push.sbom.clone().map(Referrer::sbom));
    Ok(all)
}

/// Keeps the list of referrers where the registry does not (distribution-spec 1.1, "Pushing Manifests with Subject").
async fn list(to: &Repository, subject: &Digest, added: &[(&Referrer, Subject)]) -> Result<(), OciError> {
    if added.is_empty() {
        return Ok(());
    }
    let tag = referrers_tag(subject);
    let known = to.manifest(&tag).await?.map(|raw| raw.bytes);
    let wrong = |source| OciError::Artifact { place: format!("{}:{tag}", to.place()), source };
    if let Some(index) = referrer::with(known.as_deref(), added).map_err(wrong)? {
        to.push_manifest(&tag, IMAGE_INDEX, &index).await?;
    }
    Ok(())
}

/// Sends every blob once, several at a time; size and outcome of each.
async fn send(
    push: &Push<'_>,
    artifact: &Artifact,
    referrers: &[Referrer],
    report: Report<'_>,
) -> Result<Vec<(u64, Outcome)>, OciError> {
    let mut blobs: BTreeMap<Digest, (u64, Arc<dyn Content>)> = BTreeMap::new();
    let empty: Arc<dyn Content> = Arc::new(Bytes::from_static(EMPTY));
    blobs.insert(Digest::of(EMPTY), (EMPTY.len() as u64, empty));
    for layer in &artifact.layers {
        let content = MemberContent { bundle: push.bundle.clone(), layer: layer.clone() };
        blobs.entry(layer.digest).or_insert((layer.size, Arc::new(content)));
    }
    for referrer in referrers {
        let content = Bytes::from(referrer.content.clone());
        blobs.entry(Digest::of(&content)).or_insert((content.len() as u64, Arc::new(content)));
    }
    let (total, done) = (AtomicU64::new(blobs.values().map(|(size, _)| *size).sum()), AtomicU64::new(0));
    let (total, done) = (&total, &done);
    let tell = |sum: u64| {
        let (what, unit, total) = ("push".to_owned(), "bytes".to_owned(), total.load(Ordering::Relaxed));
        report(EventKind::Progress { what, done: sum, total: Some(total), unit });
    };
    let tell = &tell;
    stream::iter(blobs)
        .map(|(digest, (size, content))| async move {
            let last = AtomicU64::new(0);
            let reported = |now: u64, _: Option<u64>| {
                // A session that was lost goes back: wrapping keeps the sum right.
                let change = now.wrapping_sub(last.swap(now, Ordering::Relaxed));
                tell(done.fetch_add(change, Ordering::Relaxed).wrapping_add(change));
            };
            let outcome = push.to.push_blob((digest, size), content, &reported).await?;
            if outcome != Outcome::Sent {
                // It says nothing of how fast the rest goes.
                total.fetch_sub(size, Ordering::Relaxed);
                tell(done.load(Ordering::Relaxed));
            }
            Ok::<_, OciError>((size, outcome))
        })
        .buffer_unordered(push.jobs.max(1))
        .try_collect()
        .await
}

/// A member as it is read from the bundle: compared with the manifest's digest, whatever byte it is read from.
struct MemberContent {
    bundle: Bundle,
    layer: Layer,
}

impl Content for MemberContent {
    fn name(&self) -> String {
        format!("{} of {}", self.layer.name, self.bundle.path().display())
    }

    fn open(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.bundle.member_from(&self.layer.name, offset).map_err(io::Error::other)?))
    }
}
