//! What pods of a network have pinned in the BPF file system: programs and maps exist as long as they are pinned, and a program that
//! is attached by a pinned link is attached as long.

use std::fs;
use std::path::Path;

use kubexm_plan::network;

use super::mounts;
use crate::{Machine, OpError};

/// The pins that exist: folders and files.
pub(super) fn all(machine: &Machine) -> Result<Vec<String>, OpError> {
    let mut found = Vec::new();
    for pin in network::any().flat_map(|network| network.pins) {
        match pin.strip_suffix('*').and_then(|pattern| pattern.rsplit_once('/')) {
            None if machine.path(pin).exists() => found.push((*pin).to_owned()),
            None => {}
            Some((folder, prefix)) => {
                let names = mounts::entries(&machine.path(folder))?;
                let names = names.iter().filter_map(|path| path.file_name()?.to_str());
                found.extend(names.filter(|name| name.starts_with(prefix)).map(|name| format!("{folder}/{name}")));
            }
        }
    }
    Ok(found)
}

/// Where the BPF file system is.
const ROOT: &str = "/sys/fs/bpf";

/// Removes the pins, and the folders of others' kind in which nothing is left.
pub(super) fn remove(machine: &Machine) -> Result<(), OpError> {
    for pin in all(machine)? {
        let path = machine.path(&pin);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(OpError::path("remove the pinned programs and maps in", &path)(error));
            }
            _ => {}
        }
        for folder in Path::new(&pin).ancestors().skip(1).take_while(|folder| *folder != Path::new(ROOT)) {
            // Only one that is empty can be removed.
            if fs::remove_dir(machine.path(folder)).is_err() {
                break;
            }
        }
    }
    Ok(())
}
