//! What something that runs was started with: the digests of its files, recorded with the id of that start. A unit's id
//! is its invocation, a static pod's that of its container.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubexm_plan::op::Started;
use kubexm_spec::Digest;

use crate::fsio::{self, Access};
use crate::path_state::{Look, PathEntry};
use crate::{Machine, OpError, paths};

/// Whether what runs now was started with these files: by us, or by a later boot.
pub(crate) fn holds(started: &Started, invocation: &str, boot: &str, now: &BTreeMap<String, Digest>) -> bool {
    started.loaded == *now && (started.invocation == invocation || started.boot != boot)
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
