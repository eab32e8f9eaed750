//! The host's time zone: the link /etc/localtime, and /etc/timezone where the system has it (Debian).

use std::path::Path;

use kubexm_plan::op::{Timezone, ZONES, ZoneWas};

use crate::fsio;
use crate::path_state::{self, Look, PathEntry, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave};

const LOCALTIME: &str = "/etc/localtime";
const NAME: &str = "/etc/timezone";
/// Folders with every zone once more, and a link to the zone of the machine.
const NO_ZONES: [&str; 3] = ["posix", "right", "localtime"];
/// `America/Argentina/Buenos_Aires` is the deepest.
const DEEPEST: usize = 3;

impl Converge for Timezone {
    fn observe(&self, machine: &Machine) -> Result<ZoneWas, OpError> {
        let named = fsio::read_text(&machine.path(NAME))?;
        let localtime = PathState::look(machine, LOCALTIME)?;
        Ok(ZoneWas {
            zone: zone(&localtime.entry).map(str::to_owned),
            localtime,
            name: if named.is_some() { Some(PathState::look(machine, NAME)?) } else { None },
            named: named.map(|text| text.trim().to_owned()),
        })
    }

    fn satisfied(&self, found: &ZoneWas, _: &Machine) -> bool {
        found.zone.as_ref() == Some(&self.zone) && found.named.as_ref().is_none_or(|named| *named == self.zone)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![LOCALTIME.to_owned(), NAME.to_owned()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let file = machine.path(format!("{ZONES}/{}", self.zone));
        if !file.is_file() {
            return Err(OpError::other(format!(
                "{ZONES}/{} does not exist: install the package tzdata, or name another zone",
                self.zone
            )));
        }
        let found = self.observe(machine)?;
        if found.zone.as_ref() != Some(&self.zone) {
            path_state::replaceable(machine, LOCALTIME)?;
            // Relative, as systemd writes it: it is right also where the root is mounted elsewhere.
            path_state::put_link(machine, LOCALTIME, &format!("..{ZONES}/{}", self.zone))?;
        }
        if found.named.is_some_and(|named| named != self.zone) {
            let access = path_state::access_like(machine, NAME, 0o644)?;
            machine.write_file(NAME, format!("{}\n", self.zone).as_bytes(), access)?;
        }
        Ok(())
    }

    fn restore(&self, machine: &Machine, before: &ZoneWas, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Data {
            return Ok(());
        }
        before.localtime.restore(machine)?;
        before.name.as_ref().map_or(Ok(()), |name| name.restore(machine))
    }
}

/// The zone that a link names, with an absolute target or one relative to /etc.
fn zone(entry: &PathEntry) -> Option<&str> {
    let PathEntry::Link { target } = entry else { return None };
    target.strip_prefix("..").unwrap_or(target).strip_prefix(ZONES)?.strip_prefix('/')
}

/// The zones that a machine has, for facts. Other files there have no capital letter first, or a dot in their name.
pub(crate) fn zones(machine: &Machine) -> Vec<String> {
    let mut found = Vec::new();
    add(&machine.path(ZONES), "", &mut found);
    found.sort();
    found
}

fn add(folder: &Path, prefix: &str, into: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_name = name.starts_with(|c: char| c.is_ascii_uppercase() || !prefix.is_empty()) && !name.contains('.');
        if !is_name || NO_ZONES.contains(&name.as_str()) {
            continue;
        }
        let zone = format!("{prefix}{name}");
        // A link is one to another name of the zone.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            into.push(zone);
        } else if zone.matches('/').count() + 1 < DEEPEST {
            add(&entry.path(), &format!("{zone}/"), into);
        }
    }
}
