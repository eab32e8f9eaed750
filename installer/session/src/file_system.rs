//! File systems whose metadata identify a file: a changed file gets another inode or a later ctime.
//!
//! FAT and exFAT have no ctime and make up inodes, servers and FUSE programs answer whatever they like, so the list is
//! of those that are known to be reliable (magic numbers of statfs(2)); everything else is not.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use crate::medium::{self, Medium};

/// ext2 to ext4, XFS, btrfs, tmpfs, overlayfs, ZFS, F2FS and bcachefs: local, with inodes and a ctime set by the kernel.
const RELIABLE: [u32; 8] =
    [0xef53, 0x5846_5342, 0x9123_683e, medium::TMPFS, medium::OVERLAY, 0x2fc1_2fc1, 0xf2f5_2010, 0xca45_1a4e];

/// Others by name, for messages.
const NAMES: [(u32, &str); 11] = [
    (0x4d44, "FAT"),
    (0x2011_bab0, "exFAT"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x517b, "SMB"),
    (0x6969, "NFS"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x7366_746e, "NTFS"),
    (0x9660, "ISO 9660"),
    (0x1501_3346, "UDF"),
];

/// The file system of a path.
pub trait FileSystems: Send + Sync {
    /// The magic number of its type (`f_type` of statfs(2)).
    ///
    /// # Errors
    /// The path cannot be examined.
    fn magic(&self, path: &Path) -> io::Result<u32>;

    /// Whether it is on a medium that somebody may take away, change elsewhere and bring back. `own` is a path that belongs to the
    /// operator: what is on the same file system counts as fixed.
    ///
    /// # Errors
    /// The path cannot be examined.
    fn medium(&self, path: &Path, own: &Path) -> io::Result<Medium>;
}

/// The file systems that are mounted here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mounted;

impl FileSystems for Mounted {
    #[allow(
        clippy::allow_attributes,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::unnecessary_cast,
        reason = "magic numbers have 32 bits, and the field's type depends on the platform"
    )]
    fn magic(&self, path: &Path) -> io::Result<u32> {
        Ok(rustix::fs::statfs(path)?.f_type as u32)
    }

    fn medium(&self, path: &Path, own: &Path) -> io::Result<Medium> {
        medium::of(path, own, self.magic(path)?)
    }
}

/// The name of a file system whose metadata do not identify a file; none if they do.
pub fn unreliable(magic: u32) -> Option<Cow<'static, str>> {
    if RELIABLE.contains(&magic) {
        return None;
    }
    let named = NAMES.iter().find(|(number, _)| *number == magic);
    Some(
        named.map_or_else(|| Cow::Owned(format!("a file system of type {magic:#x}")), |(_, name)| Cow::Borrowed(*name)),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn only_local_file_systems_with_inodes_and_a_ctime_are_reliable() {
        let others = [
            (0x4d44, "FAT"),
            (0x2011_bab0, "exFAT"),
            (0xff53_4d42, "CIFS"),
            (0xfe53_4d42, "SMB2"),
            (0x517b, "SMB"),
            (0x6969, "NFS"),
            (0x6573_5546, "FUSE"),
            (0x1234, "a file system of type 0x1234"),
        ];
        for (magic, name) in others {
            assert_eq!(unreliable(magic).as_deref(), Some(name));
        }
        for magic in [0xef53, 0x5846_5342, 0x9123_683e, medium::TMPFS, medium::OVERLAY] {
            assert_eq!(unreliable(magic), None, "{magic:#x}");
        }
    }

    #[test]
    fn mounted_file_systems_are_asked_by_path() {
        assert_eq!(Mounted.magic(Path::new("/dev/shm")).unwrap(), 0x0102_1994);
        assert_eq!(Mounted.magic(Path::new("/proc")).unwrap(), 0x9fa0);
        assert!(Mounted.magic(Path::new("/nowhere")).is_err());
    }
}
