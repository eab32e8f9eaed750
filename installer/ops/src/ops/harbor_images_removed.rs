//! Images of earlier bundles that are deleted from Harbor by its API.

use std::collections::BTreeSet;

use kubexm_plan::op::{FoundImages, HarborImagesRemoved};
use kubexm_spec::Digest;

use crate::harbor::{Harbor, not_started};
use crate::{Converge, Machine, OpError, Wave};

/// What is deleted of an image that is there.
enum Goes {
    /// The image, with its tags.
    All,
    /// These of its tags: somebody else has given it another one.
    Tags(BTreeSet<String>),
}

impl Converge for HarborImagesRemoved {
    fn observe(&self, machine: &Machine) -> Result<FoundImages, OpError> {
        let Some(harbor) = Harbor::of(machine, &self.harbor)? else { return Ok(FoundImages::Unknown) };
        if !harbor.is_up() {
            return Ok(FoundImages::Unknown);
        }
        let mut present = BTreeSet::new();
        each(self, &harbor, |repository, manifest, goes| {
            match goes {
                Goes::All => drop(present.insert(format!("{repository}@{manifest}"))),
                Goes::Tags(tags) => present.extend(tags.iter().map(|tag| format!("{repository}:{tag}"))),
            }
            Ok(())
        })?;
        Ok(FoundImages::Known { present })
    }

    fn satisfied(&self, found: &FoundImages, _: &Machine) -> bool {
        matches!(found, FoundImages::Known { present } if present.is_empty())
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let harbor = Harbor::of(machine, &self.harbor)?.ok_or_else(|| not_started(&self.harbor))?;
        each(self, &harbor, |repository, manifest, goes| match goes {
            Goes::All => harbor.delete_image(repository, manifest),
            Goes::Tags(tags) => tags.iter().try_for_each(|tag| harbor.delete_tag(repository, manifest, tag)),
        })?;
        harbor.collect_garbage()
    }

    /// They are gone: its steps are declared as irreversible.
    fn restore(&self, _: &Machine, _: &FoundImages, _: Wave) -> Result<(), OpError> {
        Ok(())
    }
}

/// Calls it with each image of which something is there to be deleted.
fn each(
    op: &HarborImagesRemoved,
    harbor: &Harbor<'_>,
    mut then: impl FnMut(&str, &Digest, Goes) -> Result<(), OpError>,
) -> Result<(), OpError> {
    for (repository, manifests) in &op.repositories {
        for (manifest, ours) in manifests {
            let Some(tags) = harbor.tags(repository, manifest)? else { continue };
            let gone: BTreeSet<String> = tags.intersection(ours).cloned().collect();
            // Without a tag of ours, and with one of somebody else's, it is theirs.
            match (gone.len() == tags.len(), gone.is_empty()) {
                (true, _) => then(repository, manifest, Goes::All)?,
                (false, false) => then(repository, manifest, Goes::Tags(gone))?,
                (false, true) => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for HarborImagesRemoved {
        const TESTED: Tested<Case<Self>> = Tested::In("pushed_removed.rs");
    }
}
