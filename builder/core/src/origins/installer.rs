//! `kubexm-install` itself: the agent of hosts of each platform travels in the bundle.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_spec::{Arch, Platform, names};

use crate::BuildError;

/// Candidate files for `kubexm-install`; the ELF header states the platform.
#[derive(Clone, Debug, Default)]
pub struct Installers {
    found: BTreeMap<Platform, PathBuf>,
    /// For which machine, and what was there.
    looked_at: Vec<(Arch, String)>,
}

impl Installers {
    /// Looks at files the user named, then at the places beside the running program.
    pub fn look(named: &[PathBuf], beside: Option<&Path>) -> Result<Self, BuildError> {
        let mut all = Self::default();
        for path in named {
            let arch = machine(path).map_err(|source| BuildError::Local { path: path.clone(), source })?;
            match arch {
                Some(arch) => all.take(arch, path.clone()),
                None => {
                    let source = std::io::Error::other("it is not a Linux program for x86_64 or aarch64");
                    return Err(BuildError::Local { path: path.clone(), source });
                }
            }
        }
        for arch in [Arch::Amd64, Arch::Arm64] {
            for name in [names::INSTALLER.to_owned(), format!("{}-linux-{arch}", names::INSTALLER)] {
                let Some(path) = beside.map(|folder| folder.join(name)) else { continue };
                match machine(&path) {
                    Ok(Some(found)) if found == arch => all.take(arch, path),
                    Ok(_) => all.looked_at.push((arch, format!("{} is for another machine", path.display()))),
                    Err(error) => all.looked_at.push((arch, format!("{}: {error}", path.display()))),
                }
            }
        }
        Ok(all)
    }

    /// The file for a platform.
    pub fn path(&self, platform: Platform) -> Result<&Path, BuildError> {
        let looked = self.looked_at.iter().filter(|(arch, _)| *arch == platform.arch).map(|(_, text)| text.as_str());
        self.found
            .get(&platform)
            .map(PathBuf::as_path)
            .ok_or_else(|| BuildError::Installer { platform, reason: looked.collect::<Vec<_>>().join("; ") })
    }

    /// The first file found for a platform wins: what the user named comes before what lies beside.
    fn take(&mut self, arch: Arch, path: PathBuf) {
        self.found.entry(Platform { arch }).or_insert(path);
    }
}

/// The architecture of a 64-bit little-endian ELF program (ELF specification, "ELF Header": e_machine at offset 18).
fn machine(path: &Path) -> std::io::Result<Option<Arch>> {
    let mut header = [0; 20];
    match File::open(path)?.read_exact(&mut header) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    if header[..6] != [0x7f, b'E', b'L', b'F', 2, 1] {
        return Ok(None);
    }
    Ok(match u16::from_le_bytes([header[18], header[19]]) {
        62 => Some(Arch::Amd64),
        183 => Some(Arch::Arm64),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(folder: &Path, name: &str, machine: u16) -> PathBuf {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1];
        bytes.resize(18, 0);
        bytes.extend(machine.to_le_bytes());
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn a_program_for_another_architecture_is_never_used() {
        let folder = tempfile::tempdir().unwrap();
        elf(folder.path(), "kubexm-install", 183);
        let installers = Installers::look(&[], Some(folder.path())).unwrap();
        assert!(installers.path(Platform::LINUX_AMD64).is_err());
        assert!(installers.path(Platform::LINUX_ARM64).is_ok());
    }

    #[test]
    fn what_the_user_names_comes_first_and_must_be_a_program() {
        let folder = tempfile::tempdir().unwrap();
        elf(folder.path(), "kubexm-install", 62);
        let own = elf(folder.path(), "mine", 62);
        let installers = Installers::look(std::slice::from_ref(&own), Some(folder.path())).unwrap();
        assert_eq!(installers.path(Platform::LINUX_AMD64).unwrap(), own);
        let text = folder.path().join("text");
        std::fs::write(&text, "#!/bin/sh").unwrap();
        assert!(Installers::look(&[text], None).is_err());
    }
}
