//! Kernel parameters, now and at boot.
//!
//! The value at boot is what `systemd-sysctl` would set: files of the four folders sorted by name; a file hides those
//! with the same name in later folders; the last line wins (sysctl.d(5)). `/etc/sysctl.conf` counts if a link in these
//! folders points to it, as on Debian and EL.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kubexm_plan::facts::BootSysctl;
use kubexm_plan::op::{BootValue, Parameters, Sysctl};

use crate::fsio::{self, Access};
use crate::path_state::{Look, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave};

const FOLDERS: [&str; 4] = ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"];

impl Converge for Sysctl {
    fn observe(&self, machine: &Machine) -> Result<Parameters, OpError> {
        let live = self
            .values
            .keys()
            .chain(&self.remembered)
            .map(|key| Ok((key.clone(), fsio::read_text(&live_path(machine, key))?.map(|text| normal(&text)))))
            .collect::<Result<_, OpError>>()?;
        let mut boot = boot_values(machine)?;
        boot.retain(|key, _| self.values.contains_key(key));
        Ok(Parameters { file: PathState::look(machine, &self.path)?, live, boot })
    }

    fn satisfied(&self, found: &Parameters, _: &Machine) -> bool {
        self.values.iter().all(|(key, wanted)| {
            let wanted = normal(wanted);
            found.live.get(key).is_some_and(|live| live.as_ref() == Some(&wanted))
                && found.boot.get(key).is_some_and(|boot| boot.value == wanted)
        })
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![self.path.clone()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        self.refuse_overriding(machine)?;
        let mut text = String::from("# Managed by KubeXM: kernel parameters that Kubernetes needs.\n");
        for (key, value) in &self.values {
            text.push_str(&format!("{key} = {value}\n"));
        }
        machine.write_file(&self.path, text.as_bytes(), Access::mode(0o644))?;
        self.values.iter().try_for_each(|(key, value)| set(machine, key, value))
    }

    fn restore(&self, machine: &Machine, before: &Parameters, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Data {
            return Ok(());
        }
        before.file.restore(machine)?;
        for (key, value) in &before.live {
            // A parameter without a value had no module then; it is removed with the module.
            if let Some(value) = value
                && live_path(machine, key).exists()
            {
                set(machine, key, value)?;
            }
        }
        Ok(())
    }
}

trait Overriding {
    fn refuse_overriding(&self, machine: &Machine) -> Result<(), OpError>;
}

impl Overriding for Sysctl {
    /// Refuses lines that a boot reads after kubexm's file and that set another value; the error names each.
    fn refuse_overriding(&self, machine: &Machine) -> Result<(), OpError> {
        let own = Path::new(&self.path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let lines: Vec<String> = boot_values(machine)?
            .into_iter()
            .filter(|(key, boot)| {
                let file = boot.line.rsplit_once(':').map_or(boot.line.as_str(), |(file, _)| file);
                let name = file.rsplit('/').next().unwrap_or(file);
                name > own.as_str() && self.values.get(key).is_some_and(|wanted| normal(wanted) != boot.value)
            })
            .map(|(key, boot)| format!("{} sets {key} = {}", boot.line, boot.value))
            .collect();
        if lines.is_empty() {
            return Ok(());
        }
        Err(OpError::other(format!(
            "a boot would undo kernel parameters of {}: {}; remove or change these lines and run again",
            self.path,
            lines.join("; ")
        )))
    }
}

/// `net.ipv4.ip_forward` → `/proc/sys/net/ipv4/ip_forward`; a `/` as first separator keeps dots in names (sysctl.d(5)).
fn live_path(machine: &Machine, key: &str) -> PathBuf {
    let slashed = key.find('/').is_some_and(|slash| key.find('.').is_none_or(|dot| slash < dot));
    let relative = if slashed { key.to_owned() } else { key.replace('.', "/") };
    machine.path(format!("/proc/sys/{relative}"))
}

/// Written in place: these are files of the kernel.
fn set(machine: &Machine, key: &str, value: &str) -> Result<(), OpError> {
    let path = live_path(machine, key);
    match fsio::read_text(&path)? {
        Some(found) if normal(&found) == normal(value) => Ok(()),
        Some(_) => std::fs::write(&path, format!("{value}\n")).map_err(OpError::path("write", &path)),
        None => Err(OpError::other(format!(
            "the kernel has no parameter {key} ({} does not exist); the kernel module it belongs to is not loaded",
            path.display()
        ))),
    }
}

fn normal(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The current values of those that the kernel has, for facts.
pub(crate) fn now(machine: &Machine, keys: &[&str]) -> Result<BTreeMap<String, String>, OpError> {
    let mut found = BTreeMap::new();
    for key in keys {
        if let Some(text) = fsio::read_text(&live_path(machine, key))? {
            found.insert((*key).to_owned(), normal(&text));
        }
    }
    Ok(found)
}

/// The values at boot, for facts.
pub(crate) fn at_boot(machine: &Machine) -> Result<BTreeMap<String, BootSysctl>, OpError> {
    let all = boot_values(machine)?.into_iter();
    Ok(all.map(|(key, BootValue { value, line })| (key, BootSysctl { value, line })).collect())
}

fn boot_values(machine: &Machine) -> Result<BTreeMap<String, BootValue>, OpError> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for folder in FOLDERS {
        let Ok(entries) = std::fs::read_dir(machine.path(folder)) else { continue };
        for entry in entries {
            let entry = entry.map_err(OpError::path("list", folder))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".conf") {
                files.entry(name.clone()).or_insert_with(|| format!("{folder}/{name}"));
            }
        }
    }
    let mut values = BTreeMap::new();
    for path in files.values() {
        let text = fsio::read_text(&resolved(machine, path))?.unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.starts_with(['#', ';']) {
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            // A pattern never overrides a line that names the key (sysctl.d(5)), as kubexm's does.
            let key = key.trim().trim_start_matches('-').trim();
            if key.contains(['*', '?', '[']) {
                continue;
            }
            let value = BootValue { value: normal(value), line: format!("{path}:{}", index + 1) };
            values.insert(dotted(key), value);
        }
    }
    Ok(values)
}

fn dotted(key: &str) -> String {
    let slashed = key.find('/').is_some_and(|slash| key.find('.').is_none_or(|dot| slash < dot));
    if slashed && !key.contains('.') { key.replace('/', ".") } else { key.to_owned() }
}

/// An absolute link target is relative to the machine's root.
fn resolved(machine: &Machine, path: &str) -> PathBuf {
    let real = machine.path(path);
    match std::fs::read_link(&real) {
        Ok(target) if target.is_absolute() => machine.path(target),
        _ => real,
    }
}
