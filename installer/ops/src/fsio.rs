//! File access of this crate: writes are atomic and synced.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

use crate::OpError;
use crate::dirfd::DirFd;

/// The bytes of a file; none if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, OpError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(OpError::path("read", path)(error)),
    }
}

/// Bytes that are not UTF-8 are mapped to private-use characters from here on, which no system file contains.
const RAW: u32 = 0x10_F700;

/// The text of a file; none if it does not exist. [`to_bytes`] restores bytes that are not UTF-8: comments in
/// /etc/hosts and paths in /etc/fstab may have any encoding and must be preserved.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, OpError> {
    Ok(read(path)?.map(|bytes| to_text(&bytes)))
}

/// Converts bytes to text in the same way as [`read_text`].
pub(crate) fn to_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().filter_map(|byte| char::from_u32(RAW + u32::from(*byte))));
    }
    text
}

/// Converts a text from [`read_text`] back to bytes.
pub(crate) fn to_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match u32::from(character).checked_sub(RAW).and_then(|byte| u8::try_from(byte).ok()) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// The digest of a file, read in pieces.
pub(crate) fn digest(path: &Path) -> Result<Digest, OpError> {
    let mut file = File::open(path).map_err(OpError::path("open", path))?;
    digest_of(&mut file).map_err(OpError::path("read", path))
}

/// The digest of the rest of a file.
pub(crate) fn digest_of(file: &mut File) -> std::io::Result<Digest> {
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 1 << 17];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer[..count]);
    }
}

/// Owner and permission bits of a new file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub mode: u32,
    /// User and group; none for those of this process.
    pub owner: Option<(u32, u32)>,
}

impl Access {
    pub(crate) const fn mode(mode: u32) -> Self {
        Self { mode, owner: None }
    }
}

/// Writes a file into an open folder: temporary file, fsync, rename, fsync of the folder.
pub(crate) fn place_in(
    folder: &DirFd,
    name: &OsStr,
    access: Access,
    fill: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<(), OpError> {
    let mut temporary = folder.temporary()?;
    fill(&mut temporary.file).map_err(OpError::path("write", folder.path().join(name)))?;
    temporary.put(name, access.mode, access.owner)
}

/// Creates the folder of a path (0755) and returns it.
pub(crate) fn make_parent(path: &Path) -> Result<std::path::PathBuf, OpError> {
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    make_folders(&folder)?;
    Ok(folder)
}

/// Creates a folder and its parents with mode 0755 whatever the umask is, since services of other users read there.
pub(crate) fn make_folders(folder: &Path) -> Result<(), OpError> {
    DirFd::make(folder).map(drop)
}

/// Syncs a folder, so that changes of its entries survive a crash.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), OpError> {
    DirFd::open(folder)?.sync()
}

/// Removes a file or link, if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), OpError> {
    let Some((folder, name)) = there(DirFd::of(path))? else { return Ok(()) };
    match folder.unlink(name) {
        Ok(()) => folder.sync(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(OpError::path("remove", path)(error)),
    }
}

/// Removes an empty folder, if it exists; false if it is not empty.
pub(crate) fn remove_folder(path: &Path) -> Result<bool, OpError> {
    let Some((folder, name)) = there(DirFd::of(path))? else { return Ok(true) };
    match folder.remove_folder(name) {
        Ok(()) => folder.sync().map(|()| true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(error) => Err(OpError::path("remove", path)(error)),
    }
}

/// The names in a folder, sorted; none if there is no folder.
pub(crate) fn names(folder: &Path) -> Result<BTreeSet<String>, OpError> {
    let entries = match folder.read_dir() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        other => other.map_err(OpError::path("list", folder))?,
    };
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.map_err(OpError::path("list", folder))?;
        Ok(entry.file_name().to_string_lossy().into_owned())
    };
    entries.map(name).collect()
}

/// Creates a folder with mode 0700 in an existing one.
pub(crate) fn make_private_folder(path: &Path) -> Result<(), OpError> {
    let (folder, name) = DirFd::of(path)?;
    folder.make_private(name).map_err(OpError::path("make the folder", path))
}

/// The same; one that is there already is its owner's alone afterwards, too.
pub(crate) fn private_folder(path: &Path) -> Result<(), OpError> {
    if !path.is_dir() {
        make_parent(path)?;
        make_private_folder(path)?;
    }
    DirFd::open(path)?.set_access(0o700, None)
}

/// Renames within one file system, and syncs.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), OpError> {
    let ((source, old), (target, new)) = (DirFd::of(from)?, DirFd::of(to)?);
    source.rename(old, &target, new).map_err(OpError::path("rename", from))?;
    source.sync()?;
    target.sync()
}

/// The path, or its nearest parent that exists.
pub(crate) fn existing(path: &Path) -> &Path {
    path.ancestors().find(|at| at.exists()).unwrap_or(Path::new("/"))
}

/// None if the file to open does not exist.
pub(crate) fn there<T>(opened: Result<T, OpError>) -> Result<Option<T>, OpError> {
    match opened {
        Err(OpError::Path { source, .. })
            if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        other => other.map(Some),
    }
}
