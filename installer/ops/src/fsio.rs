//! Files as this crate reads and writes them: whole or not at all, and on the disk before we say so.

use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

use crate::place::Entry;
use crate::{Machine, OpError};

/// The bytes of a file, none when it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, OpError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(OpError::path("read", path)(error)),
    }
}

/// Where bytes that are not UTF-8 are kept in a text: characters for private use, that no file of a system has.
const RAW: u32 = 0x10_F700;

/// The text of a file, none when it does not exist. Bytes that are not UTF-8 come back with [`to_bytes`]: comments in
/// /etc/hosts and paths in /etc/fstab may have any encoding, and are not ours to spoil.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, OpError> {
    Ok(read(path)?.map(|bytes| to_text(&bytes)))
}

/// The text of bytes that lie elsewhere, as [`read_text`] gives that of a file.
pub(crate) fn to_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().filter_map(|byte| char::from_u32(RAW + u32::from(*byte))));
    }
    text
}

/// The bytes of a text that was made from what [`read_text`] gave.
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

/// The digest of what is left of a file.
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

/// Who owns a new file, and its permission bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub mode: u32,
    /// User and group; none leaves those of this process.
    pub owner: Option<(u32, u32)>,
}

impl Access {
    pub(crate) const fn mode(mode: u32) -> Self {
        Self { mode, owner: None }
    }
}

/// Puts bytes into place: a temporary file in the same folder, fsync, rename, fsync of the folder, SELinux label.
pub(crate) fn write(machine: &Machine, path: &str, bytes: &[u8], access: Access) -> Result<(), OpError> {
    place(machine, path, access, |file| file.write_all(bytes))
}

/// As [`write`], with the bytes coming from a function.
pub(crate) fn place(
    machine: &Machine,
    path: &str,
    access: Access,
    fill: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<(), OpError> {
    let target = machine.path(path);
    let folder = make_parent(&target)?;
    let mut temporary = tempfile::Builder::new()
        .prefix(".kubexm-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(&folder)
        .map_err(OpError::path("make a temporary file in", &folder))?;
    fill(temporary.as_file_mut()).map_err(OpError::path("write", &target))?;
    if let Some((user, group)) = access.owner {
        chown(temporary.path(), Some(user), Some(group)).map_err(OpError::path("give away", &target))?;
    }
    temporary
        .as_file()
        .set_permissions(Permissions::from_mode(access.mode))
        .map_err(OpError::path("set the mode of", &target))?;
    temporary.as_file().sync_all().map_err(OpError::path("sync", &target))?;
    temporary.persist(&target).map_err(|error| OpError::path("replace", &target)(error.error))?;
    sync_folder(&folder)?;
    relabel(machine, path)
}

/// Makes the folder that holds a path (0755) and returns it.
pub(crate) fn make_parent(path: &Path) -> Result<std::path::PathBuf, OpError> {
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    make_folders(&folder)?;
    Ok(folder)
}

/// Makes a folder and its parents, 0755 whatever the umask of a hardened host: services of other users read there.
pub(crate) fn make_folders(folder: &Path) -> Result<(), OpError> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    fs::create_dir_all(folder).map_err(OpError::path("make the folder", folder))?;
    missing.into_iter().try_for_each(|made| {
        fs::set_permissions(made, Permissions::from_mode(0o755)).map_err(OpError::path("set the mode of", made))
    })
}

/// Makes what happened to a folder's entries last.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), OpError> {
    File::open(folder).and_then(|handle| handle.sync_all()).map_err(OpError::path("sync", folder))
}

/// Removes a file or link; none there is fine.
pub(crate) fn remove(path: &Path) -> Result<(), OpError> {
    match fs::remove_file(path) {
        Ok(()) => path.parent().map_or(Ok(()), sync_folder),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(()),
        Err(error) => Err(OpError::path("remove", path)(error)),
    }
}

/// Gives a placed file the label that the policy wants: a rename keeps the label of the temporary file, and a
/// service that may not read its program dies with 203/EXEC.
pub(crate) fn relabel(machine: &Machine, path: &str) -> Result<(), OpError> {
    if !machine.path("/sys/fs/selinux/enforce").exists() {
        return Ok(());
    }
    machine.run(&crate::system::Program::new("restorecon").arg(path)).map(drop)
}

/// Mode and owner of the file that is there, or the mode for a new one.
pub(crate) fn access_like(machine: &Machine, path: &str, mode: u32) -> Result<Access, OpError> {
    Ok(match Entry::look(machine, path)? {
        Entry::File { mode, uid, gid, .. } => Access { mode, owner: Some((uid, gid)) },
        _ => Access::mode(mode),
    })
}
