//! A backup on a control plane: a verified snapshot of etcd, PKI, configuration and kubexm's own state, as an archive (tar) that is
//! encrypted (age). What opens it is nowhere on the host.

use std::fs::File;
use std::io::{BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Component, Path};
use std::str::FromStr;

use kubexm_plan::backup::{Archive, BackupAnswer, BackupAsk, CHUNK, SNAPSHOT_MEMBER, SnapshotFacts, is_plain};
use kubexm_plan::op::{EtcdSnapshot, SNAPSHOTS};
use kubexm_plan::{Op, etcd};
use kubexm_spec::digest::Hasher;

use crate::system::Program;
use crate::{Machine, OpError, age_file, api_server_etcd, dispatch, fsio, snapshot};

/// Files and folders that are in a backup, where they exist. PKI has the keys of the authorities.
const FILES: [&str; 12] = [
    "/etc/kubernetes/pki",
    "/etc/kubernetes/manifests",
    "/etc/kubernetes/admin.conf",
    "/etc/kubexm/kubeadm.yaml",
    "/etc/kubexm/authorities.json",
    "/etc/kubexm/audit",
    etcd::MEMBER,
    etcd::CLIENT,
    "/etc/kubexm/patches",
    "/var/lib/kubelet/config.yaml",
    "/var/lib/kubelet/kubeadm-flags.env",
    "/var/lib/kubexm/stamp.json",
];

/// Answers a request.
pub fn answer(machine: &Machine, ask: &BackupAsk) -> Result<BackupAnswer, OpError> {
    let (BackupAsk::Make { name, .. } | BackupAsk::Read { name, .. } | BackupAsk::Forget { name }) = ask;
    if !is_plain(name) {
        return Err(OpError::other(format!("{name:?} is no name of a backup; this is a fault of the program")));
    }
    let path = format!("{SNAPSHOTS}/{name}.tar.age");
    match ask {
        BackupAsk::Make { recipient, .. } => {
            let made = make(machine, name, recipient, &path);
            // With the snapshot, which is not encrypted.
            let left = fsio::remove(&machine.path(snapshot_of(name).path()));
            if made.is_err() {
                fsio::remove(&machine.path(&path))?;
            }
            left.and(made)
        }
        BackupAsk::Read { offset, .. } => Ok(BackupAnswer::Bytes { bytes: read(&machine.path(&path), *offset)? }),
        BackupAsk::Forget { .. } => {
            fsio::remove(&machine.path(&path))?;
            fsio::remove(&machine.path(snapshot_of(name).path()))?;
            // It is empty unless somebody keeps a snapshot in it.
            fsio::remove_folder(&machine.path(SNAPSHOTS))?;
            Ok(BackupAnswer::Forgotten)
        }
    }
}

fn snapshot_of(name: &str) -> EtcdSnapshot {
    EtcdSnapshot { name: format!("{name}.backup") }
}

/// Removes what a backup or restore that was killed has left, which is not encrypted. Each has names of its own, so that nobody else
/// would. A backup that somebody else makes at the same time fails, and leaves nothing either.
pub(crate) fn sweep(machine: &Machine) -> Result<(), OpError> {
    let folder = machine.path(SNAPSHOTS);
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(OpError::path("list", &folder))?,
    };
    for entry in entries {
        let path = entry.map_err(OpError::path("list", &folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of_restore = name.starts_with("restore-") && name.ends_with(".db");
        // etcdctl adds an end of its own while it writes.
        let unfinished = name.starts_with('.') && [".partial", ".part", ".new"].iter().any(|end| name.ends_with(end));
        if name.ends_with(".scratch") && path.is_dir() {
            std::fs::remove_dir_all(&path).map_err(OpError::path("remove", &path))?;
        } else if name.ends_with(".backup.db") || of_restore || unfinished {
            fsio::remove(&path)?;
        }
    }
    Ok(())
}

/// The same when kubexm leaves the host. The snapshot of an upgrade, in the same folder, is the operator's; then the folder is kept.
pub(crate) fn leave(machine: &Machine) -> Result<(), OpError> {
    sweep(machine)?;
    let _ = std::fs::remove_dir(machine.path(SNAPSHOTS));
    Ok(())
}

fn make(machine: &Machine, name: &str, recipient: &str, path: &str) -> Result<BackupAnswer, OpError> {
    let encryptor = age_file::encryptor(&[recipient.to_owned()])?;
    let saved = snapshot_of(name);
    sweep(machine)?;
    dispatch::converge(&Op::from(saved.clone()), machine)?;
    let database = saved.path();
    let status = snapshot::status(machine, &database)?;
    try_restore(machine, name, &database, status)?;
    let size = machine.path(&database).metadata().map_err(OpError::path("look at", &database))?.len();
    let archive = write(machine, &database, encryptor, &machine.path(path))?;
    let etcd = SnapshotFacts { revision: status.revision, keys: status.total_key, size };
    Ok(BackupAnswer::Made { archive, etcd })
}

/// Restores the snapshot into a folder of its own and compares what is in it, since a checksum tells nothing about whether etcd
/// can use it.
fn try_restore(machine: &Machine, name: &str, database: &str, wanted: snapshot::Status) -> Result<(), OpError> {
    let scratch = machine.path(format!("{SNAPSHOTS}/{name}.scratch"));
    let real = |path: &Path| path.display().to_string();
    let _ = std::fs::remove_dir_all(&scratch);
    let restore = Program::new("etcdutl")
        .args(["snapshot", "restore", &real(&machine.path(database)), "--data-dir", &real(&scratch)])
        .within(1_800);
    let found = machine
        .run(&restore)
        .and_then(|_| snapshot::status(machine, &format!("{SNAPSHOTS}/{name}.scratch/member/snap/db")));
    let removed = std::fs::remove_dir_all(&scratch);
    let found = found?;
    removed.map_err(OpError::path("remove", &scratch))?;
    // The number of keys differs by those of the member list, which is made anew.
    if found.revision == wanted.revision && found.total_key > 0 {
        return Ok(());
    }
    Err(OpError::other(format!(
        "the snapshot, restored, has revision {} with {} keys, and was taken at revision {} with {}: it is not kept; run again",
        found.revision, found.total_key, wanted.revision, wanted.total_key
    )))
}

/// Hashes what passes through.
struct Hashing<W> {
    into: W,
    hasher: Hasher,
    size: u64,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.into.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.into.flush()
    }
}

fn write(machine: &Machine, database: &str, encryptor: age::Encryptor, path: &Path) -> Result<Archive, OpError> {
    let failed = OpError::path("write", path);
    let of_etcd = of_etcd(machine)?;
    let (folder, name) = crate::dirfd::DirFd::of(path)?;
    let access = fsio::Access::mode(0o600);
    let mut archive = None;
    fsio::place_in(&folder, name, access, |file| {
        let hashing = Hashing { into: BufWriter::new(file), hasher: Hasher::default(), size: 0 };
        let mut tar = tar::Builder::new(encryptor.wrap_output(hashing)?);
        // A link stays one: it is not followed out of a folder.
        tar.follow_symlinks(false);
        tar.append_path_with_name(machine.path(database), SNAPSHOT_MEMBER)?;
        for path in FILES {
            let real = machine.path(path);
            let inside = format!("files{path}");
            if real.is_dir() {
                tar.append_dir_all(inside, &real)?;
            } else if real.is_file() {
                tar.append_path_with_name(&real, inside)?;
            }
        }
        for path in &of_etcd {
            // Where a link leads: its target may be outside of what is archived.
            let real = machine.path(path).canonicalize().ok().filter(|real| real.is_file());
            let lost = || std::io::Error::other(format!("{path}, with which the API server reaches etcd, is no file"));
            tar.append_path_with_name(real.ok_or_else(lost)?, format!("files{path}"))?;
        }
        let mut hashing = tar.into_inner()?.finish()?;
        hashing.flush()?;
        archive = Some(Archive { sha256: hashing.hasher.finish(), size: hashing.size });
        Ok(())
    })?;
    archive.ok_or_else(|| failed(std::io::Error::other("it was not finished")))
}

/// What the API server reaches an etcd of others with, where that is in a folder of theirs.
fn of_etcd(machine: &Machine) -> Result<Vec<String>, OpError> {
    let Some(access) = api_server_etcd::access(machine)? else { return Ok(Vec::new()) };
    let is_new = |path: &&str| {
        let below = FILES.iter().any(|folder| Path::new(path).starts_with(folder));
        let plain = Path::new(path).components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        plain && path.starts_with('/') && !below
    };
    let mut all: Vec<String> = access.files().into_iter().filter(is_new).map(str::to_owned).collect();
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Up to [`CHUNK`] bytes.
fn read(path: &Path, offset: u64) -> Result<Vec<u8>, OpError> {
    let failed = OpError::path("read", path);
    let read = || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(CHUNK).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(failed)
}

/// Writes the snapshot in an archive to a file.
pub(crate) fn extract(archive: &Path, key: &[u8], target: &Path) -> Result<(), OpError> {
    let damaged =
        |why: &dyn std::fmt::Display| OpError::other(format!("the archive of the backup cannot be used: {why}"));
    let key = std::str::from_utf8(key).ok().and_then(|key| age::x25519::Identity::from_str(key).ok());
    let key = key.ok_or_else(|| damaged(&"its key is none"))?;
    let file = File::open(archive).map_err(OpError::path("read", archive))?;
    let decryptor = age_file::decryptor(file).map_err(|error| damaged(&error))?;
    let reader = decryptor.decrypt(std::iter::once(&key as &dyn age::Identity)).map_err(|error| damaged(&error))?;
    let mut tar = tar::Archive::new(reader);
    // Raw, as it was verified: a sparse file would be longer than the archive.
    for entry in tar.entries().map_err(|error| damaged(&error))?.raw(true) {
        let mut entry = entry.map_err(|error| damaged(&error))?;
        if *entry.path_bytes() == *SNAPSHOT_MEMBER.as_bytes() {
            if entry.header().entry_type() != tar::EntryType::Regular {
                return Err(damaged(&"its snapshot of etcd is no plain file"));
            }
            let (folder, name) = crate::dirfd::DirFd::of(target)?;
            return fsio::place_in(&folder, name, fsio::Access::mode(0o600), |file| {
                std::io::copy(&mut entry, file).map(drop)
            });
        }
    }
    Err(damaged(&"it has no snapshot of etcd"))
}
