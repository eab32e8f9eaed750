//! `spec.etcd.backup`: a verified snapshot of etcd in a folder of the member, of which some are kept.

use std::path::Path;

use kubexm_plan::timers::{BackupConfig, ETCD_BACKUP};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::record;
use crate::ops::etcd_snapshot;
use crate::path_state::{Look as _, PathEntry};
use crate::teardown::mounts;
use crate::{Machine, OpError, fsio};

const PREFIX: &str = "etcd-";
const END: &str = ".db";
/// Characters of the time in a name.
const STAMP: usize = 16;

/// What it did, and the mount that it is on.
pub(super) fn back_up(machine: &Machine, config: &BackupConfig, now: i64) -> Result<(String, Option<String>), OpError> {
    let mount = mounted(machine, &config.dir)?;
    own_folder(machine, &config.dir)?;
    sweep(machine, config)?;
    let name = format!("{PREFIX}{}-{}", config.host, stamp(now)?);
    etcd_snapshot::save(machine, &config.dir, &name)?;
    let path = format!("{}/{name}{END}", config.dir);
    let size = machine.path(&path).metadata().map_err(OpError::path("look at", &path))?.len();
    // After the new one is there: what is kept is never less than before.
    let removed = retain(machine, config)?;
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

/// The mount of the folder. One that was there at the last backup and is not any more would let backups fill the disk below it, where
/// nobody looks for them.
fn mounted(machine: &Machine, dir: &str) -> Result<Option<String>, OpError> {
    let mut now = None;
    for folder in Path::new(dir).ancestors().take_while(|folder| folder.parent().is_some()) {
        if mounts::at(machine, &folder.to_string_lossy())?.is_some() {
            now = Some(folder.to_string_lossy().into_owned());
            break;
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

/// Made for root alone. One that is there is left as it is, if nobody else can write to it: files in it are root's alone.
fn own_folder(machine: &Machine, dir: &str) -> Result<(), OpError> {
    match PathEntry::look(machine, dir)? {
        PathEntry::Absent => fsio::private_folder(&machine.path(dir)),
        PathEntry::Directory { mode } if mode & 0o022 == 0 => Ok(()),
        PathEntry::Directory { mode } => Err(OpError::other(format!(
            "{dir} can be written by others than its owner (mode {mode:04o}), who could replace a backup: `chmod go-w {dir}`, or name another \
             folder in spec.etcd.backup.dir"
        ))),
        PathEntry::File { .. } | PathEntry::Link { .. } | PathEntry::Special => Err(OpError::other(format!(
            "{dir} is no folder: name another one in spec.etcd.backup.dir, or move it away"
        ))),
    }
}

/// This host's backups, the oldest first.
fn own(machine: &Machine, config: &BackupConfig) -> Result<Vec<String>, OpError> {
    let prefix = format!("{PREFIX}{}-", config.host);
    let is_time = |text: &str| {
        text.len() == STAMP && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'T' | b'Z'))
    };
    let is_own =
        |name: &String| name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(END)).is_some_and(is_time);
    let mut all: Vec<String> = names(machine, &config.dir)?.into_iter().filter(is_own).collect();
    all.sort_unstable();
    Ok(all)
}

fn names(machine: &Machine, dir: &str) -> Result<Vec<String>, OpError> {
    let real = machine.path(dir);
    let failed = OpError::path("list", &real);
    let entries = std::fs::read_dir(&real).and_then(Iterator::collect::<std::io::Result<Vec<_>>>).map_err(failed)?;
    Ok(entries.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

fn retain(machine: &Machine, config: &BackupConfig) -> Result<usize, OpError> {
    let all = own(machine, config)?;
    let old = all.len().saturating_sub(config.keep.try_into().unwrap_or(usize::MAX));
    for name in &all[..old] {
        fsio::remove(&machine.path(format!("{}/{name}", config.dir)))?;
    }
    Ok(old)
}

/// Removes what one that was killed has left.
fn sweep(machine: &Machine, config: &BackupConfig) -> Result<(), OpError> {
    let start = format!(".{PREFIX}{}-", config.host);
    let left = |name: &&String| name.starts_with(&start) && name.contains(".partial");
    for name in names(machine, &config.dir)?.iter().filter(left) {
        fsio::remove(&machine.path(format!("{}/{name}", config.dir)))?;
    }
    Ok(())
}
