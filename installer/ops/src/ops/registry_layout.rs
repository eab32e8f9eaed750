//! Blobs of the node's content store in the file-system layout of the distribution registry.
//!
//! `docker/registry/v2` below the root has `blobs/sha256/<2 hex>/<hex>/data`, and for each repository
//! `_layers/sha256/<hex>/link`, `_manifests/revisions/sha256/<hex>/link` and `_manifests/tags/<tag>/{current,
//! index/sha256/<hex>}/link`; a link is a file with a digest in it (distribution v3, registry/storage/paths.go). Nothing is
//! checked there when it is read, so an index of which only one platform was carried is served as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use kubexm_plan::op::{LayoutDifference, RegistryLayout};
use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

use crate::dirfd::DirFd;
use crate::fsio::{self, Access};
use crate::path_state::{self, Look, PathEntry, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave};

/// Permission bits of copied files.
pub(super) const MODE: u32 = 0o644;

/// The content of a file in the layout.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    /// The bytes of a blob.
    Blob(Digest),
    /// The text of a digest.
    Link(Digest),
}

/// Every file of the layout by its path on the machine.
fn files(op: &RegistryLayout) -> BTreeMap<String, Has> {
    let root = format!("{}/docker/registry/v2", op.data_dir);
    let mut files = BTreeMap::new();
    for (name, repository) in &op.repositories {
        let own = format!("{}/{name}", RegistryLayout::folder(&op.data_dir));
        for digest in repository.manifests.iter().chain(&repository.blobs) {
            let hex = digest.hex();
            files.insert(format!("{root}/blobs/sha256/{}/{hex}/data", &hex[..2]), Has::Blob(*digest));
        }
        for digest in &repository.blobs {
            files.insert(RegistryLayout::blob_link(&op.data_dir, name, digest), Has::Link(*digest));
        }
        for digest in &repository.manifests {
            files.insert(RegistryLayout::manifest_link(&op.data_dir, name, digest), Has::Link(*digest));
        }
        for (tag, digest) in &repository.tags {
            let tag = format!("{own}/_manifests/tags/{tag}");
            files.insert(format!("{tag}/current/link"), Has::Link(*digest));
            files.insert(format!("{tag}/index/sha256/{}/link", digest.hex()), Has::Link(*digest));
        }
    }
    files
}

impl Has {
    /// Whether an existing file has the right content. A blob is checked by its size: it got its name after its digest
    /// was computed over every byte, and clients that pull it verify it again.
    fn is(self, machine: &Machine, real: &Path) -> Result<bool, OpError> {
        match self {
            Self::Link(digest) => Ok(fsio::read(real)?.is_some_and(|bytes| bytes == digest.to_string().as_bytes())),
            Self::Blob(digest) => {
                let size = |path: &Path| path.metadata().map(|found| found.len());
                Ok(match (size(real), size(&machine.blob(&digest))) {
                    (Ok(found), Ok(wanted)) => found == wanted,
                    (Ok(_), Err(_)) => fsio::digest(real)? == digest,
                    (Err(_), _) => false,
                })
            }
        }
    }
}

impl Converge for RegistryLayout {
    fn observe(&self, machine: &Machine) -> Result<LayoutDifference, OpError> {
        let mut found = LayoutDifference { missing: BTreeSet::new(), changed: Vec::new() };
        for (path, has) in files(self) {
            let real = machine.path(&path);
            match fs::symlink_metadata(&real) {
                Ok(_) if has.is(machine, &real)? => {}
                Ok(_) => found.changed.push(PathState::look(machine, &path)?),
                Err(_) => {
                    found.missing.insert(topmost_missing(machine, &path));
                }
            }
        }
        Ok(found)
    }

    fn satisfied(&self, found: &LayoutDifference, _: &Machine) -> bool {
        found.missing.is_empty() && found.changed.is_empty()
    }

    fn overwrites(&self, machine: &Machine) -> Vec<String> {
        self.observe(machine)
            .map(|found| found.changed.into_iter().map(|place| place.path).collect())
            .unwrap_or_default()
    }

    /// Blobs before links, and tags last, so that everything that a link names exists.
    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let files = files(self);
        let last = |path: &&String| path.ends_with("/current/link");
        let mut order: Vec<&String> = files.keys().filter(|path| !last(path)).collect();
        order.sort_by_key(|path| matches!(files[*path], Has::Link(_)));
        order.extend(files.keys().filter(last));
        for path in order {
            let real = machine.path(path);
            if real.is_file() && files[path].is(machine, &real)? {
                continue;
            }
            path_state::replaceable(machine, path)?;
            match files[path] {
                Has::Blob(digest) => put_blob(machine, path, &digest)?,
                Has::Link(digest) => machine.write_file(path, digest.to_string().as_bytes(), Access::mode(MODE))?,
            }
        }
        Ok(())
    }

    fn restore(&self, machine: &Machine, before: &LayoutDifference, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Data {
            return Ok(());
        }
        before.changed.iter().try_for_each(|place| place.restore(machine))?;
        let ours = |path: &Path| path.ancestors().any(|at| before.missing.contains(at.to_string_lossy().as_ref()));
        for path in files(self).into_keys().filter(|path| ours(Path::new(path))) {
            fsio::remove(&machine.path(&path))?;
            for folder in Path::new(&path).ancestors().skip(1).take_while(|folder| ours(folder)) {
                // A folder that contains something else by now is kept.
                if !fsio::remove_folder(&machine.path(folder)).unwrap_or(false) {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The path itself, or its first parent that does not exist.
fn topmost_missing(machine: &Machine, path: &str) -> String {
    let missing = Path::new(path).ancestors().take_while(|at| fs::symlink_metadata(machine.path(at)).is_err());
    missing.last().unwrap_or(Path::new(path)).to_string_lossy().into_owned()
}

/// Adds a name for the blob: a hard link if possible, else a copy (with shared blocks if the file system supports
/// them).
fn put_blob(machine: &Machine, path: &str, digest: &Digest) -> Result<(), OpError> {
    let source = machine.blob(digest);
    let mut blob = File::open(&source).map_err(OpError::path("open the blob", &source))?;
    let real = machine.path(path);
    // A service of its own may own a folder on the way: what it makes of one later gets no name of a blob.
    let (folder, name) = DirFd::made_for(&real)?;
    let found = verified(&mut blob, &mut io::sink()).map_err(OpError::path("read the blob", &source))?;
    if found != *digest {
        // A blob with a wrong digest is removed, so that the next run sends it again.
        fsio::remove(&source)?;
        return Err(OpError::other(format!(
            "{} has the digest {found}, and was removed: run again, and it is sent once more",
            source.display()
        )));
    }
    if PathEntry::look(machine, path)? != PathEntry::Absent {
        fsio::remove(&real)?;
    }
    if folder.hard_link(&source, name).is_ok() {
        return folder.sync().and_then(|()| machine.relabel(path));
    }
    machine.place_file(path, Access::mode(MODE), |target| {
        if rustix::fs::ioctl_ficlone(&*target, &blob).is_ok() {
            return Ok(());
        }
        io::Seek::rewind(&mut blob)?;
        let written = verified(&mut blob, target)?;
        if written == *digest { Ok(()) } else { Err(io::Error::other(format!("its second reading gave other bytes, with the digest {written}: the disk is failing, or something writes to the store"))) }
    })
}

/// Copies, and returns the digest of the copied bytes.
fn verified(source: &mut impl Read, target: &mut impl Write) -> io::Result<Digest> {
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 1 << 17];
    loop {
        let count = source.read(&mut buffer)?;
        if count == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer[..count]);
        target.write_all(&buffer[..count])?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use kubexm_spec::Digest;
    use kubexm_spec::depot::Repository;

    impl Cases for RegistryLayout {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[
            ("a registry's layout beside a stranger's repository", |h| {
                let link = "/mnt/registry/docker/registry/v2/repositories/quay.io/a/_manifests/tags/1/current/link";
                h.put(link, format!("{}", Digest::of("an older one")));
                h.put("/mnt/registry/docker/registry/v2/repositories/quay.io/b/_layers/keep", "theirs");
                let [layer, index] = ["a layer", "an index"].map(|bytes| {
                    let digest = Digest::of(bytes);
                    h.put(&format!("/var/lib/kubexm/store/blobs/sha256/{}", digest.hex()), bytes);
                    digest
                });
                let repository = Repository {
                    tags: [("1".to_owned(), index)].into(),
                    manifests: [index].into(),
                    blobs: [layer].into(),
                };
                let repositories =
                    [("quay.io/a".to_owned(), repository.clone()), ("quay.io/new".to_owned(), repository)];
                RegistryLayout { data_dir: "/mnt/registry".into(), repositories: repositories.into() }
            }),
            ("a registry's layout where nothing was", |h| {
                let layer = Digest::of("a layer");
                h.put(&format!("/var/lib/kubexm/store/blobs/sha256/{}", layer.hex()), "a layer");
                let repository = Repository { blobs: [layer].into(), ..Repository::default() };
                RegistryLayout { data_dir: "/mnt/registry".into(), repositories: [("a".to_owned(), repository)].into() }
            }),
        ]);
    }
}
