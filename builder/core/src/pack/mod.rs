//! Lock → bundle: the members of the archive, in the order of the format.

mod encoding;
mod index;
mod members;

pub(crate) use encoding::{declared as encodings, of_file as encoding_of_file};
pub(crate) use index::{attached_name, is_of_file, ref_name};

use std::path::Path;

use kubexm_archive::{ArchiveError, Contents, Delta, Group, Options, Written};
use kubexm_manifests::{Catalogue, Requirements};
use kubexm_spec::lock::Content as Locked;
use kubexm_spec::manifest::{Artifact, Blob, ClusterSummary, FORMAT, Manifest};
use kubexm_spec::{Digest, Lock};
use kubexm_transport::Store;

use crate::BuildError;
use crate::arrivals::Arrivals;
use crate::base::Base;
use crate::origins::in_place::InPlace;
use crate::packages;
use crate::sources::Planned;

/// What goes into the bundle beside the artifacts.
pub struct Inputs<'a> {
    /// The bytes of the cluster.yaml that was resolved, without secrets.
    pub cluster_yaml: &'a str,
    /// The part of the effective catalogue that was used.
    pub catalogue: &'a Catalogue,
    /// What the cluster needs.
    pub requirements: &'a Requirements,
    /// `kubexm-bundle 0.1.0`.
    pub tool: &'a str,
}

/// A bundle before its bytes are written: blobs may still be being fetched into the store.
pub struct Packing {
    manifest: Manifest,
    sources: Vec<members::Source>,
    delta: Delta,
    groups: Vec<Group>,
    places: Option<Planned>,
}

/// What the bundle of a lock is. Same content, same manifest: nothing in it knows a time, a host, a zone, or which mirror answered;
/// that is in `places`, which may be left out.
pub fn plan(
    lock: &Lock,
    inputs: &Inputs<'_>,
    base: Option<&Base>,
    places: Option<Planned>,
    level: i32,
) -> Result<Packing, BuildError> {
    let lock_yaml = lock_yaml(lock)?;
    let catalogue = inputs.catalogue.to_json()?;
    let index = index::build(lock)?;
    let texts: Vec<(&str, Vec<u8>)> = vec![
        ("lock.yaml", lock_yaml.clone().into_bytes()),
        ("cluster.yaml", inputs.cluster_yaml.as_bytes().to_vec()),
        ("catalogue.json", catalogue),
        ("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
        ("index.json", index.json),
    ];
    let members = members::build(lock, inputs.requirements, texts, index.blobs);
    let manifest = Manifest {
        format: FORMAT,
        name: lock.name.clone(),
        cluster: summary(inputs.requirements),
        platforms: platforms(lock),
        zone: None,
        tool: inputs.tool.to_owned(),
        lock: Digest::of(&lock_yaml),
        artifacts: artifacts(lock),
        members: members.iter().map(members::Source::member).collect(),
    };
    let together = manifest.members.iter().zip(members.iter().map(members::Source::is_together));
    let groups = Group::of(together, level.max(Group::DEFAULT_LEVEL));
    let (left_out, sources): (Vec<_>, Vec<_>) = members
        .into_iter()
        .partition(|source| source.blob().is_some_and(|blob| base.is_some_and(|base| base.has(&blob))));
    let delta = Delta {
        base: base.and_then(|base| base.manifest),
        left_out: left_out.iter().map(members::Source::stored_member).collect(),
    };
    Ok(Packing { manifest, sources, delta, groups, places })
}

/// What a full bundle of a lock is about, as far as the lock knows it: artifacts and blobs, without the texts before them.
pub fn outline(lock: &Lock) -> Result<Manifest, BuildError> {
    let nothing = Requirements { name: lock.name.clone(), versions: None, items: Vec::new(), packages: Vec::new() };
    let members = members::build(lock, &nothing, Vec::new(), index::build(lock)?.blobs);
    Ok(Manifest {
        format: FORMAT,
        name: lock.name.clone(),
        cluster: None,
        platforms: platforms(lock),
        zone: None,
        tool: String::new(),
        lock: Digest::of(lock_yaml(lock)?),
        artifacts: artifacts(lock),
        members: members.iter().map(members::Source::member).collect(),
    })
}

/// Where blobs are.
#[derive(Clone, Copy)]
pub struct Content<'a> {
    /// The cache.
    pub store: &'a Store,
    /// Files that lie elsewhere on this machine.
    pub in_place: &'a InPlace,
}

/// Writes the bundle, blob after blob as they arrive. `progress` gets bytes done and in all.
pub fn pack(
    packing: Packing,
    Content { store, in_place }: Content<'_>,
    arrivals: &Arrivals,
    target: &Path,
    options: &Options,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Written, BuildError> {
    let Packing { manifest, sources, delta, groups, places } = packing;
    let inputs = sources.into_iter().map(|source| source.input(store, in_place, arrivals)).collect();
    let contents = Contents {
        manifest: &manifest,
        inputs,
        delta,
        signatures: &[],
        groups,
        sources: places.map(|planned| planned.input(store)),
    };
    kubexm_archive::write_contents(target, contents, options, progress).map_err(|e| explain(store, in_place, e))
}

/// A blob of the cache that is not what its name says is taken away, so that the same build run again gets it anew. A file that
/// lies elsewhere is the user's: it was changed.
fn explain(store: &Store, in_place: &InPlace, error: ArchiveError) -> BuildError {
    let ArchiveError::InputMismatch { name, .. } = &error else { return error.into() };
    let digest = name.strip_prefix("blobs/sha256/").and_then(|hex| Digest::from_hex(hex).ok());
    if let Some((expected, path)) = digest.and_then(|digest| Some((digest, in_place.path(&digest)?))) {
        return BuildError::LocalChanged { path, expected };
    }
    match digest.map(|digest| (digest, store.verify(&digest))) {
        Some((digest, Ok(false))) => BuildError::Cache {
            path: store.path(&digest),
            problem: "the cached blob was damaged and has been removed; run the same build again to fetch it again"
                .to_owned(),
        },
        _ => error.into(),
    }
}

/// The text of lock.yaml: the lock without its zone and the places of mirrors. The own addresses of packages stay, which nothing
/// else knows.
pub fn lock_yaml(lock: &Lock) -> Result<String, BuildError> {
    let mut carried = lock.without_places();
    for (item, locked) in carried.items.iter_mut().zip(&lock.items) {
        item.sources.extend(packages::own(locked));
    }
    serde_saphyr::to_string(&carried).map_err(|e| BuildError::Encode { what: "lock.yaml", reason: e.to_string() })
}

fn summary(requirements: &Requirements) -> Option<ClusterSummary> {
    requirements.versions.as_ref().map(|versions| ClusterSummary {
        kubernetes: versions.kubernetes.to_string(),
        runtime: versions.runtime.clone(),
        network: versions.network.clone(),
    })
}

fn platforms(lock: &Lock) -> Vec<kubexm_spec::Platform> {
    let mut all: Vec<_> = lock.items.iter().filter_map(|item| item.platform).collect();
    all.sort();
    all.dedup();
    all
}

fn artifacts(lock: &Lock) -> Vec<Artifact> {
    lock.items
        .iter()
        .map(|item| {
            let (name, digest, manifest) = match &item.content {
                Locked::File { file_name, digest, .. } => (file_name.clone(), *digest, None),
                Locked::Image { reference, target, manifest, .. } => {
                    (reference.clone(), target.digest, Some(manifest.digest))
                }
            };
            Artifact {
                key: item.key.clone(),
                version: item.version.clone(),
                platform: item.platform,
                name,
                digest,
                manifest,
                blobs: item.blobs().into_iter().map(|(digest, size)| Blob { digest, size }).collect(),
                trust: item.trust,
                sources: None,
            }
        })
        .collect()
}
