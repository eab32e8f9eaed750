//! Earlier bundles whose content a registry host has no longer.
//!
//! What goes is what their records name and no other record does, so content of others, in the registry or the store, is never touched.
//! A record goes last: an interrupted removal finds it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use kubexm_plan::op::{BundlesRemoved, BundlesThere, RegistryLayout};
use kubexm_spec::Digest;
use kubexm_spec::depot::{DepotConfig, Repository};

use super::registry_layout;
use crate::{Converge, Machine, OpError, Wave, fsio};

impl Converge for BundlesRemoved {
    fn observe(&self, machine: &Machine) -> Result<BundlesThere, OpError> {
        let is_there = |bundle: &&String| fs::symlink_metadata(machine.path(self.record(bundle))).is_ok();
        Ok(BundlesThere { there: self.bundles.iter().filter(is_there).cloned().collect() })
    }

    fn satisfied(&self, found: &BundlesThere, _: &Machine) -> bool {
        found.there.is_empty()
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let mut kept = Content::default();
        if let Some(text) = fsio::read(&machine.path(&self.serving))? {
            // Without knowing what is served nothing can be taken away.
            let config = read(&self.serving, &text)?;
            if let Some(bundle) = config.bundle.as_ref().filter(|bundle| self.bundles.contains(*bundle)) {
                return Err(OpError::other(format!(
                    "bundle {bundle} is what the depot serves now: it stays; leave it out"
                )));
            }
            kept.add(config);
        }
        let mut leaving = BTreeMap::new();
        for bundle in records(machine, &self.folder)? {
            let path = self.record(&bundle);
            let text = fsio::read(&machine.path(&path))?.unwrap_or_default();
            let config = read(&path, &text)?;
            if self.bundles.contains(&bundle) {
                leaving.insert(bundle, config);
            } else {
                kept.add(config);
            }
        }
        for (bundle, config) in leaving {
            let mut own = Content::default();
            own.add(config);
            if let Some(data_dir) = &self.data_dir {
                remove_images(machine, data_dir, &own, &kept)?;
            }
            for blob in own.blobs.difference(&kept.blobs) {
                fsio::remove(&machine.blob(blob))?;
            }
            fsio::remove(&machine.path(self.record(&bundle)))?;
        }
        Ok(())
    }

    /// What is removed comes with its bundle again: the step says that it has no way back.
    fn restore(&self, _: &Machine, _: &BundlesThere, _: Wave) -> Result<(), OpError> {
        Ok(())
    }
}

/// What bundles have.
#[derive(Default)]
struct Content {
    images: BTreeMap<String, Repository>,
    blobs: BTreeSet<Digest>,
}

impl Content {
    fn add(&mut self, config: DepotConfig) {
        self.blobs.extend(config.files.into_values());
        for repository in config.packages.into_iter().flat_map(|packages| packages.repositories.into_values()) {
            self.blobs.extend(repository.packages.into_values());
        }
        for (name, repository) in config.images {
            self.blobs.extend(repository.manifests.iter().chain(&repository.blobs));
            let all = self.images.entry(name).or_default();
            all.tags.extend(repository.tags);
            all.manifests.extend(repository.manifests);
            all.blobs.extend(repository.blobs);
        }
    }
}

fn read(path: &str, text: &[u8]) -> Result<DepotConfig, OpError> {
    serde_json::from_slice(text).map_err(|error| {
        OpError::other(format!(
            "{path} cannot be read, so that what its bundle has is not known ({error}): run `create` with that bundle, or remove the \
             file if nothing of it is wanted"
        ))
    })
}

/// Names of the bundles that have a record.
fn records(machine: &Machine, folder: &str) -> Result<Vec<String>, OpError> {
    let real = machine.path(folder);
    let entries = match fs::read_dir(&real) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(OpError::path("list", &real))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(OpError::path("list", &real))?.file_name();
        names.extend(name.to_str().and_then(|name| name.strip_suffix(".json")).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Tags first, then what they name, and blobs last: nothing that can be asked for lacks a part.
fn remove_images(machine: &Machine, data_dir: &str, own: &Content, kept: &Content) -> Result<(), OpError> {
    let layout = |content: &Content| {
        registry_layout::paths(&RegistryLayout { data_dir: data_dir.to_owned(), repositories: content.images.clone() })
    };
    let stays: BTreeSet<String> = layout(kept).into_iter().collect();
    let leaves = layout(own).into_iter().filter(|path| !stays.contains(path));
    for path in leaves {
        fsio::remove(&machine.path(&path))?;
        for folder in Path::new(&path).ancestors().skip(1).take_while(|folder| *folder != Path::new(data_dir)) {
            // One that has something else is kept, and so is all above it.
            if fs::remove_dir(machine.path(folder)).is_err() {
                break;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for BundlesRemoved {
        // Nothing restores it: the file tells what goes and what stays.
        const TESTED: Tested<Case<Self>> = Tested::In("bundles_removed.rs");
    }
}
