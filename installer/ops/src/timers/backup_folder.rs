//! The folder of `spec.etcd.backup`: the mount that it is on, whose it is, and how much room stays free.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use kubexm_plan::facts::OpenFolder;
use kubexm_plan::timers::ETCD_BACKUP;

use super::record;
use crate::facts::open_folders;
use crate::ops::etcd_snapshot;
use crate::path_state::{Look as _, PathEntry};
use crate::teardown::mounts;
use crate::{Machine, OpError, fsio, own_etcd};

/// Of the file system that etcd's own data is on, so much stays free: from less than a tenth on kubelet evicts pods.
const FREE_PERCENT: u64 = 15;
/// At most this many bytes of it.
const MOST_SPARE: u64 = 4 << 30;

/// Room that is left beside etcd's own data.
pub(super) fn spare(machine: &Machine, dir: &str) -> Result<u64, OpError> {
    let data = own_etcd::data_dir(machine)?;
    let device = |path: &str| machine.path(path).metadata().ok().map(|found| found.dev());
    if device(dir).is_none() || device(dir) != device(&data) {
        return Ok(etcd_snapshot::SPARE);
    }
    let size = machine.system().space(dir)?.size;
    // kubelet evicts pods by percent; a snapshot is small beside a large disk, which may be fuller than that for years.
    Ok(etcd_snapshot::SPARE.max((size / 100 * FREE_PERCENT).min(MOST_SPARE)))
}

/// The mount of the folder. One that was there at the last backup and is not any more would let backups fill the disk below it, where
/// nobody looks for them.
pub(super) fn mounted(machine: &Machine, dir: &str) -> Result<Option<String>, OpError> {
    let dir = &behind_links(machine, dir);
    let mut now = None;
    for folder in Path::new(dir).ancestors().take_while(|folder| folder.parent().is_some()) {
        if mounts::at(machine, &folder.to_string_lossy())?.is_some() {
            now = Some(folder.to_string_lossy().into_owned());
            break;
        }
    }
    let above = |point: &String| point != "/" && Path::new(dir).starts_with(point);
    for point in mounts::fstab_points(machine)?.into_iter().filter(above) {
        if !mounts::is_point(machine, &point)? {
            return Err(OpError::other(format!(
                "/etc/fstab has a file system at {point}, where the backups are to be, and it is not mounted: mount it, or remove that line"
            )));
        }
    }
    let before = record::read(machine, ETCD_BACKUP)?.and_then(|last| last.mount);
    match before.filter(|before| now.as_ref() != Some(before)) {
        // One that lies within another is as good.
        Some(before) if Path::new(dir).starts_with(&before) && !mounts::is_point(machine, &before)? => {
            Err(OpError::other(format!(
                "the file system at {before}, which has the earlier backups, is not mounted: mount it; if backups are meant to be on the \
                 disk below it from now on, remove {}, and start the service again",
                ETCD_BACKUP.record()
            )))
        }
        _ => Ok(now),
    }
}

/// The folder as the kernel names it: one above it may be a link to another disk.
fn behind_links(machine: &Machine, dir: &str) -> String {
    let there = Path::new(dir).ancestors().find_map(|folder| {
        let real = machine.is_real().then(|| std::fs::canonicalize(folder).ok()).flatten()?;
        Some(real.join(Path::new(dir).strip_prefix(folder).ok()?))
    });
    // Without the slash that `join` leaves where nothing follows.
    there.map_or_else(|| dir.to_owned(), |path| path.to_string_lossy().trim_end_matches('/').to_owned())
}

/// Made for root alone. One that is there is left as it is, if it and all that leads to it are root's, and nobody else can write there:
/// etcdctl is given a path, at which another user could place a link or a file of his own.
pub(super) fn ensure(machine: &Machine, dir: &str) -> Result<(), OpError> {
    refuse_open(machine, dir)?;
    match PathEntry::look(machine, dir)? {
        PathEntry::Absent => {
            fsio::private_folder(&machine.path(dir))?;
            // Somebody may have been first.
            refuse_open(machine, dir)
        }
        PathEntry::Directory { .. } => Ok(()),
        PathEntry::File { .. } | PathEntry::Link { .. } | PathEntry::Special => Err(OpError::other(format!(
            "{dir} is no folder: name another one in spec.etcd.backup.dir, or move it away"
        ))),
    }
}

pub(super) fn refuse_open(machine: &Machine, dir: &str) -> Result<(), OpError> {
    let Some(OpenFolder { at, owner, mode, .. }) = open_folders::one(machine, dir, false)? else { return Ok(()) };
    Err(OpError::other(match owner {
        Some(_) => format!(
            "{at} belongs to another user, who could replace a backup or read it: `chown root:root`, or name a folder in \
             spec.etcd.backup.dir that is root's, with all that leads to it (an export needs no_root_squash)"
        ),
        None => format!(
            "{at} can be written by others than its owner (mode {mode:04o}), who could replace a backup in {dir}: `chmod go-w`, or name \
             another folder in spec.etcd.backup.dir"
        ),
    }))
}
