//! The archive: whether it is whole, and whether the snapshot in it is.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use kubexm_ops::age_file;
use kubexm_plan::backup::SNAPSHOT_MEMBER;
use kubexm_spec::digest::Hasher;
use zeroize::Zeroizing;

use super::error::{ARCHIVE, BackupError, disk, shown};
use super::header::{BackupAbout, BackupKey};

/// Of the snapshot (SHA-256), after its pages.
const CHECKSUM: u64 = 32;
/// More than a control plane's PKI and configuration have.
pub(super) const ENTRIES: usize = 10_000;
/// What comes before a file's path on the host.
const FILES: &str = "files";
/// Longer than a file of PKI or configuration is, in bytes.
const LONGEST: u64 = 1 << 20;

/// Reads the whole archive and compares it with the header.
///
/// # Errors
/// It was cut off or altered.
pub fn verify_archive(folder: &Path, about: &BackupAbout) -> Result<(), BackupError> {
    let path = folder.join(ARCHIVE);
    let mut file = File::open(&path)
        .map_err(|error| BackupError::NotThere { path: shown(folder), reason: format!("{ARCHIVE}: {error}") })?;
    let found = file.metadata().map_err(disk("look at", &path))?.len();
    if found < about.archive.size {
        return Err(BackupError::Cut { path: shown(&path), found, wanted: about.archive.size });
    }
    let mut hasher = Hasher::default();
    each(&mut file, |bytes| hasher.update(bytes)).map_err(disk("read", &path))?;
    if found == about.archive.size && hasher.finish() == about.archive.sha256 {
        return Ok(());
    }
    let reason = format!("its bytes are not those that were written (sha256 {})", about.archive.sha256.hex());
    Err(BackupError::Damaged { path: shown(&path), reason })
}

/// Decrypts the archive to its end and checks the snapshot in it: its size, and the checksum that etcd has put behind it. Returns
/// the names of the other files.
///
/// # Errors
/// It cannot be decrypted, is not the one of the header, or has no whole snapshot.
pub fn verify_contents(folder: &Path, about: &BackupAbout, key: &BackupKey) -> Result<Vec<String>, BackupError> {
    read_contents(folder, about, key, &|_| false).map(|contents| contents.names)
}

/// What an archive has beside the snapshot.
#[derive(Debug, Default)]
pub struct Contents {
    /// Names of all files.
    pub names: Vec<String>,
    /// The wanted ones, by their path on the host. Secret.
    pub files: BTreeMap<String, Zeroizing<Vec<u8>>>,
}

/// The same, with the content of the files that are wanted, by their path on the host.
///
/// # Errors
/// As [`verify_contents`]; or such a file is none, is there twice or is longer than any of them is.
pub fn read_contents(
    folder: &Path,
    about: &BackupAbout,
    key: &BackupKey,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Contents, BackupError> {
    let path = folder.join(ARCHIVE);
    let damaged = |reason: String| BackupError::Damaged { path: shown(&path), reason };
    let file = File::open(&path).map_err(disk("read", &path))?;
    // What is used must be what was compared, whoever has changed the file since.
    let mut file = Hashed::of(file);
    let decryptor = age_file::decryptor(&mut file).map_err(|error| damaged(error.to_string()))?;
    let reader = decryptor
        .decrypt(std::iter::once(key.identity() as &dyn age::Identity))
        .map_err(|error| damaged(format!("it cannot be decrypted: {error}")))?;
    let mut tar = tar::Archive::new(reader);
    let (mut contents, mut snapshot) = (Contents::default(), None);
    let broken = |error: std::io::Error| damaged(error.to_string());
    // A host wrote it. Raw: no header is as long as it says (long names, pax), and no file longer than its bytes (sparse).
    for (count, entry) in tar.entries().map_err(broken)?.raw(true).enumerate() {
        let mut entry = entry.map_err(broken)?;
        if count == ENTRIES {
            return Err(damaged(format!("it has more than {ENTRIES} files")));
        }
        let kind = entry.header().entry_type();
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if name == SNAPSHOT_MEMBER {
            let size = entry.size();
            if kind != tar::EntryType::Regular || snapshot.is_some() {
                return Err(damaged("it has not exactly one snapshot of etcd, as a file".to_owned()));
            }
            // Before the bytes are read.
            if size != about.etcd.size {
                return Err(damaged(format!("the snapshot of etcd in it has {size} bytes of {}", about.etcd.size)));
            }
            snapshot = Some(is_whole(&mut entry, size).map_err(broken)?);
        } else if kind.is_file() {
            if let Some(path) = name.strip_prefix(FILES).filter(|path| wanted(path)) {
                let size = entry.size();
                if size > LONGEST || contents.files.contains_key(path) {
                    return Err(damaged(format!("{path} in it has {size} bytes, or is there twice")));
                }
                let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(size).unwrap_or_default()));
                entry.read_to_end(&mut bytes).map_err(broken)?;
                contents.files.insert(path.to_owned(), bytes);
            }
            contents.names.push(name);
        }
    }
    // The rest of the stream, whose end age authenticates.
    each(&mut tar.into_inner(), |_| {}).map_err(broken)?;
    each(&mut file, |_| {}).map_err(disk("read", &path))?;
    if !file.is(&about.archive) {
        return Err(damaged("it was changed while it was read".to_owned()));
    }
    match snapshot {
        Some(true) => Ok(contents),
        Some(false) => Err(damaged("the snapshot of etcd in it does not match its own checksum".to_owned())),
        None => Err(damaged("it has no snapshot of etcd".to_owned())),
    }
}

/// What was read of a file.
pub(super) struct Hashed {
    file: File,
    hasher: Hasher,
    count: u64,
}

impl Hashed {
    pub(super) fn of(file: File) -> Self {
        Self { file, hasher: Hasher::default(), count: 0 }
    }

    /// Whether that is the whole archive of the header.
    pub(super) fn is(self, archive: &kubexm_plan::backup::Archive) -> bool {
        self.count == archive.size && self.hasher.finish() == archive.sha256
    }
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.count += count as u64;
        Ok(count)
    }
}

/// Whether the checksum at the end is of what comes before.
fn is_whole(reader: &mut impl Read, size: u64) -> std::io::Result<bool> {
    let Some(data) = size.checked_sub(CHECKSUM) else { return Ok(false) };
    let mut hasher = Hasher::default();
    each(&mut reader.by_ref().take(data), |bytes| hasher.update(bytes))?;
    let mut checksum = String::new();
    each(&mut reader.take(CHECKSUM), |bytes| {
        checksum.extend(bytes.iter().map(|byte| format!("{byte:02x}")));
    })?;
    Ok(hasher.finish().hex() == checksum)
}

/// In pieces.
pub(super) fn each(reader: &mut impl Read, mut take: impl FnMut(&[u8])) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 17];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(()),
            count => take(&buffer[..count]),
        }
    }
}
