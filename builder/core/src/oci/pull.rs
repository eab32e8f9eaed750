//! Registry → the same file. Blobs go through the store, so that a pull that was stopped continues, and what a build or an
//! earlier pull brought is not fetched again.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_archive::{
    ArchiveError, Contents, Delta, Encoding, Input, Layout, Options, SIGNATURE_ROOM, Signature, Written,
};
use kubexm_archive::{DOCUMENT_LIMIT, bundle_id_of, members, read_document, signature_slot, write_contents};
use kubexm_spec::digest::Hasher;
use kubexm_spec::event::EventKind;
use kubexm_spec::lock::Descriptor;
use kubexm_spec::{Digest, Manifest};
use kubexm_transport::oci::RawManifest;
use kubexm_transport::{ImageCandidate, OciRegistry, Registry, Repository, Store};
use serde::de::DeserializeOwned;

use super::address::Wanted;
use super::artifact::{Artifact, ArtifactError, Layer, MEMBER_LAYER};
use super::error::OciError;
use super::referrer::{self, SIGNATURE_TYPE};
use crate::Report;

/// What is pulled, and where to.
pub struct Pull<'a> {
    /// The clients.
    pub registry: &'a OciRegistry,
    pub from: &'a ImageCandidate,
    /// Tag or digest.
    pub wanted: &'a Wanted,
    /// Where blobs are kept.
    pub store: &'a Store,
    /// The file to be written.
    pub target: &'a Path,
    /// Threads that compress.
    pub threads: usize,
    /// Whether another encoder than the one of layout.json may be used: same content, other bytes.
    pub recode: bool,
}

/// A bundle that is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Of the artifact's manifest.
    pub digest: Digest,
    /// Size and digests of the file.
    pub written: Written,
    /// How many signatures came along, unchecked.
    pub signatures: usize,
    /// Whether it is a delta.
    pub delta: bool,
    /// Whether the file has other bytes than the one that was pushed.
    pub recoded: bool,
}

/// The two documents that describe the layers.
struct Head {
    manifest: Manifest,
    layout: Layout,
    /// Of both together.
    bundle_id: Digest,
}

/// Fetches what is missing in the store, and writes the bundle again from its members.
pub async fn pull(pull: &Pull<'_>, report: Report<'_>) -> Result<Pulled, OciError> {
    let place = format!("{}/{} {}", pull.from.registry, pull.from.repository, pull.wanted);
    let wrong = |source| OciError::Artifact { place: place.clone(), source };
    let repository = pull.registry.repository(pull.from, &[]).await?;
    let raw = repository.manifest(&pull.wanted.to_string()).await?;
    let raw: RawManifest = raw.ok_or_else(|| OciError::Missing { place: place.clone() })?;
    let artifact = Artifact::parse(&raw.bytes).map_err(wrong)?;
    report(EventKind::Phase { name: "pull".to_owned() });
    let (documents, rest) = artifact.layers.split_at(2.min(artifact.layers.len()));
    fetch(pull, documents, None, report).await?;
    let head = head(pull.store, documents, &place)?;
    artifact.check(&head.manifest, &head.layout).map_err(wrong)?;
    let recoded = head.layout.encoder != Layout::own_encoder();
    if recoded && !pull.recode {
        return Err(OciError::Encoder { place, theirs: head.layout.encoder });
    }
    let signatures = signatures(pull, &repository, &raw.descriptor.digest, report).await?;
    let contents = contents(pull, &artifact, &head, &signatures);
    let options = Options { level: head.layout.level, threads: pull.threads, ..Options::default() };
    let id = bundle_id_of(&contents, &options).map_err(|e| unwritable(e, &place))?;
    if !recoded && id != head.bundle_id {
        let problem = "the file that its layout.json describes has another layout.json".to_owned();
        return Err(wrong(ArtifactError::Broken(problem)));
    }
    fetch(pull, rest, Some("pull"), report).await?;
    report(EventKind::Phase { name: "pack".to_owned() });
    let progress = |done, total| {
        let (what, unit) = ("pack".to_owned(), "bytes".to_owned());
        report(EventKind::Progress { what, done, total: Some(total), unit });
    };
    let written = write_contents(pull.target, contents, &options, &progress).map_err(|e| unwritable(e, &place))?;
    let delta = head.layout.is_delta();
    Ok(Pulled { digest: raw.descriptor.digest, written, signatures: signatures.len(), delta, recoded })
}

/// Brings layers into the store.
async fn fetch(pull: &Pull<'_>, layers: &[Layer], what: Option<&str>, report: Report<'_>) -> Result<(), OciError> {
    let blobs: Vec<Descriptor> = layers.iter().map(descriptor).collect();
    let reported = |done: u64, total: Option<u64>| {
        if let Some(what) = what {
            report(EventKind::Progress { what: what.to_owned(), done, total, unit: "bytes".to_owned() });
        }
    };
    pull.registry.fetch_blobs(std::slice::from_ref(pull.from), &blobs, pull.store, &reported).await?;
    Ok(())
}

fn descriptor(layer: &Layer) -> Descriptor {
    Descriptor { media_type: MEMBER_LAYER.to_owned(), digest: layer.digest, size: layer.size }
}

/// Reads manifest.json and layout.json, which are untrusted.
fn head(store: &Store, documents: &[Layer], place: &str) -> Result<Head, OciError> {
    let [manifest_at, layout_at] = documents else {
        let source = ArtifactError::Broken("manifest.json or layout.json is missing in it".to_owned());
        return Err(OciError::Artifact { place: place.to_owned(), source });
    };
    let manifest_json = store.read(&manifest_at.digest, DOCUMENT_LIMIT)?;
    let layout_json = store.read(&layout_at.digest, DOCUMENT_LIMIT)?;
    let manifest: Manifest = document(members::MANIFEST, &manifest_json, place)?;
    let layout: Layout = document(members::LAYOUT, &layout_json, place)?;
    let canonical = manifest.canonical_json().ok().as_ref() == Some(&manifest_json);
    if !canonical {
        let source = ArtifactError::Broken("its manifest.json is not canonical JSON".to_owned());
        return Err(OciError::Artifact { place: place.to_owned(), source });
    }
    let mut hasher = Hasher::default();
    hasher.update(&manifest_json);
    hasher.update(&layout_json);
    Ok(Head { manifest, layout, bundle_id: hasher.finish() })
}

/// A document of the head, checked against the digest in the artifact's manifest.
fn document<T: DeserializeOwned>(name: &str, json: &[u8], place: &str) -> Result<T, OciError> {
    read_document(json).map_err(|e| match e.is_newer() {
        true => ArchiveError::Newer { path: PathBuf::from(place), what: format!("{name}: {e}") }.into(),
        false => {
            let source = ArtifactError::Broken(format!("its {name} {e}"));
            OciError::Artifact { place: place.to_owned(), source }
        }
    })
}

/// The signatures that refer to the bundle. Those of several pushes add up; what is no signature room is passed over, for
/// everyone with push access may add to the list.
async fn signatures(
    pull: &Pull<'_>,
    repository: &Repository,
    subject: &Digest,
    report: Report<'_>,
) -> Result<Vec<Signature>, OciError> {
    let referrers = repository.referrers(subject, SIGNATURE_TYPE).await?;
    let warn = |text| report(EventKind::Warning { text });
    let mut listed = Vec::new();
    for page in &referrers.pages {
        match referrer::listed(page, SIGNATURE_TYPE) {
            Ok(more) => listed.extend(more),
            Err(error) => warn(format!("{error}; signatures in it are left out")),
        }
    }
    let (chosen, left_out) = referrer::looked_at(listed, referrers.ordered);
    if left_out > 0 {
        let which = if referrers.ordered { "the newest" } else { "always the same" };
        warn(format!("{left_out} listed signatures are left out: {which} {} are taken", referrer::LOOKS));
    }
    if !referrers.whole {
        warn("the registry lists more than are read; signatures beyond that are left out".to_owned());
    }
    let mut rooms = Vec::new();
    for digest in chosen {
        match room(pull, repository, subject, &digest).await {
            Ok(room) => rooms.push(room),
            Err(OciError::Artifact { source, .. }) => {
                warn(format!("{digest} is listed as a signature and is not one ({source}); it is left out"));
            }
            Err(error) => return Err(error),
        }
    }
    let twice = of_one_key(&rooms);
    if twice > 0 {
        warn(format!(
            "{twice} signatures are of a key that signed again, or somebody made them up: the one that is listed last is taken, unchecked; if \
             it does not hold, use NAME.sig of whoever built the bundle"
        ));
    }
    Ok(together(rooms))
}

/// How many signatures are of a key of which there is another one.
fn of_one_key(rooms: &[Vec<Signature>]) -> usize {
    let all: HashSet<(&str, &str)> =
        rooms.iter().flatten().map(|one| (one.key_id.as_str(), one.sig.as_str())).collect();
    let keys: HashSet<&str> = all.iter().map(|(key, _)| *key).collect();
    all.len() - keys.len()
}

/// The room that was listed last, as it is; then signatures by keys that only the others have, as far as they fit. Whoever
/// signs again with the same key replaces what he signed before.
fn together(rooms: Vec<Vec<Signature>>) -> Vec<Signature> {
    let mut all: Vec<Signature> = Vec::new();
    for signature in rooms.into_iter().rev().flatten() {
        if all.iter().any(|known| known.key_id == signature.key_id) {
            continue;
        }
        all.push(signature);
        if signature_slot::encode(&all).is_err() {
            all.pop();
        }
    }
    all
}

async fn room(
    pull: &Pull<'_>,
    repository: &Repository,
    subject: &Digest,
    digest: &Digest,
) -> Result<Vec<Signature>, OciError> {
    let wrong = |source| OciError::Artifact { place: format!("{}@{digest}", repository.place()), source };
    let broken = |problem: String| wrong(ArtifactError::Broken(problem));
    let raw = repository.manifest(&digest.to_string()).await?;
    let raw = raw.ok_or_else(|| broken("it is not there".to_owned()))?;
    let layer = referrer::parse(&raw.bytes, SIGNATURE_TYPE, subject).map_err(wrong)?;
    if layer.size != SIGNATURE_ROOM as u64 {
        return Err(broken(format!("it has {} bytes, not {SIGNATURE_ROOM}", layer.size)));
    }
    fetch(pull, std::slice::from_ref(&layer), None, &|_| {}).await?;
    signature_slot::decode(&pull.store.read(&layer.digest, layer.size)?).map_err(broken)
}

/// What the file is made of, with the encodings of its layout.json.
fn contents<'a>(pull: &Pull<'_>, artifact: &Artifact, head: &'a Head, signatures: &'a [Signature]) -> Contents<'a> {
    let mut listed = head.manifest.members.iter();
    let mut inputs = Vec::with_capacity(head.layout.members.len());
    for stored in &head.layout.members {
        let Some(member) = listed.find(|member| member.name == stored.name) else { continue };
        let (path, encoding) = (pull.store.path(&member.sha256), stored.encoding);
        let open = move || Ok(Box::new(std::fs::File::open(&path)?) as Box<dyn Read + Send>);
        let (name, size, sha256) = (member.name.clone(), member.size, member.sha256);
        inputs.push(Input { name, size, sha256, encoding, open: Box::new(open) });
    }
    let delta = Delta { base: head.layout.base, left_out: head.layout.left_out.clone() };
    let sources = artifact.layers.last().filter(|last| last.name == members::SOURCES).map(|last| {
        let path = pull.store.path(&last.digest);
        let open = move || Ok(Box::new(std::fs::File::open(&path)?) as Box<dyn Read + Send>);
        let (name, size, sha256) = (last.name.clone(), last.size, last.digest);
        Input { name, size, sha256, encoding: Encoding::Raw, open: Box::new(open) }
    });
    let groups = head.layout.groups.clone();
    Contents { manifest: &head.manifest, inputs, delta, signatures, groups, sources }
}

/// The registry's content contradicts itself; this program is not at fault.
fn unwritable(error: ArchiveError, place: &str) -> OciError {
    match error {
        ArchiveError::Unwritable { problem } => {
            OciError::Artifact { place: place.to_owned(), source: ArtifactError::Broken(problem) }
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(key: &str, sig: &str) -> Signature {
        Signature { key_id: key.to_owned(), alg: "ed25519".to_owned(), sig: sig.to_owned(), statement: None }
    }

    #[test]
    fn the_newest_signatures_are_kept_and_older_ones_add_only_missing_keys() {
        let [a, again, b, c] = [("a", "1"), ("a", "2"), ("b", "1"), ("c", "1")].map(|(key, sig)| signature(key, sig));
        let rooms = vec![vec![a.clone()], vec![c.clone()], vec![again.clone(), b.clone()]];
        assert_eq!(of_one_key(&rooms), 1);
        assert_eq!(together(rooms), [again, b, c]);
        assert_eq!(together(vec![vec![a.clone()], vec![]]), [a]);
    }

    #[test]
    fn a_document_of_millions_of_values_is_refused_before_it_is_read() {
        let json = format!("{{\"format\":1,\"x\":[{}]}}", vec!["\"\""; 1_000_001].join(","));
        let error = document::<serde_json::Value>(members::MANIFEST, json.as_bytes(), "registry").unwrap_err();
        assert!(error.to_string().contains("million values"), "{error}");
    }

    #[test]
    fn signatures_that_do_not_fit_into_the_slot_are_left_out() {
        let large = |key: &str| signature(key, &"x".repeat(SIGNATURE_ROOM / 2));
        let all = together(vec![vec![large("a")], vec![large("b")]]);
        assert_eq!(all.iter().map(|s| s.key_id.as_str()).collect::<Vec<_>>(), ["b"]);
    }
}
