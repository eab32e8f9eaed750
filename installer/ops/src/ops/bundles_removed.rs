//! Records of bundles that a depot serves no more.
//!
//! A record gets another name first, then the depot reads its folder again, then the record gets a third name: after an interruption the second one
//! says that the depot may not have read its folder yet, and the third one, until the blobs are deleted, what they were of. The depot reads neither.

use kubexm_plan::depot;
use kubexm_plan::op::{BundlesRemoved, FoundRecords};

use crate::path_state::{Look, PathEntry, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave, depot_content, fsio, systemd};

impl Converge for BundlesRemoved {
    fn observe(&self, machine: &Machine) -> Result<FoundRecords, OpError> {
        let records = self.records().map(|(path, _)| PathState::look(machine, &path)).collect::<Result<_, _>>()?;
        let leaving = self.records().map(|(path, _)| leaving(&path));
        let leaving = leaving.filter(|path| machine.path(path).symlink_metadata().is_ok()).collect();
        Ok(FoundRecords { records, leaving })
    }

    fn satisfied(&self, found: &FoundRecords, _: &Machine) -> bool {
        found.leaving.is_empty() && found.records.iter().all(|record| record.entry == PathEntry::Absent)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        self.records().map(|(path, _)| path).collect()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let mut there = Vec::new();
        for (path, digest) in self.records() {
            match PathEntry::look(machine, &path)? {
                PathEntry::Absent => {}
                PathEntry::File { digest: found, .. } if found == digest => there.push(path),
                _ => {
                    return Err(OpError::other(format!(
                        "{path} is not the record that was there when this was planned: another run has written it; run \
                         `kubexm-install registry prune` again"
                    )));
                }
            }
        }
        for path in there {
            fsio::rename(&machine.path(&path), &machine.path(leaving(&path)))?;
        }
        reload(machine)?;
        for (path, _) in self.records() {
            if machine.path(leaving(&path)).symlink_metadata().is_ok() {
                fsio::rename(&machine.path(leaving(&path)), &machine.path(left(&path)))?;
            }
        }
        Ok(())
    }

    fn restore(&self, machine: &Machine, before: &FoundRecords, wave: Wave) -> Result<(), OpError> {
        match wave {
            Wave::Stop => Ok(()),
            Wave::Data => {
                before.records.iter().try_for_each(|record| record.restore(machine))?;
                let names = self.records().flat_map(|(path, _)| [leaving(&path), left(&path)]);
                names.map(|path| machine.path(path)).try_for_each(|path| fsio::remove(&path))
            }
            Wave::Start => reload(machine),
        }
    }
}

/// The name of a record that the depot may serve still.
fn leaving(path: &str) -> String {
    format!("{path}{}", depot_content::LEAVING)
}

/// The name of one that it does not, until the blobs are deleted.
fn left(path: &str) -> String {
    path.strip_suffix(depot::RECORD).map_or_else(|| path.to_owned(), |bundle| format!("{bundle}{}", depot::LEFT))
}

/// A depot that does not run reads its folder when it starts.
fn reload(machine: &Machine) -> Result<(), OpError> {
    match systemd::show(machine, depot::UNIT)?.active() {
        true => systemd::reload(machine, depot::UNIT),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for BundlesRemoved {
        const TESTED: Tested<Case<Self>> = Tested::In("registry_prune.rs");
    }
}
