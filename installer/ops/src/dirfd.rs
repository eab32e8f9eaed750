//! Folders opened component by component, so that another user's link cannot redirect root.
//!
//! Below a folder that another user can write to, any name may become a link at any moment: a path that was checked is
//! not necessarily what the next system call on that path changes. A [`DirFd`] is a descriptor, and all operations are
//! relative to it.
//!
//! Links are followed only in folders that are owned by root, not writable by others, and reached only through such
//! folders: there only root can have created them. Administrators and distributions place theirs there (`/var/run`, a
//! `/var/lib/containerd` on another disk).

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid};

use crate::OpError;

/// The kernel's limit of links in one path (MAXSYMLINKS).
const MOST_LINKS: usize = 40;
/// Mode of folders that are created.
const MADE: u32 = 0o755;

/// An open folder.
#[derive(Debug)]
pub(crate) struct DirFd {
    fd: OwnedFd,
    /// For messages.
    path: PathBuf,
}

impl DirFd {
    /// Opens an existing folder.
    pub(crate) fn open(path: &Path) -> Result<Self, OpError> {
        Walk::to(path, false)
    }

    /// Opens a folder; missing parents are created with mode 0755 whatever the umask is, since services of other users
    /// read there.
    pub(crate) fn make(path: &Path) -> Result<Self, OpError> {
        Walk::to(path, true)
    }

    /// The existing folder of a path, and the path's last component.
    pub(crate) fn of(path: &Path) -> Result<(Self, &OsStr), OpError> {
        let (folder, name) = split(path)?;
        Ok((Self::open(folder)?, name))
    }

    /// As [`DirFd::of`], but creates the folder.
    pub(crate) fn made_for(path: &Path) -> Result<(Self, &OsStr), OpError> {
        let (folder, name) = split(path)?;
        Ok((Self::make(folder)?, name))
    }

    /// Opens or creates a folder in this one. It gets the owner only if it was created here.
    pub(crate) fn child(&self, name: &str, mode: u32, owner: (u32, u32)) -> Result<Self, OpError> {
        let path = self.path.join(name);
        let made = match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o700)) {
            Ok(()) => true,
            Err(error) if error == rustix::io::Errno::EXIST => false,
            Err(error) => return Err(OpError::path("make the folder", &path)(error.into())),
        };
        if let Some(link) = self.link(OsStr::new(name)) {
            return Err(is_a_link(&path, &link));
        }
        let fd = open_folder(&self.fd, OsStr::new(name)).map_err(OpError::path("open the folder", &path))?;
        let child = Self { fd, path };
        if made {
            // Somebody who can write to this folder may have replaced the new one meanwhile: one that is not empty is
            // not ours, and its owner is not changed.
            let empty = child.names()?.is_empty();
            let ours = child.stat()?.st_uid == rustix::process::geteuid().as_raw();
            if !(empty && ours) {
                return Err(OpError::other(format!(
                    "{} was replaced while it was being made: another process works there; end it and run again",
                    child.path.display()
                )));
            }
            child.set_access(mode, Some(owner))?;
        }
        Ok(child)
    }

    /// For messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A new file with mode 0600 and an unused name. It is deleted with the guard unless it is renamed.
    pub(crate) fn temporary(&self) -> Result<Temporary<'_>, OpError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (fd, name) = self
            .unused(|name| rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(0o600)))
            .map_err(OpError::path("make a temporary file in", &self.path))?;
        Ok(Temporary { folder: self, name, file: File::from(fd), kept: false })
    }

    /// A new file with mode 0600 and a name that nothing has, for what must be found again after a kill.
    pub(crate) fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(0o600))?))
    }

    /// Creates a symbolic link atomically, by rename.
    pub(crate) fn put_link(&self, target: &OsStr, name: &OsStr) -> Result<(), OpError> {
        let place = || self.path.join(name);
        let ((), temporary) = self
            .unused(|name| rustix::fs::symlinkat(target, &self.fd, name))
            .map_err(|error| OpError::path("make the link", place())(error))?;
        self.rename(&temporary, self, name).map_err(|error| {
            let _ = self.unlink(&temporary);
            OpError::path("replace", place())(error)
        })?;
        self.sync()
    }

    /// Renames an entry, into this folder or another one.
    pub(crate) fn rename(&self, from: &OsStr, to: &Self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &to.fd, name)?)
    }

    /// Gives a file another name, in this folder. If it is a link, that gets the name.
    pub(crate) fn hard_link(&self, file: &Path, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::linkat(CWD, file, &self.fd, name, AtFlags::empty())?)
    }

    /// Removes a file or link.
    pub(crate) fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    pub(crate) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Creates a folder with mode 0700.
    pub(crate) fn make_private(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o700))?)
    }

    /// Permission bits of the folder itself.
    pub(crate) fn mode(&self) -> Result<u32, OpError> {
        Ok(self.stat()?.st_mode & 0o7777)
    }

    /// Mode and owner of the folder itself.
    pub(crate) fn set_access(&self, mode: u32, owner: Option<(u32, u32)>) -> Result<(), OpError> {
        set_access(&self.fd, mode, owner, &self.path)
    }

    /// When it was changed the last time.
    pub(crate) fn set_modified(&self, modified: SystemTime) -> Result<(), OpError> {
        let times = FileTimes::new().set_modified(modified);
        let set = self.fd.try_clone().and_then(|fd| File::from(fd).set_times(times));
        set.map_err(OpError::path("set the time of", &self.path))
    }

    /// Syncs the folder, so that changes of its entries survive a crash.
    pub(crate) fn sync(&self) -> Result<(), OpError> {
        rustix::fs::fsync(&self.fd).map_err(|error| OpError::path("sync", &self.path)(error.into()))
    }

    fn stat(&self) -> Result<Stat, OpError> {
        rustix::fs::fstat(&self.fd).map_err(|error| OpError::path("look at", &self.path)(error.into()))
    }

    /// An entry itself, not what a link leads to; none if there is none.
    pub(crate) fn entry(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a file for reading without following a link, or blocking on a pipe.
    pub(crate) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.fd, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file any more")) }
    }

    /// The target of an entry, if it is a link.
    pub(crate) fn link(&self, name: &OsStr) -> Option<PathBuf> {
        let target = rustix::fs::readlinkat(&self.fd, name, Vec::new()).ok()?;
        Some(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Names of its entries, sorted.
    pub(crate) fn names(&self) -> Result<Vec<OsString>, OpError> {
        let list = || -> io::Result<Vec<OsString>> {
            let mut names = Vec::new();
            for entry in rustix::fs::Dir::read_from(&self.fd)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if name != b"." && name != b".." {
                    names.push(OsStr::from_bytes(name).to_owned());
                }
            }
            names.sort();
            Ok(names)
        };
        list().map_err(OpError::path("list", &self.path))
    }

    /// A folder in this one; none if it is missing or something else, for example a link.
    pub(crate) fn inner(&self, name: &OsStr) -> Result<Option<Self>, OpError> {
        let path = self.path.join(name);
        match open_folder(&self.fd, name) {
            Ok(fd) => Ok(Some(Self { fd, path })),
            // A link causes one of the first two errors, depending on the kernel's version.
            Err(error)
                if [rustix::io::Errno::NOTDIR, rustix::io::Errno::LOOP, rustix::io::Errno::NOENT]
                    .iter()
                    .any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) =>
            {
                Ok(None)
            }
            Err(error) => Err(OpError::path("open the folder", path)(error)),
        }
    }

    /// The device of its file system.
    pub(crate) fn device(&self) -> Result<u64, OpError> {
        Ok(self.stat()?.st_dev)
    }

    /// Creates something with a random name; tries again if the name exists.
    fn unused<T>(&self, mut make: impl FnMut(&OsStr) -> rustix::io::Result<T>) -> io::Result<(T, OsString)> {
        use std::hash::{BuildHasher, RandomState};
        for attempt in 0..100_u32 {
            // The keys of a RandomState are from the system's random numbers.
            let name = OsString::from(format!(".kubexm-{:016x}", RandomState::new().hash_one(attempt)));
            match make(&name) {
                Err(error) if error == rustix::io::Errno::EXIST => {}
                made => return Ok((made?, name)),
            }
        }
        Err(io::Error::from(ErrorKind::AlreadyExists))
    }
}

/// A temporary file next to the one that it will replace.
#[derive(Debug)]
pub(crate) struct Temporary<'f> {
    folder: &'f DirFd,
    name: OsString,
    pub(crate) file: File,
    kept: bool,
}

impl Temporary<'_> {
    /// Sets mode and owner, syncs, and renames. An existing entry is replaced, never followed.
    pub(crate) fn put(mut self, name: &OsStr, mode: u32, owner: Option<(u32, u32)>) -> Result<(), OpError> {
        let place = self.folder.path.join(name);
        set_access(&self.file, mode, owner, &place)?;
        self.file.sync_all().map_err(OpError::path("sync", &place))?;
        self.folder.rename(&self.name, self.folder, name).map_err(|error| not_replaced(&place, error))?;
        self.kept = true;
        self.folder.sync()
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = self.folder.unlink(&self.name);
        }
    }
}

/// Root may replace any file, unless somebody has made it immutable.
fn not_replaced(place: &Path, error: io::Error) -> OpError {
    if error.kind() != ErrorKind::PermissionDenied {
        return OpError::path("replace", place)(error);
    }
    OpError::other(format!(
        "cannot replace {}: {error}; if `lsattr` shows it as immutable, `chattr -i` it, then run again",
        place.display()
    ))
}

fn set_access(fd: impl AsFd, mode: u32, owner: Option<(u32, u32)>, path: &Path) -> Result<(), OpError> {
    if let Some((user, group)) = owner {
        rustix::fs::fchown(&fd, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))
            .map_err(|error| OpError::path("change the owner of", path)(error.into()))?;
    }
    rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode))
        .map_err(|error| OpError::path("set the mode of", path)(error.into()))
}

fn split(path: &Path) -> Result<(&Path, &OsStr), OpError> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok((folder, name)),
        _ => Err(OpError::other(format!("{} names no entry of a folder; this is a fault of the plan", path.display()))),
    }
}

fn open_folder(at: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, name, flags, Mode::empty())?)
}

fn is_a_link(link: &Path, target: &Path) -> OpError {
    OpError::other(format!(
        "{} is a symbolic link to {}, and a user other than root could have made it: it is not followed; replace it \
         with a folder, then run again",
        link.display(),
        target.display()
    ))
}

/// The resolution of a path to a folder.
struct Walk {
    fd: OwnedFd,
    path: PathBuf,
    /// Whether only root can have created entries in the folders so far.
    trusted: bool,
    links: usize,
}

impl Walk {
    fn to(path: &Path, make: bool) -> Result<DirFd, OpError> {
        let mut walk = Self::start(path).map_err(OpError::path("open the folder", path))?;
        let mut rest: VecDeque<OsString> = components(path);
        while let Some(name) = rest.pop_front() {
            let failed = walk.path.join(&name);
            let missing = match walk.enter(&name, &mut rest) {
                Ok(entered) => entered?.is_none(),
                Err(error) => return Err(OpError::path("open the folder", failed)(error)),
            };
            if missing && !make {
                return Err(OpError::path("open the folder", failed)(ErrorKind::NotFound.into()));
            }
            if missing {
                walk.make(&name).map_err(OpError::path("make the folder", &failed))?;
                rest.push_front(name);
            }
        }
        let fd = open_folder(&walk.fd, OsStr::new(".")).map_err(OpError::path("open the folder", &walk.path))?;
        Ok(DirFd { fd, path: path.to_owned() })
    }

    fn start(path: &Path) -> io::Result<Self> {
        let (start, flags) = (if path.is_absolute() { "/" } else { "." }, OFlags::PATH | OFlags::DIRECTORY);
        let fd = rustix::fs::openat(CWD, start, flags | OFlags::CLOEXEC, Mode::empty())?;
        let trusted = is_trusted(&rustix::fs::fstat(&fd)?);
        Ok(Self { fd, path: PathBuf::from(start), trusted, links: 0 })
    }

    /// Enters a folder, or puts a link's target before the remaining components. None if there is no such entry.
    fn enter(&mut self, name: &OsStr, rest: &mut VecDeque<OsString>) -> io::Result<Result<Option<()>, OpError>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::NOENT) => return Ok(Ok(None)),
            Err(error) => return Err(error.into()),
        };
        let stat = rustix::fs::fstat(&fd)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.trusted &= is_trusted(&stat);
                self.path.push(name);
                self.fd = fd;
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&fd, "", Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if !(self.trusted && is_own(&stat) && self.is_closed()?) {
                    return Ok(Err(is_a_link(&self.path.join(name), &target)));
                }
                // The text of a link in /proc is not always its target (`/proc/<pid>/root`); the kernel creates and
                // resolves these.
                if rustix::fs::fstatfs(&self.fd)?.f_type == rustix::fs::PROC_SUPER_MAGIC {
                    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                    self.fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
                    self.trusted &= is_trusted(&rustix::fs::fstat(&self.fd)?);
                    self.path.push(name);
                    return Ok(Ok(Some(())));
                }
                self.links += 1;
                if self.links > MOST_LINKS {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                if target.is_absolute() {
                    *self = Self { links: self.links, ..Self::start(&target)? };
                }
                for name in components(&target).into_iter().rev() {
                    rest.push_front(name);
                }
            }
            _ => return Err(rustix::io::Errno::NOTDIR.into()),
        }
        Ok(Ok(Some(())))
    }

    fn make(&self, name: &OsStr) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(MADE)) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let fd = open_folder(&self.fd, name)?;
        Ok(rustix::fs::fchmod(&fd, Mode::from_raw_mode(MADE))?)
    }

    /// Whether only root can create entries in the folder. The sticky bit does not prevent others from moving links
    /// there.
    fn is_closed(&self) -> io::Result<bool> {
        Ok(rustix::fs::fstat(&self.fd)?.st_mode & 0o022 == 0)
    }
}

/// Components of a path; `..` is a component, as in the kernel.
fn components(path: &Path) -> VecDeque<OsString> {
    let name = |component: Component<'_>| match component {
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        other => Some(other.as_os_str().to_owned()),
    };
    path.components().filter_map(name).collect()
}

/// Owned by root, or by the current user if that is not root.
fn is_own(stat: &Stat) -> bool {
    stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Owned by root, and other users cannot replace root's entries in it.
fn is_trusted(stat: &Stat) -> bool {
    is_own(stat) && (stat.st_mode & 0o022 == 0 || stat.st_mode & 0o1000 != 0)
}
