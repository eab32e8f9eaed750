//! Distribution, memory, SELinux, proxies.

use std::collections::BTreeMap;

use kubexm_plan::facts::SelinuxState;

use crate::{Machine, OpError, fsio};

/// Files that set variables for every login or service (environment(5), pam_env(8), profile.d, systemd).
const ENVIRONMENT_FILES: [&str; 4] =
    ["/etc/environment", "/etc/profile", "/etc/bash.bashrc", "/etc/systemd/system.conf"];
const ENVIRONMENT_FOLDERS: [&str; 3] = ["/etc/profile.d", "/etc/environment.d", "/etc/systemd/system.conf.d"];
const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];

/// os-release(5), without quotes.
pub(super) fn release(machine: &Machine) -> Result<BTreeMap<String, String>, OpError> {
    let text = match fsio::read_text(&machine.path("/etc/os-release"))? {
        Some(text) => text,
        None => fsio::read_text(&machine.path("/usr/lib/os-release"))?.unwrap_or_default(),
    };
    let entries = text.lines().filter_map(|line| line.split_once('='));
    Ok(entries.map(|(key, value)| (key.trim().to_owned(), value.trim().trim_matches(['"', '\'']).to_owned())).collect())
}

/// The edition: Kylin has its service pack in a separate file (`release V10 (SP2) /(Sword)-…`), openEuler in the
/// human-readable version.
pub(super) fn edition(machine: &Machine, release: &BTreeMap<String, String>) -> Result<String, OpError> {
    let own = line(machine, "/etc/.productinfo")?;
    Ok(if own.is_empty() { release.get("VERSION").cloned().unwrap_or_default() } else { own })
}

/// MemTotal in bytes.
pub(super) fn memory(machine: &Machine) -> Result<u64, OpError> {
    let text = fsio::read_text(&machine.path("/proc/meminfo"))?.unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    Ok(kib * 1024)
}

pub(super) fn selinux(machine: &Machine) -> Result<SelinuxState, OpError> {
    Ok(match fsio::read_text(&machine.path("/sys/fs/selinux/enforce"))?.as_deref().map(str::trim) {
        Some("1") => SelinuxState::Enforcing,
        Some(_) => SelinuxState::Permissive,
        None => SelinuxState::Absent,
    })
}

/// `*_proxy` variables, each with the file that sets it.
pub(super) fn proxies(machine: &Machine) -> Result<Vec<(String, String)>, OpError> {
    let mut files: Vec<String> = ENVIRONMENT_FILES.iter().map(|path| (*path).to_owned()).collect();
    for folder in ENVIRONMENT_FOLDERS {
        let Ok(entries) = std::fs::read_dir(machine.path(folder)) else { continue };
        files.extend(entries.flatten().map(|entry| format!("{folder}/{}", entry.file_name().to_string_lossy())));
    }
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let real = machine.path(&file);
        let text = if real.is_file() { fsio::read_text(&real)?.unwrap_or_default() } else { String::new() };
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let words = line.split([' ', '\t', ';', '"', '\'', '=']);
            let names = words.filter(|word| PROXIES.contains(&word.to_ascii_lowercase().as_str()));
            if let (Some(name), true) = (names.into_iter().next(), line.contains('=')) {
                found.push((name.to_owned(), file.clone()));
            }
        }
    }
    Ok(found)
}

/// The content of a one-line file; empty if it does not exist.
pub(super) fn line(machine: &Machine, path: &str) -> Result<String, OpError> {
    // DMI files may be unreadable even for root in a container.
    Ok(fsio::read_text(&machine.path(path)).unwrap_or_default().unwrap_or_default().trim().to_owned())
}
