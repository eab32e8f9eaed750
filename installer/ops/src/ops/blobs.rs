//! Blobs in the node's content store. The link delivers and verifies them; this op reports which exist.

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

    fn satisfied(&self, found: &Missing, _: &Machine) -> bool {
        found.missing.is_empty()
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    /// The engine delivers before it converges; a blob that is still missing here is not available.
    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let missing = self.observe(machine)?.missing;
        match missing.first() {
            None => Ok(()),
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
