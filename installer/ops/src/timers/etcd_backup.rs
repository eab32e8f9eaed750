//! `spec.etcd.backup`: a verified snapshot of etcd in a folder of the member, of which some are kept.

use std::time::Duration;

use kubexm_plan::op::SNAPSHOTS;
use kubexm_plan::timers::BackupConfig;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{backup_folder, encrypted_backup};
use crate::ops::etcd_snapshot;
use crate::{Machine, OpError, fsio};

const PREFIX: &str = "etcd-";
const END: &str = ".db";
/// Characters of the time in a name.
const STAMP: usize = 16;
/// How long a member may take after a boot.
const COMES_UP: Duration = Duration::from_secs(600);

/// What it did, and the mount that it is on.
pub(super) fn back_up(machine: &Machine, config: &BackupConfig, now: i64) -> Result<(String, Option<String>), OpError> {
    let dir = &config.dir;
    // A snapshot that is not encrypted: it goes also where the folder cannot be used.
    sweep(machine, config, SNAPSHOTS)?;
    let mount = backup_folder::mounted(machine, dir)?;
    backup_folder::ensure(machine, dir)?;
    sweep(machine, config, dir)?;
    let time = stamp(now)?;
    let name = format!("{PREFIX}{}-{time}", config.name);
    etcd_snapshot::await_member(machine, COMES_UP)?;
    let file = if config.recipients.is_empty() {
        // That may have taken ten minutes.
        backup_folder::refuse_open(machine, dir)?;
        etcd_snapshot::save(machine, dir, &name, backup_folder::spare(machine, dir)?)?;
        format!("{name}{END}")
    } else {
        let file = format!("{name}{END}{}", encrypted_backup::END);
        encrypted_backup::save(machine, config, &name, &file)?;
        file
    };
    let path = format!("{dir}/{file}");
    let size = machine.path(&path).metadata().map_err(OpError::path("look at", &path))?.len();
    // After the new one is there: what is kept is never less than before.
    let removed = retain(machine, config, &time, &file)?;
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

/// This host's backups by their times, oldest first, encrypted or not: the field may have changed meanwhile.
fn own(machine: &Machine, config: &BackupConfig) -> Result<Vec<(String, String)>, OpError> {
    let prefix = format!("{PREFIX}{}-", config.name);
    let timed = |name: String| {
        let plain = name.strip_suffix(encrypted_backup::END).unwrap_or(&name);
        let time = plain.strip_prefix(&prefix)?.strip_suffix(END).filter(|time| is_time(time))?.to_owned();
        Some((time, name))
    };
    let mut all: Vec<(String, String)> = names(machine, &config.dir)?.into_iter().filter_map(timed).collect();
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

/// Removes the oldest, but never the new one. What has a later time than that is of a clock that was wrong, and goes first.
fn retain(machine: &Machine, config: &BackupConfig, now: &str, new: &str) -> Result<usize, OpError> {
    let (mut all, later): (Vec<_>, Vec<_>) =
        own(machine, config)?.into_iter().partition(|(time, _)| time.as_str() <= now);
    let count = all.len() + later.len();
    all.retain(|(_, name)| name != new);
    let old = count.saturating_sub(config.keep.try_into().unwrap_or(usize::MAX));
    let gone: Vec<String> = later.into_iter().chain(all).take(old).map(|(_, name)| name).collect();
    for name in &gone {
        fsio::remove(&machine.path(format!("{}/{name}", config.dir)))?;
    }
    Ok(gone.len())
}

/// Removes what one that was killed has left in a folder, if that is there.
fn sweep(machine: &Machine, config: &BackupConfig, folder: &str) -> Result<(), OpError> {
    if !machine.path(folder).is_dir() {
        return Ok(());
    }
    let start = format!(".{PREFIX}{}-", config.name);
    let left = |name: &&String| {
        let rest = name.strip_prefix(&start).and_then(|rest| rest.split_once('.'));
        rest.is_some_and(|(time, end)| is_time(time) && end.starts_with("partial"))
    };
    for name in names(machine, folder)?.iter().filter(left) {
        fsio::remove(&machine.path(format!("{folder}/{name}")))?;
    }
    Ok(())
}
