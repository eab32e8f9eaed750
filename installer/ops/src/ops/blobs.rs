//! Blobs in the node's content store. The link delivers and verifies them; this op reports which exist.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use kubexm_plan::op::{Blobs, Missing};
use kubexm_spec::Digest;

use crate::{Converge, Machine, OpError, Wave, fsio};

impl Converge for Blobs {
    /// By size only: a blob gets its name after its digest was computed over every byte, and is verified again when it
    /// is used.
    fn observe(&self, machine: &Machine) -> Result<Missing, OpError> {
        let absent = |digest: &Digest, size: u64| {
            !machine.blob(digest).metadata().is_ok_and(|found| found.is_file() && found.len() == size)
        };
        Ok(Missing {
            missing: self.blobs.iter().filter(|(digest, size)| absent(digest, **size)).map(|(d, _)| *d).collect(),
        })
    }

    fn satisfied(&self, found: &Missing, machine: &Machine) -> bool {
        found.missing.is_empty() && closed(self, machine).is_empty()
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    /// The engine delivers before it converges; a blob that is still missing here is not available.
    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let missing = self.observe(machine)?.missing;
        match missing.first() {
            None => closed(self, machine).iter().try_for_each(|(path, mode)| {
                let open = std::fs::Permissions::from_mode(*mode);
                std::fs::set_permissions(path, open).map_err(OpError::path("set the mode of", path))
            }),
            Some(first) => Err(OpError::other(format!(
                "{} of {} blobs did not arrive in the node's content store (first: {first}); they are sent when you run again",
                missing.len(),
                self.blobs.len()
            ))),
        }
    }

    fn restore(&self, machine: &Machine, before: &Missing, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Data {
            return Ok(());
        }
        before.missing.iter().try_for_each(|digest| fsio::remove(&machine.blob(digest)))?;
        // Removes the store's own folders if kubexm created them and no other blob is in them.
        let mut folder = machine.blob(&Digest::of(b""));
        for _ in 0..3 {
            folder.pop();
            if std::fs::remove_dir(&folder).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// What others need for a folder or a file, to read what is in it.
const OPEN_FOLDER: u32 = 0o755;
const OPEN_FILE: u32 = 0o644;

/// The store's folders and the op's blobs that not everybody may read, with the mode that they need: the agent has the umask that
/// sshd or sudo gave it, and the depot, which serves them, is not root. All of it is content of the bundle.
fn closed(op: &Blobs, machine: &Machine) -> Vec<(PathBuf, u32)> {
    let blobs = machine.blob(&Digest::of(b""));
    // `sha256`, `blobs`, the store, and kubexm's own folder.
    let folders = blobs.ancestors().skip(1).take(4).map(|folder| (folder.to_owned(), OPEN_FOLDER));
    let files = op.blobs.keys().map(|digest| (machine.blob(digest), OPEN_FILE));
    folders.chain(files).filter(|(path, mode)| is_closed(path, *mode)).collect()
}

/// Whether it is there and lacks a bit for others.
fn is_closed(path: &Path, mode: u32) -> bool {
    let others = mode & 0o007;
    path.metadata().is_ok_and(|found| found.permissions().mode() & others != others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use std::collections::BTreeMap;

    impl Cases for Blobs {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("blobs that are there", |h| {
            let blob = h.blob("abc");
            Blobs { blobs: BTreeMap::from([(blob, 3)]), depots: None, shared_at: None }
        })]);
    }
}
