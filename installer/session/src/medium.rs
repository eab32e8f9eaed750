//! Whether a file is on a medium that can be taken away: a stick, a card, a disk in a case.
//!
//! Inodes and times show that a file was replaced only as long as this machine's kernel did it: on another machine, root can write the file
//! system's own structures, and set both back.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Of tmpfs and overlayfs, which are no medium of their own.
pub const TMPFS: u32 = 0x0102_1994;
pub const OVERLAY: u32 = 0x794c_7630;

/// Devices of device mapper and MD on top of each other.
const DEEPEST: usize = 8;

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// In this machine.
    Fixed,
    /// On something that can be taken away.
    Removable,
    /// It cannot be determined.
    Unknown,
}

/// The medium of a path. What is on the file system of `own`, or of its nearest folder that is there, is the operator's.
pub(crate) fn of(path: &Path, own: &Path, magic: u32) -> io::Result<Medium> {
    let device = fs::metadata(path)?.dev();
    let own = own.ancestors().find_map(|folder| fs::metadata(folder).ok());
    if matches!(magic, TMPFS | OVERLAY) || own.is_some_and(|own| own.dev() == device) {
        return Ok(Medium::Fixed);
    }
    let device = match rustix::fs::major(device) {
        // btrfs and others have no device of their own: the one that was mounted.
        0 => mounted(&fs::read_to_string("/proc/self/mountinfo")?, &path.canonicalize()?)
            .and_then(|source| Some(fs::metadata(source).ok()?.rdev())),
        _ => Some(device),
    };
    let name = device.map(|device| format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device)));
    let found = name.and_then(|name| fs::canonicalize(Path::new("/sys/dev/block").join(name)).ok());
    Ok(found.map_or(Medium::Unknown, |device| of_device(&device, DEEPEST)))
}

/// The source of the mount that a path is on (proc(5), `mountinfo`).
fn mounted(mounts: &str, path: &Path) -> Option<PathBuf> {
    let mount = |line: &str| {
        let (place, source) = line.split_once(" - ")?;
        let (place, source) = (place.split(' ').nth(4)?, source.split(' ').nth(1)?);
        Some((PathBuf::from(unescaped(place)), PathBuf::from(unescaped(source))))
    };
    let on = mounts.lines().filter_map(mount).filter(|(place, _)| path.starts_with(place));
    // Later ones are on top.
    on.enumerate()
        .max_by_key(|(number, (place, _))| (place.components().count(), *number))
        .map(|(_, (_, source))| source)
}

/// Blanks and backslashes are octal there.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

/// A device by its folder in /sys: its disk says whether it is removable, its place whether it is on a bus that is plugged in while the
/// machine runs, and one that is made of others is what these are. Where blocks come from a file, a network or a program, whoever has
/// these writes them on another machine.
fn of_device(device: &Path, deepest: usize) -> Medium {
    let disk = match device.join("partition").exists() {
        true => device.parent().unwrap_or(device),
        false => device,
    };
    let below: Vec<PathBuf> = fs::read_dir(disk.join("slaves"))
        .into_iter()
        .flatten()
        .filter_map(|entry| fs::canonicalize(entry.ok()?.path()).ok())
        .collect();
    if !below.is_empty() {
        let Some(deepest) = deepest.checked_sub(1) else { return Medium::Unknown };
        let all = below.iter().map(|one| of_device(one, deepest));
        return all.reduce(worse).unwrap_or(Medium::Unknown);
    }
    let parts: Vec<&str> = disk.components().filter_map(|part| part.as_os_str().to_str()).collect();
    let any = |names: &[&str]| parts.iter().any(|part| names.iter().any(|name| is_numbered(part, name)));
    if any(&["usb", "fw", "mmc"]) {
        return Medium::Removable;
    }
    // iSCSI, RADOS. Virtual are loop, nbd, NVMe of a network and ublk, and also memory, and an NVMe that may have
    // several ways.
    let in_memory = parts.last().is_some_and(|part| is_numbered(part, "ram") || is_numbered(part, "zram"));
    let in_slots = parts.contains(&"nvme-subsystem") && is_in_slots(disk);
    let is_virtual = parts.contains(&"virtual") && !in_slots && !in_memory;
    if is_virtual || any(&["session", "rbd"]) {
        return Medium::Unknown;
    }
    match fs::read_to_string(disk.join("removable")) {
        Ok(text) if text.trim() == "0" => Medium::Fixed,
        Ok(_) => Medium::Removable,
        Err(_) => Medium::Unknown,
    }
}

/// Whether every way to an NVMe is a slot of this machine. The kernel has a link to the controller of each in the
/// folder of its subsystem.
fn is_in_slots(disk: &Path) -> bool {
    let is_controller = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.strip_prefix("nvme").is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let entries = disk.parent().and_then(|subsystem| fs::read_dir(subsystem).ok());
    let paths = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let controllers: Vec<PathBuf> = paths.filter(is_controller).collect();
    let in_slot = |path: &PathBuf| fs::read_to_string(path.join("transport")).is_ok_and(|text| text.trim() == "pcie");
    !controllers.is_empty() && controllers.iter().all(in_slot)
}

/// Whether it is such a name with a number: `usb2`, `mmc0:0001`.
fn is_numbered(part: &str, name: &str) -> bool {
    part.strip_prefix(name).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// What one of them that can be taken away makes of the whole.
const fn worse(one: Medium, other: Medium) -> Medium {
    match (one, other) {
        (Medium::Removable, _) | (_, Medium::Removable) => Medium::Removable,
        (Medium::Unknown, _) | (_, Medium::Unknown) => Medium::Unknown,
        (Medium::Fixed, Medium::Fixed) => Medium::Fixed,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder of a device, with files.
    fn device(sys: &Path, path: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = sys.join(path);
        fs::create_dir_all(&folder).unwrap();
        files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
        folder
    }

    #[test]
    fn sticks_cards_and_what_is_made_of_them_are_removable() {
        let sys = tempfile::tempdir().unwrap();
        let sys = sys.path();
        let disk = device(sys, "pci0/ata1/block/sda", &[("removable", "0\n")]);
        let part = device(sys, "pci0/ata1/block/sda/sda1", &[("partition", "1\n")]);
        device(sys, "pci0/ata2/block/sr0", &[("removable", "1\n")]);
        // A disk in a case calls itself fixed.
        device(sys, "pci0/usb2/2-1/block/sdb", &[("removable", "0\n")]);
        let stick = device(sys, "pci0/usb2/2-1/block/sdb/sdb1", &[("partition", "1\n")]);
        let card = device(sys, "platform/mmc_host/mmc0/mmc0:0001/block/mmcblk0", &[("removable", "0\n")]);
        let odd = device(sys, "virtual/block/odd", &[]);
        let made = |name: &str, of: &[&Path]| {
            let folder = device(sys, &format!("virtual/block/{name}/slaves"), &[]);
            of.iter().enumerate().for_each(|(number, one)| symlink(one, folder.join(number.to_string())).unwrap());
            sys.join("virtual/block").join(name)
        };
        for (folder, medium) in [
            (disk.clone(), Medium::Fixed),
            (part.clone(), Medium::Fixed),
            (sys.join("pci0/ata2/block/sr0"), Medium::Removable),
            (stick.clone(), Medium::Removable),
            (card, Medium::Removable),
            (odd.clone(), Medium::Unknown),
            (made("dm-0", &[&part]), Medium::Fixed),
            (made("dm-1", &[&part, &stick]), Medium::Removable),
            (made("md0", &[&part, &odd]), Medium::Unknown),
        ] {
            assert_eq!(of_device(&folder, DEEPEST), medium, "{}", folder.display());
        }
        // A disk of MD has partitions of its own; they are what it is made of.
        let md = made("md1", &[&part]);
        let of_md = device(sys, "virtual/block/md1/md1p1", &[("partition", "1\n")]);
        assert_eq!((of_device(&md, DEEPEST), of_device(&of_md, DEEPEST)), (Medium::Fixed, Medium::Fixed));
        let round = made("dm-9", &[]);
        symlink(&round, round.join("slaves/0")).unwrap();
        assert_eq!(of_device(&round, DEEPEST), Medium::Unknown);
    }

    #[test]
    fn what_comes_from_a_file_or_over_a_network_is_not_in_this_machine() {
        let sys = tempfile::tempdir().unwrap();
        let disk = |path: &str| device(sys.path(), path, &[("removable", "0\n")]);
        for (path, medium) in [
            ("virtual/block/loop0", Medium::Unknown),
            ("virtual/block/nbd0", Medium::Unknown),
            ("virtual/nvme-fabrics/ctl/nvme1/nvme1n1", Medium::Unknown),
            ("platform/host3/session1/target3:0:0/3:0:0:0/block/sdb", Medium::Unknown),
            ("rbd/0/block/rbd0", Medium::Unknown),
            ("virtual/block/ram0", Medium::Fixed),
            ("virtual/block/zram0", Medium::Fixed),
            ("pci0/virtio1/block/vda", Medium::Fixed),
        ] {
            assert_eq!(of_device(&disk(path), DEEPEST), medium, "{path}");
        }
        // An encrypted one on it, and a partition.
        let (file, slaves) = (disk("virtual/block/loop1"), device(sys.path(), "virtual/block/dm-0/slaves", &[]));
        symlink(&file, slaves.join("loop1")).unwrap();
        let part = device(sys.path(), "virtual/block/loop1/loop1p1", &[("partition", "1\n")]);
        for device in [sys.path().join("virtual/block/dm-0"), part] {
            assert_eq!(of_device(&device, DEEPEST), Medium::Unknown, "{}", device.display());
        }
    }

    #[test]
    fn an_nvme_is_in_this_machine_if_all_ways_to_it_are() {
        let cases: [(&[&str], Medium); 5] = [
            (&["pcie\n"], Medium::Fixed),
            (&["pcie\n", "pcie\n"], Medium::Fixed),
            (&["tcp\n"], Medium::Unknown),
            (&["pcie\n", "rdma\n"], Medium::Unknown),
            (&[], Medium::Unknown),
        ];
        for (ways, medium) in cases {
            let sys = tempfile::tempdir().unwrap();
            let disk = device(sys.path(), "virtual/nvme-subsystem/nvme-subsys0/nvme0n1", &[("removable", "0\n")]);
            let part = device(&disk, "nvme0n1p1", &[("partition", "1\n")]);
            for (number, way) in ways.iter().enumerate() {
                let controller = device(sys.path(), &format!("ctl/nvme{number}"), &[("transport", *way)]);
                symlink(controller, disk.with_file_name(format!("nvme{number}"))).unwrap();
            }
            assert_eq!((of_device(&disk, DEEPEST), of_device(&part, DEEPEST)), (medium, medium), "{ways:?}");
        }
    }

    #[test]
    fn the_device_of_a_mount_is_that_of_the_innermost_and_last_one() {
        let mounts = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      30 21 0:40 /@ /media/my\\040stick rw shared:5 - btrfs /dev/sdb1 rw\n\
                      31 21 0:41 / /media rw - tmpfs tmpfs rw\n\
                      32 21 0:42 / /media/my\\040stick rw - btrfs /dev/sdc1 rw\n";
        let source = |path: &str| mounted(mounts, Path::new(path));
        assert_eq!(source("/media/my stick/site.tar.zst"), Some(PathBuf::from("/dev/sdc1")));
        assert_eq!(source("/media/my sticks"), Some(PathBuf::from("tmpfs")));
        assert_eq!(source("/root/site.tar.zst"), Some(PathBuf::from("/dev/sda1")));
        assert_eq!(mounted("", Path::new("/a")), None);
    }

    #[test]
    fn what_is_on_the_file_system_of_the_home_or_in_memory_is_fixed() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(of(folder.path(), &folder.path().join("home/of/nobody"), 0xef53).unwrap(), Medium::Fixed);
        assert_eq!(of(Path::new("/dev/shm"), folder.path(), TMPFS).unwrap(), Medium::Fixed);
        assert!(of(Path::new("/nowhere"), folder.path(), 0xef53).is_err());
    }
}
