//! Blobs that no bundle of the depot needs any more. What needs one is looked up again right before the deletion.

use kubexm_plan::op::{BlobsRemoved, Present};

use crate::{Converge, Machine, OpError, Wave, depot_content, fsio};

impl Converge for BlobsRemoved {
    fn observe(&self, machine: &Machine) -> Result<Present, OpError> {
        let there = self.blobs.keys().filter(|digest| machine.blob(digest).symlink_metadata().is_ok());
        Ok(Present { present: there.copied().collect() })
    }

    fn satisfied(&self, found: &Present, _: &Machine) -> bool {
        found.present.is_empty()
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let needed = depot_content::needed(machine)?;
        if let Some(digest) = self.blobs.keys().find(|digest| needed.contains(digest)) {
            return Err(OpError::other(format!(
                "blob {digest} is needed by a bundle of the depot by now, and none was deleted: another run has changed the depot since \
                 this was planned; run `kubexm-install registry prune` again"
            )));
        }
        self.blobs.keys().try_for_each(|digest| fsio::remove(&machine.blob(digest)))?;
        depot_content::forget_left(machine)
    }

    /// They are gone: its steps are declared as irreversible.
    fn restore(&self, _: &Machine, _: &Present, _: Wave) -> Result<(), OpError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for BlobsRemoved {
        const TESTED: Tested<Case<Self>> = Tested::In("registry_prune.rs");
    }
}
