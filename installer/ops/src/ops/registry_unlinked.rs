//! Content that goes from the file-system layout of the distribution registry, of which [`super::registry_layout`] has the shape. It reads
//! a link each time it is asked, so what has none is not served any more.

use std::collections::BTreeSet;
use std::path::Path;

use kubexm_plan::op::{FoundLinks, RegistryUnlinked, RemovedContent};
use kubexm_spec::Digest;

use crate::path_state::{Look, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave, fsio};

impl Converge for RegistryUnlinked {
    fn observe(&self, machine: &Machine) -> Result<FoundLinks, OpError> {
        let links = self.links(machine)?;
        Ok(FoundLinks { links: links.iter().map(|path| PathState::look(machine, path)).collect::<Result<_, _>>()? })
    }

    fn satisfied(&self, found: &FoundLinks, _: &Machine) -> bool {
        found.links.is_empty()
    }

    fn overwrites(&self, machine: &Machine) -> Vec<String> {
        self.links(machine).unwrap_or_default()
    }

    /// Tags first: none names a manifest that has gone.
    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let all = self.folder();
        for path in self.links(machine)?.into_iter().rev() {
            fsio::remove(&machine.path(&path))?;
            let folders = Path::new(&path).ancestors().skip(1).take_while(|folder| *folder != Path::new(&all));
            for folder in folders {
                // A folder with other links is kept.
                if !fsio::remove_folder(&machine.path(folder))? {
                    break;
                }
            }
        }
        Ok(())
    }

    fn restore(&self, machine: &Machine, before: &FoundLinks, wave: Wave) -> Result<(), OpError> {
        match wave {
            Wave::Data => before.links.iter().try_for_each(|link| link.restore(machine)),
            Wave::Stop | Wave::Start => Ok(()),
        }
    }
}

/// What only this file knows of the op.
trait Links {
    fn folder(&self) -> String;
    fn links(&self, machine: &Machine) -> Result<Vec<String>, OpError>;
}

impl Links for RegistryUnlinked {
    fn folder(&self) -> String {
        format!("{}/docker/registry/v2/repositories", self.data_dir)
    }

    /// The links that are there; those of tags are the last ones.
    fn links(&self, machine: &Machine) -> Result<Vec<String>, OpError> {
        let (mut links, mut tags) = (Vec::new(), Vec::new());
        for (name, content) in &self.repositories {
            let own = format!("{}/{name}", self.folder());
            let layers = content.blobs.iter().map(|digest| format!("{own}/_layers/sha256/{}/link", digest.hex()));
            let manifests = content.manifests.iter();
            let manifests = manifests.map(|digest| format!("{own}/_manifests/revisions/sha256/{}/link", digest.hex()));
            links.extend(layers.chain(manifests).filter(|path| machine.path(path).symlink_metadata().is_ok()));
            tags.extend(of_tags(machine, &format!("{own}/_manifests/tags"), content)?);
        }
        links.append(&mut tags);
        Ok(links)
    }
}

/// All links of a tag that names what goes; of another one, what it has named before.
fn of_tags(machine: &Machine, folder: &str, content: &RemovedContent) -> Result<Vec<String>, OpError> {
    let goes: BTreeSet<String> = content.manifests.iter().map(Digest::hex).collect();
    let mut links = Vec::new();
    for tag in fsio::names(&machine.path(folder))? {
        let current = format!("{folder}/{tag}/current/link");
        let named = fsio::read_text(&machine.path(&current))?;
        let all =
            named.as_deref().and_then(|text| text.trim().strip_prefix("sha256:")).is_some_and(|hex| goes.contains(hex));
        let index = format!("{folder}/{tag}/index/sha256");
        let before = fsio::names(&machine.path(&index))?.into_iter().filter(|hex| all || goes.contains(hex));
        links.extend(before.map(|hex| format!("{index}/{hex}/link")));
        links.extend(all.then_some(current));
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for RegistryUnlinked {
        const TESTED: Tested<Case<Self>> = Tested::In("pushed_removed.rs");
    }
}
