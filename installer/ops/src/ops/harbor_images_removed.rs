//! Images of earlier bundles that are deleted from Harbor by its API. What it refuses holds up no other image.

use std::collections::BTreeSet;

use kubexm_plan::op::{FoundImages, HarborImagesRemoved};
use kubexm_spec::Digest;

use crate::harbor::{Harbor, not_started};
use crate::{Converge, Machine, OpError, Wave, depot_content};

/// The most refusals that are shown.
const SHOWN: usize = 5;

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
        for (repository, manifest, ours) in images(self) {
            match goes(&harbor, repository, manifest, ours)? {
                None => {}
                Some(Goes::All) => drop(present.insert(format!("{repository}@{manifest}"))),
                Some(Goes::Tags(tags)) => present.extend(tags.iter().map(|tag| format!("{repository}:{tag}"))),
            }
        }
        let mut lost = BTreeSet::new();
        for (repository, tag, manifest) in tags(self) {
            if is_lost(&harbor, repository, tag, manifest)? {
                lost.insert(format!("{repository}:{tag}"));
            }
        }
        Ok(FoundImages::Known { present, lost })
    }

    fn satisfied(&self, found: &FoundImages, _: &Machine) -> bool {
        matches!(found, FoundImages::Known { present, lost } if present.is_empty() && lost.is_empty())
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let harbor = Harbor::of(machine, &self.harbor)?.ok_or_else(|| not_started(&self.harbor))?;
        let going: Vec<(&str, BTreeSet<Digest>)> = self
            .repositories
            .iter()
            .map(|(name, removed)| (name.as_str(), removed.images.keys().copied().collect()))
            .collect();
        depot_content::refuse_needed(machine, &going)?;
        let mut refused: Vec<OpError> = Vec::new();
        for (repository, manifest, ours) in images(self) {
            let done = match goes(&harbor, repository, manifest, ours)? {
                None => Ok(()),
                Some(Goes::All) => harbor.delete_image(repository, manifest),
                Some(Goes::Tags(tags)) => tags.iter().try_for_each(|tag| harbor.delete_tag(repository, manifest, tag)),
            };
            refused.extend(done.err());
        }
        for (repository, tag, manifest) in tags(self) {
            if is_lost(&harbor, repository, tag, manifest)? {
                refused.extend(harbor.add_tag(repository, manifest, tag).err());
            }
        }
        harbor.collect_garbage()?;
        match refused.as_slice() {
            [] => Ok(()),
            all => {
                let shown: Vec<String> = all.iter().take(SHOWN).map(OpError::full).collect();
                let more = all.len().saturating_sub(SHOWN);
                let more = if more > 0 { format!("; and {more} more") } else { String::new() };
                Err(OpError::other(format!("the other images are deleted: {}{more}", shown.join("; "))))
            }
        }
    }

    /// They are gone: its steps are declared as irreversible.
    fn restore(&self, _: &Machine, _: &FoundImages, _: Wave) -> Result<(), OpError> {
        Ok(())
    }
}

fn images(op: &HarborImagesRemoved) -> impl Iterator<Item = (&str, &Digest, &BTreeSet<String>)> {
    op.repositories
        .iter()
        .flat_map(|(name, removed)| removed.images.iter().map(move |(manifest, ours)| (name.as_str(), manifest, ours)))
}

fn tags(op: &HarborImagesRemoved) -> impl Iterator<Item = (&str, &str, &Digest)> {
    op.repositories.iter().flat_map(|(name, removed)| {
        removed.tags.iter().map(move |(tag, manifest)| (name.as_str(), tag.as_str(), manifest))
    })
}

/// What goes of an image; none if there is nothing of it, or nothing that is ours: with a tag of somebody else's only, or with a signature or
/// the like attached, of which kubexm attaches none.
fn goes(
    harbor: &Harbor<'_>,
    repository: &str,
    manifest: &Digest,
    ours: &BTreeSet<String>,
) -> Result<Option<Goes>, OpError> {
    let Some(image) = harbor.image(repository, manifest)? else { return Ok(None) };
    let gone: BTreeSet<String> = image.tags.intersection(ours).cloned().collect();
    Ok(match (image.accessories, gone.len() == image.tags.len(), gone.is_empty()) {
        (false, true, _) => Some(Goes::All),
        (false, false, false) => Some(Goes::Tags(gone)),
        (true, ..) | (false, false, true) => None,
    })
}

/// Whether nothing has a tag that this image, which is there, should have.
fn is_lost(harbor: &Harbor<'_>, repository: &str, tag: &str, manifest: &Digest) -> Result<bool, OpError> {
    Ok(harbor.image(repository, manifest)?.is_some() && !harbor.has_tag(repository, tag)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for HarborImagesRemoved {
        const TESTED: Tested<Case<Self>> = Tested::In("pushed_removed.rs");
    }
}
