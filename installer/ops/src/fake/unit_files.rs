//! Unit files of a fake host.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubexm_spec::Digest;

use super::rooted::RootedSystem;

pub(super) const FOLDERS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// Every unit and the digest of its file with its drop-ins.
pub(super) fn files(system: &RootedSystem) -> BTreeMap<String, Digest> {
    let mut known = BTreeMap::new();
    for folder in FOLDERS {
        let Ok(entries) = std::fs::read_dir(system.at(folder)) else { continue };
        for name in entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()) {
            if [".service", ".swap", ".timer"].iter().any(|end| name.ends_with(end)) {
                known.insert(name.clone(), Digest::of(text(system, &name)));
            }
        }
    }
    known
}

pub(super) fn text(system: &RootedSystem, unit: &str) -> String {
    let Some((path, real)) = file(system, unit) else { return String::new() };
    let mut text = std::fs::read_to_string(real).unwrap_or_default();
    for folder in FOLDERS {
        let Ok(entries) = std::fs::read_dir(system.at(&format!("{folder}/{unit}.d"))) else { continue };
        let mut drop_ins: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        drop_ins.sort();
        for drop_in in drop_ins {
            text.push('\n');
            text.push_str(&std::fs::read_to_string(drop_in).unwrap_or_default());
        }
    }
    format!("{path}\n{text}")
}

/// The file of a unit, in systemd's order of folders.
pub(super) fn file(system: &RootedSystem, unit: &str) -> Option<(String, PathBuf)> {
    FOLDERS
        .iter()
        .map(|folder| format!("{folder}/{unit}"))
        .map(|path| (path.clone(), system.at(&path)))
        .find(|(_, real)| real.symlink_metadata().is_ok())
}
