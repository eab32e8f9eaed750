//! What something that runs was started with: the digests of its files, recorded with the id of that start. A unit's id
//! is its invocation, a static pod's that of its container.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kubexm_plan::op::Started;
use kubexm_spec::Digest;
use rustix::time::{ClockId, clock_gettime};

use crate::fsio::{self, Access};
use crate::path_state::{Look, PathEntry};
use crate::{Machine, OpError, paths};

/// Whether what runs now was started with these files: by us, or by a later boot.
pub(crate) fn holds(started: &Started, invocation: &str, boot: &str, now: &BTreeMap<String, Digest>) -> bool {
    started.loaded == *now && (started.invocation == invocation || started.boot != boot)
}

/// The same of what somebody else has started since, at that moment of the monotonic clock: systemd after a crash. It has the files of
/// the record if none of them that is there has changed since shortly before, not even for a while. Not seen is a file
/// that was there only for a while, a folder above that was moved away and back, and a change before the clock was set
/// forward: only root can do these, and it takes the same content as in the record twice.
pub(crate) fn holds_since<'p>(
    machine: &Machine,
    started: &Started,
    at: Duration,
    paths: impl Iterator<Item = &'p String>,
    now: &BTreeMap<String, Digest>,
) -> Result<bool, OpError> {
    if started.loaded != *now {
        return Ok(false);
    }
    let clock = |id| {
        let time = clock_gettime(id);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
    };
    let running = clock(ClockId::Monotonic).saturating_sub(at);
    let Some(before) = clock(ClockId::Realtime).checked_sub(running + MARGIN) else { return Ok(false) };
    for path in paths {
        if changed(&machine.path(path))?.is_some_and(|changed| changed > before) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Times of files come from a clock of its own, in steps of some milliseconds.
const MARGIN: Duration = Duration::from_secs(1);

/// When something of a file, or of a folder and all that is in it, was changed last; none where there is none.
fn changed(path: &Path) -> Result<Option<Duration>, OpError> {
    let mut newest = None;
    for entry in walkdir::WalkDir::new(path) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if error.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound) => continue,
            Err(error) => return Err(OpError::other(format!("cannot look at {}: {error}", path.display()))),
        };
        // Of a link: when it was made, and when that changed to which it leads.
        for found in [std::fs::symlink_metadata(entry.path()), std::fs::metadata(entry.path())].into_iter().flatten() {
            let nanoseconds = u32::try_from(found.ctime_nsec()).unwrap_or_default();
            newest = newest.max(Some(Duration::new(found.ctime().unsigned_abs(), nanoseconds)));
        }
    }
    Ok(newest)
}

fn record_path(machine: &Machine, name: &str) -> PathBuf {
    machine.path(format!("{}/{name}.json", paths::UNITS))
}

pub(crate) fn remove_record(machine: &Machine, name: &str) -> Result<(), OpError> {
    fsio::remove(&record_path(machine, name))?;
    // The folder goes with the last record; that it still holds others is no error.
    let _ = std::fs::remove_dir(machine.path(paths::UNITS));
    Ok(())
}

/// The id the kernel took at this boot; empty on a machine that is only a directory.
pub(crate) fn boot_id(machine: &Machine) -> Result<String, OpError> {
    let id = fsio::read_text(&machine.path("/proc/sys/kernel/random/boot_id"))?;
    Ok(id.unwrap_or_default().trim().to_owned())
}

pub(crate) fn read_record(machine: &Machine, name: &str) -> Result<Option<Started>, OpError> {
    Ok(fsio::read(&record_path(machine, name))?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

pub(crate) fn write_record(
    machine: &Machine,
    name: &str,
    invocation: String,
    loaded: BTreeMap<String, Digest>,
) -> Result<(), OpError> {
    let record = Started { invocation, boot: boot_id(machine)?, loaded };
    let text = serde_json::to_vec(&record)
        .map_err(|error| OpError::other(format!("the record of {name} cannot be written as JSON: {error}")))?;
    machine.write_file(&format!("{}/{name}.json", paths::UNITS), &text, Access::mode(0o600))
}

/// Digests of the files that are there; a folder counts with every file in it.
pub(crate) fn digests<'p>(
    machine: &Machine,
    paths: impl Iterator<Item = &'p String>,
) -> Result<BTreeMap<String, Digest>, OpError> {
    let mut digests = BTreeMap::new();
    for path in paths {
        match PathEntry::look(machine, path)? {
            PathEntry::File { digest, .. } => {
                digests.insert(path.clone(), digest);
            }
            PathEntry::Directory { .. } => {
                for entry in walkdir::WalkDir::new(machine.path(path)).sort_by_file_name() {
                    let entry = entry.map_err(|error| OpError::other(format!("cannot list {path}: {error}")))?;
                    if entry.file_type().is_file() {
                        let below = entry.path().strip_prefix(machine.path(path)).unwrap_or(entry.path());
                        digests.insert(format!("{path}/{}", below.display()), fsio::digest(entry.path())?);
                    }
                }
            }
            PathEntry::Link { .. } if machine.path(path).is_file() => {
                digests.insert(path.clone(), fsio::digest(&machine.path(path))?);
            }
            PathEntry::Absent | PathEntry::Link { .. } | PathEntry::Special => {}
        }
    }
    Ok(digests)
}
