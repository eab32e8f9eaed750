//! The members of the archive in order: texts, then blobs: metadata first, then by stage, then by digest.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use kubexm_archive::{Encoding, Input};
use kubexm_manifests::Requirements;
use kubexm_spec::lock::Content;
use kubexm_spec::manifest::Member;
use kubexm_spec::{Digest, Lock};
use kubexm_transport::Store;

use crate::BuildError;

/// How many first bytes tell whether data is compressed already.
const HEAD: u64 = 64;

/// One member and where its bytes are.
pub struct Source {
    name: String,
    size: u64,
    sha256: Digest,
    bytes: Bytes,
}

enum Bytes {
    Memory(Vec<u8>),
    Store(Store),
}

impl Source {
    fn memory(name: &str, bytes: Vec<u8>) -> Self {
        Self {
            name: name.to_owned(),
            size: bytes.len() as u64,
            sha256: Digest::of(&bytes),
            bytes: Bytes::Memory(bytes),
        }
    }

    fn stored(digest: Digest, size: u64, store: &Store) -> Self {
        Self { name: blob_name(&digest), size, sha256: digest, bytes: Bytes::Store(store.clone()) }
    }

    /// How the manifest names it.
    pub fn member(&self) -> Member {
        Member { name: self.name.clone(), size: self.size, sha256: self.sha256 }
    }

    /// What the archive writer takes.
    pub fn input(self) -> Result<Input<'static>, BuildError> {
        let Self { name, size, sha256, bytes } = self;
        match bytes {
            Bytes::Memory(bytes) => {
                let encoding =
                    if name.starts_with("blobs/") { kubexm_archive::encoding_for(&bytes) } else { Encoding::Zstd };
                let open = move || Ok(Box::new(std::io::Cursor::new(bytes.clone())) as Box<dyn Read + Send>);
                Ok(Input { name, size, sha256, encoding, open: Box::new(open) })
            }
            Bytes::Store(store) => {
                let path = store.path(&sha256);
                let local = |e: std::io::Error| BuildError::Cache {
                    path: path.clone(),
                    problem: format!("the cached blob cannot be read: {e}; run the same build again to fetch it anew"),
                };
                let mut head = Vec::new();
                std::fs::File::open(&path).and_then(|file| file.take(HEAD).read_to_end(&mut head)).map_err(local)?;
                let encoding = kubexm_archive::encoding_for(&head);
                let open = move || Ok(Box::new(std::fs::File::open(&path)?) as Box<dyn Read + Send>);
                Ok(Input { name, size, sha256, encoding, open: Box::new(open) })
            }
        }
    }
}

fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Every member after `layout.json`.
pub fn build(
    lock: &Lock,
    requirements: &Requirements,
    store: &Store,
    texts: Vec<(&str, Vec<u8>)>,
    made: BTreeMap<Digest, Vec<u8>>,
) -> Result<Vec<Source>, BuildError> {
    let mut all: Vec<Source> = texts.into_iter().map(|(name, bytes)| Source::memory(name, bytes)).collect();
    let mut metadata: BTreeMap<Digest, Source> =
        made.into_iter().map(|(digest, bytes)| (digest, Source::memory(&blob_name(&digest), bytes))).collect();
    for item in &lock.items {
        if let Content::Image { target, manifest, .. } = &item.content {
            for descriptor in [target, manifest] {
                metadata
                    .entry(descriptor.digest)
                    .or_insert_with(|| Source::stored(descriptor.digest, descriptor.size, store));
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
            .map_or(u8::MAX, |r| r.stage);
        for (digest, size) in item.blobs().into_iter().filter(|(digest, _)| !metadata.contains_key(digest)) {
            let entry = stages.entry(digest).or_insert((stage, size));
            entry.0 = entry.0.min(stage);
        }
    }
    let ordered: BTreeSet<(u8, Digest, u64)> =
        stages.into_iter().map(|(digest, (stage, size))| (stage, digest, size)).collect();
    all.extend(metadata.into_values());
    all.extend(ordered.into_iter().map(|(_, digest, size)| Source::stored(digest, size, store)));
    Ok(all)
}
