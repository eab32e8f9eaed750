//! Blobs that go from the storage of the distribution registry. Whether a repository links to one is looked up right before the deletion.

use std::collections::BTreeSet;
use std::path::Path;

use kubexm_plan::op::{Present, RegistryBlobsRemoved, RegistryLayout};
use kubexm_spec::Digest;

use crate::{Converge, Machine, OpError, Wave, fsio};

impl Converge for RegistryBlobsRemoved {
    /// Those that no repository links to.
    fn observe(&self, machine: &Machine) -> Result<Present, OpError> {
        let there = self
            .digests()
            .into_iter()
            .filter(|digest| machine.path(folder_of(self, digest)).symlink_metadata().is_ok());
        let there: BTreeSet<Digest> = there.collect();
        if there.is_empty() {
            return Ok(Present { present: there });
        }
        let linked = linked(&machine.path(RegistryLayout::folder(&self.data_dir)), &there)?;
        Ok(Present { present: there.difference(&linked).copied().collect() })
    }

    fn satisfied(&self, found: &Present, _: &Machine) -> bool {
        found.present.is_empty()
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        for digest in self.observe(machine)?.present {
            let folder = folder_of(self, &digest);
            fsio::remove(&machine.path(format!("{folder}/data")))?;
            for folder in Path::new(&folder).ancestors().take(2) {
                // What else is in it is not ours.
                if !fsio::remove_folder(&machine.path(folder))? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// They are gone: its steps are declared as irreversible.
    fn restore(&self, _: &Machine, _: &Present, _: Wave) -> Result<(), OpError> {
        Ok(())
    }
}

fn folder_of(op: &RegistryBlobsRemoved, digest: &Digest) -> String {
    let hex = digest.hex();
    format!("{}/{}/{hex}", op.folder(), &hex[..2])
}

/// Which of these some repository below a folder links to: a name of a repository may have any number of parts, and the folders of a
/// repository's own begin with `_`.
fn linked(folder: &Path, of: &BTreeSet<Digest>) -> Result<BTreeSet<Digest>, OpError> {
    let (mut linked, mut folders) = (BTreeSet::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for name in fsio::names(&folder)? {
            let below = folder.join(&name);
            let kinds = match name.as_str() {
                "_layers" => below.join("sha256"),
                "_manifests" => below.join("revisions/sha256"),
                _ if name.starts_with('_') => continue,
                _ => {
                    let found = below.symlink_metadata().map_err(OpError::path("look at", &below))?;
                    folders.extend(found.is_dir().then_some(below));
                    continue;
                }
            };
            linked.extend(of.iter().filter(|digest| kinds.join(digest.hex()).symlink_metadata().is_ok()));
        }
    }
    Ok(linked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for RegistryBlobsRemoved {
        const TESTED: Tested<Case<Self>> = Tested::In("pushed_removed.rs");
    }
}
