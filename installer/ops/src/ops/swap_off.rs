//! No swap, now and at boot: swap devices are turned off, lines of /etc/fstab commented out, `.swap` units and zram
//! masked.

use kubexm_plan::op::{SwapOff, Swaps};

use crate::fsio;
use crate::managed_edit::{self, Edit};
use crate::path_state::{self, Look, PathEntry, PathState, PutBack};
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave, paths};

const FSTAB: &str = "/etc/fstab";
const UNIT_FOLDERS: [&str; 4] =
    ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system", "/run/systemd/generator.late"];
/// Services that enable swap on zram, in Debian and Ubuntu.
const ZRAM_UNITS: [&str; 2] = ["zramswap.service", "zram-config.service"];
/// An empty file here disables the generator (zram-generator.conf(5)).
const ZRAM_CONFIG: &str = "/etc/systemd/zram-generator.conf";
const ZRAM_CONFIGS: [&str; 2] = ["/usr/lib/systemd/zram-generator.conf", ZRAM_CONFIG];

impl Converge for SwapOff {
    fn observe(&self, machine: &Machine) -> Result<Swaps, OpError> {
        let text = fsio::read_text(&machine.path(FSTAB))?.unwrap_or_default();
        Ok(Swaps {
            devices: devices(machine)?,
            lines: fstab_lines(&text),
            fstab: PathState::look(machine, FSTAB)?,
            masks: unmasked(machine)?,
            zram: if zram_configured(machine)? { Some(PathState::look(machine, ZRAM_CONFIG)?) } else { None },
        })
    }

    fn satisfied(&self, found: &Swaps, _: &Machine) -> bool {
        found.devices.is_empty() && found.lines.is_empty() && found.masks.is_empty() && found.zram.is_none()
    }

    fn overwrites(&self, machine: &Machine) -> Vec<String> {
        let masks = unmasked(machine).unwrap_or_default().into_iter().map(|place| place.path);
        [FSTAB.to_owned(), ZRAM_CONFIG.to_owned()].into_iter().chain(masks).collect()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let found = self.observe(machine)?;
        if !found.lines.is_empty() {
            let text = fsio::read_text(&machine.path(FSTAB))?.unwrap_or_default();
            let access = path_state::access_like(machine, FSTAB, 0o644)?;
            machine.write_file(FSTAB, &fsio::to_bytes(&commented(&text)), access)?;
        }
        if found.zram.is_some() {
            machine.write_file(ZRAM_CONFIG, b"", path_state::access_like(machine, ZRAM_CONFIG, 0o644)?)?;
        }
        for mask in &found.masks {
            path_state::put_link(machine, &mask.path, "/dev/null")?;
        }
        // Before swapoff: systemd may start a .swap unit again that it still knows from fstab.
        if self.wrote_units(&found) {
            machine.run(&Program::new("systemctl").arg("daemon-reload"))?;
        }
        // Swapped-out pages must fit into memory; that can take long.
        found
            .devices
            .iter()
            .try_for_each(|device| machine.run(&Program::new("swapoff").arg(device.as_str()).within(300)).map(drop))
    }

    fn restore(&self, machine: &Machine, before: &Swaps, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Data {
            return Ok(());
        }
        managed_edit::restore(machine, &before.fstab, before.lines.is_empty(), self)?;
        for mask in &before.masks {
            // Somebody may have replaced it by another unit.
            if is_mask(&PathEntry::look(machine, &mask.path)?) {
                mask.restore(machine)?;
            }
        }
        if let Some(zram) = &before.zram
            && fsio::read(&machine.path(ZRAM_CONFIG))?.is_none_or(|bytes| bytes.is_empty())
        {
            zram.restore(machine)?;
        }
        if self.wrote_units(before) {
            machine.run(&Program::new("systemctl").arg("daemon-reload"))?;
        }
        let now = devices(machine)?;
        before
            .devices
            .iter()
            .filter(|device| !now.contains(device))
            .try_for_each(|device| machine.run(&Program::new("swapon").arg(device.as_str())).map(drop))
    }
}

trait WroteUnits {
    fn wrote_units(&self, found: &Swaps) -> bool;
}

impl WroteUnits for SwapOff {
    fn wrote_units(&self, found: &Swaps) -> bool {
        !found.lines.is_empty() || !found.masks.is_empty() || found.zram.is_some()
    }
}

/// Devices in /proc/swaps; a host without that file has none.
pub(crate) fn devices(machine: &Machine) -> Result<Vec<String>, OpError> {
    let text = fsio::read_text(&machine.path("/proc/swaps"))?.unwrap_or_default();
    Ok(text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

fn is_swap(line: &str) -> bool {
    !line.trim_start().starts_with('#') && line.split_whitespace().nth(2) == Some("swap")
}

/// Lines of fstab that enable swap.
pub(crate) fn fstab_lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| is_swap(line)).map(str::to_owned).collect()
}

/// The line that kubexm has commented out, if this is one; a user's comment with the same words is not.
fn of_ours(line: &str) -> Option<&str> {
    line.strip_prefix(paths::MARK).filter(|line| is_swap(line))
}

impl Edit for SwapOff {
    fn make(&self, text: &str) -> String {
        commented(text)
    }

    fn bare(&self, text: &str) -> String {
        text.split_inclusive('\n').map(|line| of_ours(line).unwrap_or(line)).collect()
    }

    /// Lines that an earlier run has commented out stay so, and those that `then` had so are commented out again.
    fn toward(&self, now: &str, then: &str) -> String {
        let had: Vec<&str> = then.lines().filter_map(of_ours).map(str::trim_end).collect();
        let line = |line: &str| match of_ours(line) {
            Some(swap) if !had.contains(&swap.trim_end()) => swap.to_owned(),
            None if is_swap(line) && had.contains(&line.trim_end()) => format!("{}{line}", paths::MARK),
            _ => line.to_owned(),
        };
        now.split_inclusive('\n').map(line).collect()
    }
}

fn commented(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| if is_swap(line) { format!("{}{line}", paths::MARK) } else { line.to_owned() })
        .collect()
}

/// Paths of masks for units that would enable swap and are not masked. Units of the fstab generator are removed with
/// their lines.
fn unmasked(machine: &Machine) -> Result<Vec<PathState>, OpError> {
    let mut names = std::collections::BTreeSet::new();
    for folder in UNIT_FOLDERS {
        let Ok(entries) = std::fs::read_dir(machine.path(folder)) else { continue };
        for entry in entries {
            let name = entry.map_err(OpError::path("list", folder))?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".swap") || ZRAM_UNITS.contains(&name.as_str()) {
                names.insert(name);
            }
        }
    }
    let mut places = Vec::new();
    for name in names {
        let place = PathState::look(machine, &format!("/etc/systemd/system/{name}"))?;
        if !is_mask(&place.entry) {
            places.push(place);
        }
    }
    Ok(places)
}

fn is_mask(entry: &PathEntry) -> bool {
    matches!(entry, PathEntry::Link { target } if target == "/dev/null")
}

fn zram_configured(machine: &Machine) -> Result<bool, OpError> {
    if fsio::read(&machine.path(ZRAM_CONFIG))?.is_some_and(|bytes| bytes.is_empty()) {
        return Ok(false);
    }
    Ok(ZRAM_CONFIGS.iter().any(|path| machine.path(path).exists()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for SwapOff {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("swap", |h| {
            h.put("/usr/lib/systemd/system/dev-x.swap", "[Swap]\nWhat=/dev/x\n");
            h.put("/usr/lib/systemd/zram-generator.conf", "[zram0]\n");
            SwapOff {}
        })]);
    }
}
