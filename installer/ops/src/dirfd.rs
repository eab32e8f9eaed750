//! Folders opened one component after the other, so that no link of another user leads root elsewhere.
//!
//! Below a folder that another user may write to, every name may become a link at any moment: what was looked at by path
//! is not what the next system call on that path changes. A [`DirFd`] is a descriptor; everything is done relative to it.
//!
//! Links are followed only where nobody but root can have put them: in a folder that root owns and others cannot write
//! to, with only such folders before it. That is where administrators and distributions have theirs (`/var/run`, a
//! `/var/lib/containerd` on another disk).

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid};

use crate::OpError;

/// As many links as the kernel follows in one path (MAXSYMLINKS).
const MOST_LINKS: usize = 40;
/// Mode of folders that are made on the way.
const MADE: u32 = 0o755;

/// An open folder.
#[derive(Debug)]
pub(crate) struct DirFd {
    fd: OwnedFd,
    /// For messages.
    path: PathBuf,
}

impl DirFd {
    /// Opens a folder that is there.
    pub(crate) fn open(path: &Path) -> Result<Self, OpError> {
        Walk::to(path, false)
    }

    /// Opens a folder; it and its parents are made where they are missing, 0755 whatever the umask of a hardened host:
    /// services of other users read there.
    pub(crate) fn make(path: &Path) -> Result<Self, OpError> {
        Walk::to(path, true)
    }

    /// The folder of a path, which must be there, and the path's last component.
    pub(crate) fn of(path: &Path) -> Result<(Self, &OsStr), OpError> {
        let (folder, name) = split(path)?;
        Ok((Self::open(folder)?, name))
    }

    /// As [`DirFd::of`], and makes the folder.
    pub(crate) fn made_for(path: &Path) -> Result<(Self, &OsStr), OpError> {
        let (folder, name) = split(path)?;
        Ok((Self::make(folder)?, name))
    }

    /// Opens or makes a folder in this one. It is given to its owner only when it was made here.
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
            // Whoever may write to this folder may have put another one there meanwhile: one with something in it is not
            // the one that was made, and is not given away.
            let empty = child.names()?.is_empty();
            let ours = child.stat()?.st_uid == rustix::process::geteuid().as_raw();
            if !(empty && ours) {
                return Err(OpError::other(format!(
                    "{} was replaced while it was being made: another process works there; end it and resume",
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

    /// A new file of this process, 0600, under a name that nothing had. It goes with the guard unless it is renamed.
    pub(crate) fn temporary(&self) -> Result<Temporary<'_>, OpError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (fd, name) = self
            .unused(|name| rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(0o600)))
            .map_err(OpError::path("make a temporary file in", &self.path))?;
        Ok(Temporary { folder: self, name, file: File::from(fd), kept: false })
    }

    /// Puts a symbolic link into place by rename.
    pub(crate) fn put_link(&self, target: &str, name: &OsStr) -> Result<(), OpError> {
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

    /// Removes a file or link.
    pub(crate) fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    pub(crate) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Makes a folder of this process alone.
    pub(crate) fn make_private(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o700))?)
    }

    /// Mode and owner of the folder itself.
    pub(crate) fn set_access(&self, mode: u32, owner: Option<(u32, u32)>) -> Result<(), OpError> {
        set_access(&self.fd, mode, owner, &self.path)
    }

    /// Makes what happened to the entries last.
    pub(crate) fn sync(&self) -> Result<(), OpError> {
        rustix::fs::fsync(&self.fd).map_err(|error| OpError::path("sync", &self.path)(error.into()))
    }

    fn stat(&self) -> Result<Stat, OpError> {
        rustix::fs::fstat(&self.fd).map_err(|error| OpError::path("look at", &self.path)(error.into()))
    }

    /// Where an entry leads, when it is a link.
    fn link(&self, name: &OsStr) -> Option<PathBuf> {
        let target = rustix::fs::readlinkat(&self.fd, name, Vec::new()).ok()?;
        Some(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Names of what is in it, sorted.
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

    /// A folder in this one; none when it is something else, a link among them, or gone.
    pub(crate) fn inner(&self, name: &OsStr) -> Result<Option<Self>, OpError> {
        let path = self.path.join(name);
        match open_folder(&self.fd, name) {
            Ok(fd) => Ok(Some(Self { fd, path })),
            // A link gives one of the first two, by the kernel's version.
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

    /// Which file system it lies on.
    pub(crate) fn device(&self) -> Result<u64, OpError> {
        Ok(self.stat()?.st_dev)
    }

    /// Makes something under a name of its own; tries again when the name is taken.
    fn unused<T>(&self, mut make: impl FnMut(&OsStr) -> rustix::io::Result<T>) -> io::Result<(T, OsString)> {
        use std::hash::{BuildHasher, RandomState};
        for attempt in 0..100_u32 {
            // Keys of a RandomState come from the system's random numbers.
            let name = OsString::from(format!(".kubexm-{:016x}", RandomState::new().hash_one(attempt)));
            match make(&name) {
                Err(error) if error == rustix::io::Errno::EXIST => {}
                made => return Ok((made?, name)),
            }
        }
        Err(io::Error::from(ErrorKind::AlreadyExists))
    }
}

/// A file that is being written, beside the one that it will replace.
#[derive(Debug)]
pub(crate) struct Temporary<'f> {
    folder: &'f DirFd,
    name: OsString,
    pub(crate) file: File,
    kept: bool,
}

impl Temporary<'_> {
    /// Gives it its mode and owner, brings it to the disk and puts it into place. What is there is replaced, never
    /// followed.
    pub(crate) fn put(mut self, name: &OsStr, mode: u32, owner: Option<(u32, u32)>) -> Result<(), OpError> {
        let place = self.folder.path.join(name);
        set_access(&self.file, mode, owner, &place)?;
        self.file.sync_all().map_err(OpError::path("sync", &place))?;
        self.folder.rename(&self.name, self.folder, name).map_err(OpError::path("replace", &place))?;
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
         with a folder, then resume",
        link.display(),
        target.display()
    ))
}

/// A path on its way to a folder.
struct Walk {
    fd: OwnedFd,
    path: PathBuf,
    /// Only root can have put what lies in the folders so far.
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

    /// Goes into a folder, or puts a link's target before the rest. None: there is nothing of that name.
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
                // What a link of /proc says is not always where it leads (`/proc/<pid>/root`): the kernel makes and follows them.
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

    /// Whether only root may put entries into the folder. A sticky one does not keep out links that others move there.
    fn is_closed(&self) -> io::Result<bool> {
        Ok(rustix::fs::fstat(&self.fd)?.st_mode & 0o022 == 0)
    }
}

/// Names between the separators; `..` is one, as it is for the kernel.
fn components(path: &Path) -> VecDeque<OsString> {
    let name = |component: Component<'_>| match component {
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        other => Some(other.as_os_str().to_owned()),
    };
    path.components().filter_map(name).collect()
}

/// Of root, or of who runs this where that is somebody else.
fn is_own(stat: &Stat) -> bool {
    stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw()
}

/// A folder of root in which no other user can replace what root has put there.
fn is_trusted(stat: &Stat) -> bool {
    is_own(stat) && (stat.st_mode & 0o022 == 0 || stat.st_mode & 0o1000 != 0)
}
