//! Where a file may be whose folder a reset has set aside, before it clears the network; and what is a network's own on this host.

use std::path::{Path, PathBuf};

use kubexm_plan::network::{self, NetworkTraits};
use kubexm_plan::op::reset::ASIDE;

use super::mounts;
use crate::Machine;

/// Its own place, and those in every folder above it that may have been set aside: beside the folder, or in it where that is a mount point or
/// a link.
pub(super) fn places(machine: &Machine, file: &str) -> Vec<PathBuf> {
    let mut all = vec![machine.path(file)];
    let path = Path::new(file);
    for folder in path.ancestors().skip(1).filter(|folder| folder.parent().is_some()) {
        let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { continue };
        let Ok(rest) = path.strip_prefix(folder) else { continue };
        let beside = (parent, format!("{ASIDE}-{}", name.to_string_lossy()));
        for (within, start) in [beside, (folder, ASIDE.to_owned())] {
            let entries = mounts::entries(&machine.path(within)).unwrap_or_default().into_iter();
            let is_aside =
                |entry: &PathBuf| entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start));
            all.extend(entries.filter(is_aside).map(|aside| aside.join(rest)));
        }
    }
    all
}

/// The networks whose names are their own on this host: those that share names with others only where their mark is.
pub(super) fn own_networks(machine: &Machine) -> Vec<&'static NetworkTraits> {
    // A link leads nowhere before pods have put something there, or when its folder is set aside.
    let is_there = |mark: &str| places(machine, mark).iter().any(|path| path.symlink_metadata().is_ok());
    network::any().filter(|network| network.mark.is_none_or(is_there)).collect()
}
