//! An image from a local OCI image layout (image-spec 1.1, image-layout.md): `from: oci:DIR`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use kubexm_spec::lock::Descriptor;
use kubexm_spec::{Digest, Platform, names};
use serde::Deserialize;

use crate::oci::{FOLDER_PLACE, ResolvedImage, image, resolve};
use crate::{Store, TransportError};

/// A folder with `oci-layout`, `index.json` and `blobs/`.
#[derive(Clone, Debug)]
pub struct Layout {
    dir: PathBuf,
    entries: Vec<LayoutEntry>,
}

#[derive(Clone, Debug)]
struct LayoutEntry {
    name: Option<String>,
    descriptor: Descriptor,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    media_type: String,
    digest: Digest,
    size: u64,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    image_layout_version: String,
}

impl Layout {
    /// Opens a layout and reads its index.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, TransportError> {
        let dir = dir.into();
        let wrong = |problem: String| TransportError::Image { reference: format!("oci:{}", dir.display()), problem };
        let version: Version = serde_json::from_slice(&small(&dir.join("oci-layout"), image::MANIFEST_LIMIT)?)
            .map_err(|e| wrong(format!("its oci-layout file cannot be read: {e}")))?;
        if !version.image_layout_version.starts_with("1.") {
            return Err(wrong(format!("its layout version {} is not known", version.image_layout_version)));
        }
        let index: Index = serde_json::from_slice(&small(&dir.join("index.json"), image::MANIFEST_LIMIT)?)
            .map_err(|e| wrong(format!("its index.json cannot be read: {e}")))?;
        let entries = index.manifests.into_iter().map(|mut entry| LayoutEntry {
            name: entry.annotations.remove(names::REF_NAME),
            descriptor: Descriptor { media_type: entry.media_type, digest: entry.digest, size: entry.size },
        });
        let entries = entries.collect();
        Ok(Self { dir, entries })
    }

    /// The names in it (`org.opencontainers.image.ref.name`).
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| entry.name.as_deref())
    }

    /// The image of a name, or the only one when no name is given; read and checked as from a registry.
    pub async fn resolve(
        &self,
        name: Option<&str>,
        want: Option<Digest>,
        platform: Platform,
    ) -> Result<ResolvedImage, TransportError> {
        let fitting: Vec<_> =
            self.entries.iter().filter(|entry| name.is_none() || entry.name.as_deref() == name).collect();
        let mut reference = format!("oci:{}", self.dir.display());
        if let Some(name) = name {
            reference = format!("{reference}:{name}");
        }
        let [entry] = fitting[..] else {
            let names: Vec<&str> = self.names().collect();
            let problem = format!("{} images fit; it holds: {}", fitting.len(), names.join(", "));
            return Err(match fitting.len() {
                0 => TransportError::Missing { origin: reference, reason: problem },
                _ => TransportError::Image { reference, problem: format!("{problem}; name one of them") },
            });
        };
        let folder = Folder { layout: self, reference };
        let bytes = self.read(&entry.descriptor.digest, image::MANIFEST_LIMIT)?;
        resolve::resolve(&folder, bytes, Some(want.unwrap_or(entry.descriptor.digest)), platform).await
    }

    /// The file of a blob, which can be opened and has the size of the blob in bytes; its content is not read.
    pub fn file_of(&self, blob: &Descriptor) -> Result<PathBuf, TransportError> {
        let path = self.path(&blob.digest);
        let file = File::open(&path).map_err(|e| unreadable(&path, e))?;
        let found = file.metadata().map_err(|e| unreadable(&path, e))?.len();
        if found != blob.size {
            let origin = path.display().to_string();
            return Err(TransportError::WrongSize { origin, expected: blob.size, found });
        }
        Ok(path)
    }

    /// Copies blobs into the store, hashing them on the way; those that are there are not copied again.
    pub fn fetch_blobs(&self, blobs: &[Descriptor], store: &Store) -> Result<(), TransportError> {
        for blob in blobs {
            if store.holds(&blob.digest, blob.size)? {
                continue;
            }
            let path = self.file_of(blob)?;
            let file = File::open(&path).map_err(|e| unreadable(&path, e))?;
            store.insert(file, Some(blob.digest)).map_err(|error| match error {
                TransportError::Mismatch { expected, found, .. } => {
                    TransportError::Mismatch { origin: path.display().to_string(), expected, found }
                }
                other => other,
            })?;
        }
        Ok(())
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.dir.join("blobs/sha256").join(digest.hex())
    }

    fn read(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>, TransportError> {
        small(&self.path(digest), limit)
    }
}

/// One image of a layout.
struct Folder<'a> {
    layout: &'a Layout,
    reference: String,
}

#[async_trait]
impl resolve::Content for Folder<'_> {
    fn reference(&self) -> String {
        self.reference.clone()
    }

    fn place(&self) -> String {
        format!("{FOLDER_PLACE}{}", self.layout.dir.display())
    }

    async fn manifest(&self, descriptor: &Descriptor) -> Result<Vec<u8>, TransportError> {
        self.layout.read(&descriptor.digest, image::MANIFEST_LIMIT)
    }

    async fn config(&self, descriptor: &Descriptor) -> Result<Vec<u8>, TransportError> {
        self.layout.read(&descriptor.digest, image::CONFIG_LIMIT)
    }
}

/// A small file; `limit` is in bytes.
fn small(path: &Path, limit: u64) -> Result<Vec<u8>, TransportError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|e| unreadable(path, e))?;
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| unreadable(path, e))?;
    if bytes.len() as u64 > limit {
        let found = format!("more than the {limit} bytes such a file may have");
        return Err(TransportError::NotTheFile { origin: path.display().to_string(), found });
    }
    Ok(bytes)
}

fn unreadable(path: &Path, error: io::Error) -> TransportError {
    match error.kind() {
        io::ErrorKind::NotFound => {
            TransportError::Missing { origin: path.display().to_string(), reason: "no such file".to_owned() }
        }
        _ => TransportError::disk("read", path, None, error),
    }
}
