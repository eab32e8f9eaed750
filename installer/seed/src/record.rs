//! What this machine remembers of a registry: uploads that are open, and what was seeded from which bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use kubexm_spec::Digest;
use kubexm_transport::oci::{OpenUpload, OpenUploads};
use serde::{Deserialize, Serialize};

use crate::error::SeedError;
use crate::plan::SeedPlan;
use crate::target::Target;

const SCHEMA: &str = "kubexm.io/seeded/v1";
/// Open uploads that are remembered at most: a registry drops those that nobody resumes.
const UPLOADS: usize = 256;

/// The folder of one registry and prefix.
#[derive(Clone, Debug)]
pub struct RecordFolder(PathBuf);

/// What was seeded from one bundle: what a later `registry prune` may keep or take away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// Always `kubexm.io/seeded/v1`.
    pub schema: String,
    /// Registry and prefix.
    pub target: String,
    /// `metadata.name` of the bundle's cluster.
    pub name: String,
    /// Digest of its manifest.json.
    pub bundle: Digest,
    /// By the name of the repository.
    pub repositories: BTreeMap<String, RecordedRepository>,
}

/// What one repository got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedRepository {
    pub tags: BTreeMap<String, Digest>,
    pub manifests: BTreeSet<Digest>,
    pub blobs: BTreeSet<Digest>,
}

impl RecordFolder {
    /// The folder of a registry below a folder that belongs to this user.
    pub fn below(folder: &Path, target: &Target) -> Self {
        // `:` and `/` are in no part of a name, and `=` is neither.
        Self(folder.join(target.to_string().replace(':', "=").replace('/', "==")))
    }

    /// What was seeded there, by bundle. What cannot be read is an error: it decides about what is kept.
    pub fn records(&self) -> Result<Vec<Record>, SeedError> {
        let entries = match std::fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(disk("list", &self.0))?,
        };
        let mut records = Vec::new();
        for entry in entries {
            let path = entry.map_err(disk("list", &self.0))?.path();
            if path.extension().is_some_and(|end| end == "json")
                && path.file_stem().is_some_and(|stem| stem != "uploads")
            {
                let bytes = std::fs::read(&path).map_err(disk("read", &path))?;
                let read: Result<Record, _> = serde_json::from_slice(&bytes);
                records.push(read.map_err(|error| disk("read", &path)(io::Error::other(error)))?);
            }
        }
        Ok(records)
    }

    /// Keeps what a bundle has there.
    pub(crate) fn keep(&self, bundle: Digest, name: &str, plan: &SeedPlan) -> Result<(), SeedError> {
        let mut repositories = BTreeMap::new();
        for (repository, planned) in &plan.repositories {
            let recorded = RecordedRepository {
                tags: planned.tags.iter().map(|(tag, (digest, _))| (tag.clone(), *digest)).collect(),
                manifests: planned.documents.iter().map(|one| one.document.digest).collect(),
                blobs: planned.documents.iter().flat_map(|one| one.blobs.keys().copied()).collect(),
            };
            repositories.insert(repository.clone(), recorded);
        }
        let (schema, target) = (SCHEMA.to_owned(), plan.naming.target.to_string());
        let record = Record { schema, target, name: name.to_owned(), bundle, repositories };
        let path = self.0.join(format!("{}.json", bundle.hex()));
        let bytes = serde_json::to_vec_pretty(&record).map_err(|error| SeedError::Internal(error.to_string()))?;
        write(&path, &bytes, true).map_err(disk("write", &path))
    }

    /// The uploads that an earlier program left open.
    pub(crate) fn uploads(&self) -> Uploads {
        let path = self.0.join("uploads.json");
        let read = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Uploads { path, open: Mutex::new(read.unwrap_or_default()) }
    }
}

/// Open uploads, in a file that only this user reads: their addresses may let anybody write.
pub struct Uploads {
    path: PathBuf,
    open: Mutex<BTreeMap<String, Noted>>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Noted {
    url: String,
    offset: u64,
}

impl Uploads {
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Noted>) -> bool) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !change(&mut open) {
            return;
        }
        // What is lost of it costs bytes that are sent again, and nothing else: not worth a failure, nor an fsync.
        let written =
            serde_json::to_vec(&*open).map_err(io::Error::other).and_then(|bytes| write(&self.path, &bytes, false));
        if let Err(error) = written {
            tracing::debug!(%error, "open uploads are not remembered");
        }
    }
}

impl OpenUploads for Uploads {
    fn known(&self, place: &str, digest: &Digest) -> Option<OpenUpload> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Noted { url, offset } = open.get(&key(place, digest))?.clone();
        Some(OpenUpload { url, offset })
    }

    fn note(&self, place: &str, digest: &Digest, upload: OpenUpload) {
        let OpenUpload { url, offset } = upload;
        self.change(|open| {
            if open.len() >= UPLOADS {
                open.clear();
            }
            open.insert(key(place, digest), Noted { url, offset });
            true
        });
    }

    fn forget(&self, place: &str, digest: &Digest) {
        self.change(|open| open.remove(&key(place, digest)).is_some());
    }
}

fn key(place: &str, digest: &Digest) -> String {
    format!("{place}@{digest}")
}

fn write(path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut file = tempfile::Builder::new().prefix(".kubexm-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    if durable {
        file.as_file().sync_all()?;
    }
    file.persist(path).map_err(|failed| failed.error)?;
    if durable { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn disk(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SeedError {
    move |source| SeedError::Disk { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_open_upload_is_remembered_by_the_next_program_and_for_this_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let here = RecordFolder::below(folder.path(), &"r.test:5000/a/b".parse().unwrap());
        let digest = Digest::of("x");
        let upload = OpenUpload { url: "https://r.test:5000/u?_state=1".to_owned(), offset: 7 };
        here.uploads().note("r.test:5000/a", &digest, upload.clone());
        assert_eq!(here.uploads().known("r.test:5000/a", &digest), Some(upload));
        assert_eq!(here.uploads().known("r.test:5000/b", &digest), None);
        let file = here.0.join("uploads.json");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        here.uploads().forget("r.test:5000/a", &digest);
        assert_eq!(here.uploads().known("r.test:5000/a", &digest), None);
        std::fs::write(&file, "{").unwrap();
        assert_eq!(here.uploads().known("r.test:5000/a", &digest), None, "a torn file is none");
    }
}
