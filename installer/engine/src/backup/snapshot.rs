//! A snapshot of etcd in a file of the controller: one of a timer of `spec.etcd.backup`, of an upgrade, or of etcdctl. It says neither who
//! made it nor for whom; what it was called says of which cluster and when.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use age::x25519;
use kubexm_ops::age_file;
use kubexm_plan::ClusterId;
use kubexm_plan::backup::{Archive, SNAPSHOT_MEMBER};
use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::error::{ARCHIVE, BackupError, disk, shown};
use super::header::{BackupKey, regular};
use crate::operator::OperatorIdentity;

/// How the name of such a file ends; the second is encrypted.
const ENDS: [&str; 2] = [".db", ".db.age"];
/// How an encrypted one begins (age-encryption.org/v1), whatever its name.
const SEALED: &[u8] = b"age-encryption.org/";
/// Of what comes before it (SHA-256): etcd appends it (etcd, `snapshot/v3_snapshot.go`).
const CHECKSUM: usize = 32;
/// The smallest page, to which a database is aligned.
const PAGE: u64 = 512;
/// Where the first page of a database says what it is, and that in the byte order of the hosts (bbolt, `internal/common/meta.go`).
const MAGIC_AT: usize = 16;
const MAGIC: [u8; 4] = 0xED0C_DAED_u32.to_le_bytes();
/// Length of an id (UUID) and of a time (`20261126T030000Z`) in a name.
const ID: usize = 36;
const TIME: usize = 16;

/// What the name of a snapshot says of it: whoever can rename the file can say something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotName {
    /// Name and id of the cluster, and the host; none if it is no name of `spec.etcd.backup`.
    pub of: Option<(String, ClusterId, String)>,
    /// In seconds of Unix time.
    pub taken: Option<i64>,
}

impl SnapshotName {
    /// Whether a file is called as snapshots are.
    pub fn is_one(path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ENDS.iter().any(|end| name.len() > end.len() && name.ends_with(end))
    }

    /// `etcd-CLUSTER-ID-HOST-TIME.db`, where clusters and hosts have dashes, too.
    pub fn of(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(rest) = ENDS.iter().rev().find_map(|end| name.strip_suffix(end)) else { return Self::default() };
        let Some((rest, taken)) = rest.strip_prefix("etcd-").and_then(|rest| {
            let (rest, time) = rest.split_at_checked(rest.len().checked_sub(TIME)?)?;
            Some((rest.strip_suffix('-')?, time_of(time)?))
        }) else {
            return Self::default();
        };
        let of = rest.match_indices('-').find_map(|(at, _)| {
            let (cluster, rest) = (rest.get(..at)?, rest.get(at + 1..)?);
            let (id, host) = rest.split_at_checked(ID)?;
            let host = host.strip_prefix('-').filter(|host| !host.is_empty() && !cluster.is_empty())?;
            Some((cluster.to_owned(), id.parse().ok()?, host.to_owned()))
        });
        Self { of, taken: Some(taken) }
    }
}

fn time_of(stamp: &str) -> Option<i64> {
    let part = |from: usize, to: usize| stamp.get(from..to);
    let text = format!(
        "{}-{}-{}{}:{}:{}",
        part(0, 4)?,
        part(4, 6)?,
        part(6, 8)?,
        part(8, 11)?,
        part(11, 13)?,
        part(13, TIME)?
    );
    OffsetDateTime::parse(&text, &Rfc3339).ok().map(OffsetDateTime::unix_timestamp)
}

/// A snapshot that was read to its end, and that is whole.
#[derive(Clone, Debug)]
pub struct SnapshotFile {
    path: PathBuf,
    /// Of the snapshot, in bytes.
    pub size: u64,
    /// Of the whole snapshot.
    pub sha256: Digest,
    sealed: bool,
}

impl SnapshotFile {
    /// Whether there is a file that can be read.
    ///
    /// # Errors
    /// There is none.
    pub fn look(path: &Path) -> Result<(), BackupError> {
        readable(path).map(drop)
    }

    /// Reads a file to its end: whether it is a database of etcd with the checksum that etcd has put behind it. An encrypted one is opened
    /// with the home's identity, which is asked for only then.
    ///
    /// # Errors
    /// It was cut off or altered, is something else, is encrypted for others, or the identity cannot be opened.
    pub fn verify<E: From<BackupError>>(
        path: &Path,
        identity: impl FnOnce() -> Result<OperatorIdentity, E>,
    ) -> Result<(Self, Option<OperatorIdentity>), E> {
        let file = readable(path)?;
        let mut first = Vec::new();
        (&file).take(SEALED.len() as u64).read_to_end(&mut first).map_err(disk("read", path))?;
        let sealed = first == SEALED;
        let identity = if sealed { Some(identity()?) } else { None };
        let mut found = Self { path: path.to_owned(), size: 0, sha256: Digest::of([]), sealed };
        let mut reader = Scanned::of(found.open(identity.as_ref())?);
        std::io::copy(&mut reader, &mut std::io::sink()).map_err(|error| found.unreadable(error))?;
        (found.size, found.sha256) = reader.scan.check(path)?;
        Ok((found, identity))
    }

    /// The snapshot, as it is read from the file.
    fn open(&self, identity: Option<&OperatorIdentity>) -> Result<Box<dyn Read>, BackupError> {
        let path = &self.path;
        let file = readable(path)?;
        let Some(identity) = identity.filter(|_| self.sealed) else { return Ok(Box::new(file)) };
        let damaged = |error: &dyn std::fmt::Display| BackupError::NoSnapshot {
            path: shown(path),
            reason: format!("it begins as an encrypted file (age), and cannot be decrypted: {error}"),
        };
        let decryptor = age_file::decryptor(file).map_err(|error| damaged(&error))?;
        let reader = decryptor.decrypt(identity.all()).map_err(|error| match error {
            age::DecryptError::NoMatchingKeys => {
                BackupError::SnapshotForOthers { path: shown(path), own: identity.recipient() }
            }
            error => damaged(&error),
        })?;
        Ok(Box::new(reader))
    }

    /// Of an encrypted file it is age that finds what was cut off or altered.
    fn unreadable(&self, source: std::io::Error) -> BackupError {
        match self.sealed {
            true => BackupError::Damaged {
                path: shown(&self.path),
                reason: format!("it cannot be decrypted to its end: {source}"),
            },
            false => disk("read", &self.path)(source),
        }
    }

    /// Writes it into an archive of a backup in a folder, encrypted for this key. `wrote` gets the number of bytes that were written.
    ///
    /// # Errors
    /// It was changed since it was verified, or the folder cannot be written.
    pub fn pack(
        &self,
        identity: Option<&OperatorIdentity>,
        key: &BackupKey,
        folder: &Path,
        wrote: &mut dyn FnMut(u64) -> std::io::Result<()>,
    ) -> Result<Archive, BackupError> {
        let to = folder.join(ARCHIVE);
        let failed = |error: std::io::Error| BackupError::Disk { action: "write", path: shown(&to), source: error };
        let recipient = x25519::Recipient::from_str(&key.recipient())
            .map_err(|error| BackupError::CannotMake(format!("its key is none: {error}")))?;
        let encryptor = age::Encryptor::with_recipients(std::iter::once(&recipient as &dyn age::Recipient))
            .map_err(|error| BackupError::CannotMake(format!("it cannot be encrypted: {error}")))?;
        let mut reader = Scanned::of(self.open(identity)?);
        let file = File::options().write(true).create_new(true).mode(0o600).open(&to).map_err(failed)?;
        let counted = Counted { file, hasher: Hasher::default(), size: 0, wrote };
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(self.size);
        header.set_mode(0o600);
        let write = || {
            let mut tar = tar::Builder::new(encryptor.wrap_output(counted)?);
            tar.append_data(&mut header, SNAPSHOT_MEMBER, (&mut reader).take(self.size))?;
            let counted = tar.into_inner()?.finish()?;
            counted.file.sync_all()?;
            Ok::<_, std::io::Error>(Archive { sha256: counted.hasher.finish(), size: counted.size })
        };
        let archive = write().map_err(failed)?;
        match reader.scan.check(&self.path)? == (self.size, self.sha256) {
            true => Ok(archive),
            false => Err(BackupError::Damaged {
                path: shown(&self.path),
                reason: "it was changed while it was read".to_owned(),
            }),
        }
    }
}

fn readable(path: &Path) -> Result<File, BackupError> {
    regular(path).map_err(|error| BackupError::NoSnapshot { path: shown(path), reason: error.to_string() })
}

/// What was read of a snapshot so far: nothing of it is kept but its first bytes and its last.
struct Scan {
    whole: Hasher,
    /// Without what is in `last`.
    data: Hasher,
    last: Vec<u8>,
    first: Vec<u8>,
    size: u64,
}

impl Scan {
    fn take(&mut self, bytes: &[u8]) {
        self.whole.update(bytes);
        self.size += bytes.len() as u64;
        let wanted = (MAGIC_AT + MAGIC.len()).saturating_sub(self.first.len());
        self.first.extend(bytes.iter().take(wanted));
        self.last.extend(bytes);
        let data = self.last.len().saturating_sub(CHECKSUM);
        self.data.update(&self.last[..data]);
        self.last.drain(..data);
    }

    /// Size and digest of the whole, if that is a snapshot.
    fn check(self, path: &Path) -> Result<(u64, Digest), BackupError> {
        let not_one = |reason: &str| Err(BackupError::NoSnapshot { path: shown(path), reason: reason.to_owned() });
        if self.first.get(MAGIC_AT..) != Some(&MAGIC[..]) {
            return not_one(match self.size {
                0 => "it is empty",
                _ => "it does not begin as a database of etcd",
            });
        }
        let checksum: String = self.last.iter().map(|byte| format!("{byte:02x}")).collect();
        if self.size % PAGE == CHECKSUM as u64 && self.data.finish().hex() == checksum {
            return Ok((self.size, self.whole.finish()));
        }
        let reason = "it was cut off or altered, or is the file of a member and no snapshot: its end is not the checksum of what comes \
                      before";
        Err(BackupError::Damaged { path: shown(path), reason: reason.to_owned() })
    }
}

struct Scanned<R> {
    reader: R,
    scan: Scan,
}

impl<R: Read> Scanned<R> {
    fn of(reader: R) -> Self {
        let (whole, data) = (Hasher::default(), Hasher::default());
        Self { reader, scan: Scan { whole, data, last: Vec::new(), first: Vec::new(), size: 0 } }
    }
}

impl<R: Read> Read for Scanned<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.scan.take(&buffer[..count]);
        Ok(count)
    }
}

/// What is written of an archive.
struct Counted<'w> {
    file: File,
    hasher: Hasher,
    size: u64,
    wrote: &'w mut dyn FnMut(u64) -> std::io::Result<()>,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.size += count as u64;
        (self.wrote)(count as u64)?;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
