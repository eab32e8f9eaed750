//! Content that goes from the file-system layout of the distribution registry, of which [`super::registry_layout`] has the shape. It reads
//! a link each time it is asked, so what has none is not served any more.

use std::collections::BTreeSet;
use std::path::Path;

use kubexm_plan::op::{FoundLinks, RegistryLayout, RegistryUnlinked, RemovedContent};
use kubexm_spec::Digest;
use serde_json::Value;

use super::registry_layout::MODE;
use crate::fsio::Access;
use crate::path_state::{Look, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave, depot_content, fsio};

/// A file of the layout.
enum Link {
    /// It goes.
    Goes(String),
    /// A tag that names this afterwards.
    Names(String, Digest),
}

impl Link {
    fn path(&self) -> &str {
        match self {
            Self::Goes(path) | Self::Names(path, _) => path,
        }
    }
}

impl Converge for RegistryUnlinked {
    fn observe(&self, machine: &Machine) -> Result<FoundLinks, OpError> {
        let links = links(self, machine)?;
        Ok(FoundLinks {
            links: links.iter().map(|link| PathState::look(machine, link.path())).collect::<Result<_, _>>()?,
        })
    }

    fn satisfied(&self, found: &FoundLinks, _: &Machine) -> bool {
        found.links.is_empty()
    }

    fn overwrites(&self, machine: &Machine) -> Vec<String> {
        links(self, machine).map(|all| all.iter().map(|link| link.path().to_owned()).collect()).unwrap_or_default()
    }

    /// Tags first: none names a manifest that has gone.
    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let going = |(name, content): (&'_ String, &RemovedContent)| {
            let all = content.manifests.iter().chain(&content.blobs).copied().collect();
            (name.clone(), all)
        };
        let going: Vec<(String, BTreeSet<Digest>)> = self.repositories.iter().map(going).collect();
        let going: Vec<_> = going.iter().map(|(name, all)| (name.as_str(), all.clone())).collect();
        depot_content::refuse_needed(machine, &going)?;
        let all = RegistryLayout::folder(&self.data_dir);
        for link in links(self, machine)?.into_iter().rev() {
            let path = match link {
                Link::Names(path, digest) => {
                    machine.write_file(&path, digest.to_string().as_bytes(), Access::mode(MODE))?;
                    continue;
                }
                Link::Goes(path) => path,
            };
            fsio::remove(&machine.path(&path))?;
            for folder in Path::new(&path).ancestors().skip(1).take_while(|folder| *folder != Path::new(&all)) {
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

/// The links that are there and go, or change; those of tags are the last ones.
fn links(op: &RegistryUnlinked, machine: &Machine) -> Result<Vec<Link>, OpError> {
    let (mut links, mut tags) = (Vec::new(), Vec::new());
    for (name, content) in &op.repositories {
        let own = format!("{}/{name}", RegistryLayout::folder(&op.data_dir));
        // Somebody else's image in this repository may be made of them, too.
        let theirs = named_by_others(op, machine, (&own, content))?;
        let of_blobs = content.blobs.iter().filter(|digest| !theirs.contains(digest));
        let of_blobs = of_blobs.map(|digest| RegistryLayout::blob_link(&op.data_dir, name, digest));
        let of_manifests = content.manifests.iter().filter(|digest| !theirs.contains(digest));
        let of_manifests = of_manifests.map(|digest| RegistryLayout::manifest_link(&op.data_dir, name, digest));
        let there = of_blobs.chain(of_manifests).filter(|path| machine.path(path).symlink_metadata().is_ok());
        links.extend(there.map(Link::Goes));
        tags.extend(of_tags(machine, &format!("{own}/_manifests/tags"), content)?);
    }
    links.append(&mut tags);
    Ok(links)
}

/// What the manifests of a repository name that stay in it. One that cannot be read names nothing that could be pulled.
fn named_by_others(
    op: &RegistryUnlinked,
    machine: &Machine,
    (own, content): (&str, &RemovedContent),
) -> Result<BTreeSet<Digest>, OpError> {
    let goes: BTreeSet<String> = content.manifests.iter().map(Digest::hex).collect();
    let mut named = BTreeSet::new();
    for hex in fsio::names(&machine.path(format!("{own}/_manifests/revisions/sha256")))? {
        let Some(first) = hex.get(..2).filter(|_| !goes.contains(&hex)) else { continue };
        let data = machine.path(format!("{}/docker/registry/v2/blobs/sha256/{first}/{hex}/data", op.data_dir));
        let Some(bytes) = fsio::read(&data)? else { continue };
        let manifest: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let lists = ["layers", "manifests"].into_iter().filter_map(|key| manifest[key].as_array()).flatten();
        let digests =
            lists.chain([&manifest["config"]]).filter_map(|one| one["digest"].as_str()?.parse::<Digest>().ok());
        named.extend(digests);
    }
    Ok(named)
}

/// All links of a tag that names what goes, and nothing afterwards; of another one, what it has named before.
fn of_tags(machine: &Machine, folder: &str, content: &RemovedContent) -> Result<Vec<Link>, OpError> {
    let goes: BTreeSet<String> = content.manifests.iter().map(Digest::hex).collect();
    let mut links = Vec::new();
    for tag in fsio::names(&machine.path(folder))? {
        let current = format!("{folder}/{tag}/current/link");
        let named = fsio::read_text(&machine.path(&current))?;
        let of_gone = |text: &str| text.trim().strip_prefix("sha256:").is_some_and(|hex| goes.contains(hex));
        let changes = named.as_deref().is_some_and(of_gone);
        let afterwards = content.tags.get(&tag);
        let all = changes && afterwards.is_none();
        let index = format!("{folder}/{tag}/index/sha256");
        let before = fsio::names(&machine.path(&index))?.into_iter().filter(|hex| all || goes.contains(hex));
        links.extend(before.map(|hex| Link::Goes(format!("{index}/{hex}/link"))));
        match afterwards {
            Some(digest) if changes => links.push(Link::Names(current, *digest)),
            _ => links.extend(all.then_some(Link::Goes(current))),
        }
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
