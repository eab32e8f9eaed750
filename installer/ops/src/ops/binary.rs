//! A blob as an executable file.

use std::fs::File;
use std::io::{Read, Write};

use kubexm_plan::op::Binary;
use kubexm_spec::digest::Hasher;

use crate::fsio::{self, Access};
use crate::path_state::{self, Look, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave};

impl Converge for Binary {
    fn observe(&self, machine: &Machine) -> Result<PathState, OpError> {
        PathState::look(machine, &self.path)
    }

    fn satisfied(&self, found: &PathState, _: &Machine) -> bool {
        found.entry.is(self.blob, self.mode)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![self.path.clone()]
    }

    /// A separate copy (with shared blocks if the file system supports them): with a hard link a change of the program
    /// would change the store. By rename, since a running program cannot be written to.
    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        path_state::replaceable(machine, &self.path)?;
        let blob = machine.blob(&self.blob);
        let mut source = File::open(&blob).map_err(OpError::path("open the blob", &blob))?;
        let mut digest = None;
        machine
            .place_file(&self.path, Access::mode(self.mode), |target| {
                let cloned = rustix::fs::ioctl_ficlone(&*target, &source).is_ok();
                let mut hasher = Hasher::default();
                let mut buffer = vec![0; 1 << 17];
                loop {
                    let count = source.read(&mut buffer)?;
                    if count == 0 {
                        break;
                    }
                    hasher.update(&buffer[..count]);
                    if !cloned {
                        target.write_all(&buffer[..count])?;
                    }
                }
                let found = hasher.finish();
                digest = Some(found);
                if found == self.blob {
                    Ok(())
                } else {
                    Err(std::io::Error::other(format!("the blob's bytes have the digest {found}, not {}", self.blob)))
                }
            })
            .inspect_err(|_| {
                // A blob with a wrong digest is removed, so that the next run sends it again.
                if digest.is_some_and(|found| found != self.blob) {
                    let _ = fsio::remove(&blob);
                }
            })
    }

    fn restore(&self, machine: &Machine, before: &PathState, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.restore(machine) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for Binary {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("a program over an older one", |h| {
            h.put("/usr/local/bin/tool", "old");
            let blob = h.blob("new");
            Binary { path: "/usr/local/bin/tool".into(), blob, mode: 0o755 }
        })]);
    }
}
