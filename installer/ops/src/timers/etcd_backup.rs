//! `spec.etcd.backup`: a verified snapshot of etcd in a folder of the member, of which some are kept.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use kubexm_plan::facts::OpenFolder;
use kubexm_plan::timers::{BackupConfig, ETCD_BACKUP};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::record;
use crate::facts::open_folders;
use crate::ops::etcd_snapshot;
use crate::path_state::{Look as _, PathEntry};
use crate::teardown::mounts;
use crate::{Machine, OpError, fsio, own_etcd};

const PREFIX: &str = "etcd-";
const END: &str = ".db";
/// Characters of the time in a name.
const STAMP: usize = 16;
/// How long a member may take after a boot.
const COMES_UP: Duration = Duration::from_secs(600);
/// Of the file system that etcd's own data is on, so much stays free: from less than a tenth on kubelet evicts pods.
const FREE_PERCENT: u64 = 15;
/// At most this many bytes of it.
const MOST_SPARE: u64 = 4 << 30;

/// What it did, and the mount that it is on.
pub(super) fn back_up(machine: &Machine, config: &BackupConfig, now: i64) -> Result<(String, Option<String>), OpError> {
    let mount = mounted(machine, &config.dir)?;
    own_folder(machine, &config.dir)?;
    sweep(machine, config)?;
    let time = stamp(now)?;
    let name = format!("{PREFIX}{}-{time}", config.name);
    etcd_snapshot::await_member(machine, COMES_UP)?;
    // That may have taken ten minutes.
    refuse_open(machine, &config.dir)?;
    etcd_snapshot::save(machine, &config.dir, &name, spare(machine, &config.dir)?)?;
    let path = format!("{}/{name}{END}", config.dir);
    let size = machine.path(&path).metadata().map_err(OpError::path("look at", &path))?.len();
    // After the new one is there: what is kept is never less than before.
    let removed = retain(machine, config, &time)?;
    let mut what = format!("etcd was backed up to {path} ({} KiB)", size.div_ceil(1024));
    if removed > 0 {
        what.push_str(&format!("; {removed} older removed, {} kept", config.keep));
    }
    Ok((what, mount))
}

/// A time that sorts as text and needs no quotes anywhere: `20261126T030000Z`.
fn stamp(now: i64) -> Result<String, OpError> {
    let date = OffsetDateTime::from_unix_timestamp(now).ok().and_then(|date| date.format(&Rfc3339).ok());
    let text = date.map(|text| text.replace(['-', ':'], "")).filter(|text| text.len() == STAMP);
    text.ok_or_else(|| OpError::other(format!("the clock of this host is wrong: {now} s after 1970 is in no calendar")))
}

/// Room that is left beside etcd's own data.
fn spare(machine: &Machine, dir: &str) -> Result<u64, OpError> {
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
fn mounted(machine: &Machine, dir: &str) -> Result<Option<String>, OpError> {
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
fn own_folder(machine: &Machine, dir: &str) -> Result<(), OpError> {
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

fn refuse_open(machine: &Machine, dir: &str) -> Result<(), OpError> {
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

/// The times of this host's backups, sorted.
fn own(machine: &Machine, config: &BackupConfig) -> Result<Vec<String>, OpError> {
    let prefix = format!("{PREFIX}{}-", config.name);
    let time = |name: String| {
        let time = name.strip_prefix(&prefix)?.strip_suffix(END)?;
        is_time(time).then(|| time.to_owned())
    };
    let mut all: Vec<String> = names(machine, &config.dir)?.into_iter().filter_map(time).collect();
    all.sort_unstable();
    Ok(all)
}

fn is_time(text: &str) -> bool {
    text.len() == STAMP && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'T' | b'Z'))
}

fn names(machine: &Machine, dir: &str) -> Result<Vec<String>, OpError> {
    let real = machine.path(dir);
    let failed = OpError::path("list", &real);
    let entries = std::fs::read_dir(&real).and_then(Iterator::collect::<std::io::Result<Vec<_>>>).map_err(failed)?;
    Ok(entries.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// Removes the oldest. What has a later time than the one that was made now is of a clock that was wrong, and goes first.
fn retain(machine: &Machine, config: &BackupConfig, now: &str) -> Result<usize, OpError> {
    let (mut all, later): (Vec<String>, Vec<String>) =
        own(machine, config)?.into_iter().partition(|time| time.as_str() <= now);
    let count = all.len() + later.len();
    all.retain(|time| time != now);
    let old = count.saturating_sub(config.keep.try_into().unwrap_or(usize::MAX));
    let gone: Vec<String> = later.into_iter().chain(all).take(old).collect();
    for time in &gone {
        fsio::remove(&machine.path(format!("{}/{PREFIX}{}-{time}{END}", config.dir, config.name)))?;
    }
    Ok(gone.len())
}

/// Removes what one that was killed has left.
fn sweep(machine: &Machine, config: &BackupConfig) -> Result<(), OpError> {
    let start = format!(".{PREFIX}{}-", config.name);
    let left = |name: &&String| {
        let rest = name.strip_prefix(&start).and_then(|rest| rest.split_once('.'));
        rest.is_some_and(|(time, end)| is_time(time) && end.starts_with("partial"))
    };
    for name in names(machine, &config.dir)?.iter().filter(left) {
        fsio::remove(&machine.path(format!("{}/{name}", config.dir)))?;
    }
    Ok(())
}
