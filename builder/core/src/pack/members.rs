//! The members of the archive in order: texts, then blobs: metadata first, then by stage, then by digest. Programs are together where
//! the first of them is needed, by platform, name and version: they are compressed together, and those that share most of their bytes
//! are neighbours.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;

use kubexm_archive::{Encoding, Input, StoredMember};
use kubexm_manifests::{PACKAGE_STAGE, Requirements};
use kubexm_spec::lock::Content;
use kubexm_spec::manifest::Member;
use kubexm_spec::{ArtifactKey, Digest, Lock, Platform};
use kubexm_transport::Store;

use super::encoding;
use crate::arrivals::Arrivals;
use crate::origins::in_place::InPlace;

/// Bytes from which on a file may be a program: a smaller one is read alone, and not after all of a group.
const PROGRAM: u64 = 1 << 20;

/// One member and where its bytes are.
pub struct Source {
    name: String,
    size: u64,
    sha256: Digest,
    bytes: Bytes,
    /// Whether it is compressed together with its neighbours.
    together: bool,
}

enum Bytes {
    Memory(Vec<u8>),
    Store(Encoding),
}

impl Source {
    fn memory(name: &str, bytes: Vec<u8>) -> Self {
        Self {
            name: name.to_owned(),
            size: bytes.len() as u64,
            sha256: Digest::of(&bytes),
            bytes: Bytes::Memory(bytes),
            together: false,
        }
    }

    fn stored(digest: Digest, size: u64, encodings: &HashMap<Digest, Encoding>) -> Self {
        let encoding = encodings.get(&digest).copied().unwrap_or(Encoding::Zstd);
        Self { name: blob_name(&digest), size, sha256: digest, bytes: Bytes::Store(encoding), together: false }
    }

    /// Whether it is compressed together with its neighbours.
    pub const fn is_together(&self) -> bool {
        self.together
    }

    /// How the manifest names it.
    pub fn member(&self) -> Member {
        Member { name: self.name.clone(), size: self.size, sha256: self.sha256 }
    }

    /// How the archive stores it, here or in the full bundle of a delta.
    pub fn stored_member(&self) -> StoredMember {
        let encoding = match &self.bytes {
            Bytes::Store(encoding) => *encoding,
            // Texts, and JSON that was made here.
            Bytes::Memory(_) => Encoding::Zstd,
        };
        StoredMember { name: self.name.clone(), encoding }
    }

    /// The digest, where it is a blob.
    pub fn blob(&self) -> Option<Digest> {
        self.name.starts_with(kubexm_archive::members::BLOBS).then_some(self.sha256)
    }

    /// What the archive writer takes: a blob is waited for, whether it comes into the store or lies elsewhere on this machine.
    pub fn input<'a>(self, store: &Store, in_place: &InPlace, arrivals: &'a Arrivals) -> Input<'a> {
        let encoding = self.stored_member().encoding;
        let Self { name, size, sha256, bytes, .. } = self;
        let open: kubexm_archive::Open<'a> = match bytes {
            Bytes::Memory(bytes) => {
                Box::new(move || Ok(Box::new(std::io::Cursor::new(bytes.clone())) as Box<dyn Read + Send>))
            }
            Bytes::Store(_) => {
                let path = in_place.path(&sha256).unwrap_or_else(|| store.path(&sha256));
                Box::new(move || {
                    arrivals.wait(&sha256)?;
                    Ok(Box::new(std::fs::File::open(&path)?) as Box<dyn Read + Send>)
                })
            }
        };
        Input { name, size, sha256, encoding, open }
    }
}

/// Of what only the lock knows.
fn stage_of(key: &ArtifactKey) -> u8 {
    if matches!(key, ArtifactKey::Package { .. }) { PACKAGE_STAGE } else { u8::MAX }
}

fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Every member after `layout.json`.
pub fn build(
    lock: &Lock,
    requirements: &Requirements,
    texts: Vec<(&str, Vec<u8>)>,
    made: BTreeMap<Digest, Vec<u8>>,
) -> Vec<Source> {
    let encodings = encoding::declared(lock);
    let mut all: Vec<Source> = texts.into_iter().map(|(name, bytes)| Source::memory(name, bytes)).collect();
    let mut metadata: BTreeMap<Digest, Source> =
        made.into_iter().map(|(digest, bytes)| (digest, Source::memory(&blob_name(&digest), bytes))).collect();
    for item in &lock.items {
        if let Content::Image { target, manifest, .. } = &item.content {
            for descriptor in [target, manifest] {
                metadata
                    .entry(descriptor.digest)
                    .or_insert_with(|| Source::stored(descriptor.digest, descriptor.size, &encodings));
            }
        }
    }
    // A blob that several artifacts share goes where the first of them needs it.
    let mut stages: BTreeMap<Digest, (u8, u64)> = BTreeMap::new();
    for item in &lock.items {
        let stage = requirements
            .items
            .iter()
            .find(|r| r.key == item.key && r.platform == item.platform)
            .map_or_else(|| stage_of(&item.key), |r| r.stage);
        for (digest, size) in item.blobs().into_iter().filter(|(digest, _)| !metadata.contains_key(digest)) {
            let entry = stages.entry(digest).or_insert((stage, size));
            entry.0 = entry.0.min(stage);
        }
    }
    let programs = programs(lock, &encodings);
    let first = stages.iter().filter(|(digest, _)| programs.contains_key(*digest)).map(|(_, (stage, _))| *stage).min();
    let ordered: BTreeSet<(u8, Option<&Program<'_>>, Digest, u64)> = stages
        .into_iter()
        .map(|(digest, (stage, size))| match programs.get(&digest) {
            Some(program) => (first.unwrap_or(stage), Some(program), digest, size),
            None => (stage, None, digest, size),
        })
        .collect();
    all.extend(metadata.into_values());
    all.extend(ordered.into_iter().map(|(_, program, digest, size)| Source {
        together: program.is_some(),
        ..Source::stored(digest, size, &encodings)
    }));
    all
}

/// What orders programs.
type Program<'l> = (Option<Platform>, Cow<'l, str>, &'l str);

/// Files that may be programs by name and size: nothing else is known of them, as layout.json is written before they are here.
fn programs<'l>(lock: &'l Lock, encodings: &HashMap<Digest, Encoding>) -> HashMap<Digest, Program<'l>> {
    let mut all = HashMap::new();
    for item in &lock.items {
        if let Content::File { digest, size, file_name } = &item.content
            && *size >= PROGRAM
            && encoding::may_be_program(file_name)
            && encodings.get(digest) == Some(&Encoding::Zstd)
        {
            all.entry(*digest).or_insert_with(|| (item.platform, item.key.name(), item.version.as_str()));
        }
    }
    all
}
