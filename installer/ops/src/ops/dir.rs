//! A directory.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use kubexm_plan::op::Dir;
use rustix::fs::FileType;

use crate::dirfd::DirFd;
use crate::path_state::{Look, PathEntry, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave};

impl Converge for Dir {
    fn observe(&self, machine: &Machine) -> Result<PathState, OpError> {
        PathState::look(machine, &self.path)
    }

    fn satisfied(&self, found: &PathState, machine: &Machine) -> bool {
        match &found.entry {
            PathEntry::Directory { mode } => *mode == self.mode,
            // An administrator's link to a directory on another disk is accepted, if it is not open to more than this one.
            PathEntry::Link { .. } => {
                let real = fs::metadata(machine.path(&self.path));
                real.is_ok_and(|real| real.is_dir() && opens(self, real.mode()) == 0)
            }
            PathEntry::Absent | PathEntry::File { .. } | PathEntry::Special => false,
        }
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let real = machine.path(&self.path);
        match PathEntry::look(machine, &self.path)? {
            PathEntry::Absent | PathEntry::Directory { .. } => {}
            PathEntry::Link { .. } if real.is_dir() => {
                // The administrator's mode, without what this one does not let in.
                let folder = DirFd::open(&real)?;
                let mode = folder.mode()?;
                if opens(self, mode) != 0 {
                    folder.set_access(mode & !opens(self, mode), None)?;
                    folder.sync()?;
                }
                return Ok(());
            }
            PathEntry::File { .. } | PathEntry::Link { .. } | PathEntry::Special => {
                return Err(OpError::other(format!(
                    "{} must be a directory, and is not; move it away and run again",
                    self.path
                )));
            }
        }
        let folder = DirFd::make(&real)?;
        folder.set_access(self.mode, None)?;
        folder.sync()?;
        machine.relabel(&self.path)
    }

    fn restore(&self, machine: &Machine, before: &PathState, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Data || would_open(self, machine, before)? {
            return Ok(());
        }
        before.restore(machine)
    }
}

/// Beginning of the name of a volume: Kubernetes' provisioners make it of the claim's id.
const VOLUME: &[u8] = b"pvc-";

/// Bits of a mode that let in more than that of the folder does.
const fn opens(dir: &Dir, mode: u32) -> u32 {
    mode & 0o777 & !dir.mode
}

/// Whether the mode of before would let others into a folder of root's alone, and on into one in it, as a volume of OpenEBS is: that was
/// made because the way to it was closed. It stays closed, for a volume outlives what made it. Who has a volume may set its mode and its
/// owner, so one of that name counts as closed itself only while it is root's, and nobody else may enter it.
fn would_open(dir: &Dir, machine: &Machine, before: &PathState) -> Result<bool, OpError> {
    match before.entry {
        PathEntry::Directory { mode } if dir.mode & 0o077 == 0 && opens(dir, mode) != 0 => {
            let real = machine.path(&dir.path);
            if !real.is_dir() {
                return Ok(false);
            }
            let folder = DirFd::open(&real)?;
            let is_open = |name: &OsString| {
                folder.entry(name).ok().flatten().is_some_and(|found| {
                    let others = found.st_mode & 0o077 != 0 || found.st_uid != rustix::process::geteuid().as_raw();
                    let is_volume = name.as_encoded_bytes().starts_with(VOLUME);
                    FileType::from_raw_mode(found.st_mode) == FileType::Directory
                        && (found.st_mode & 0o1002 == 0o002 || (is_volume && others))
                })
            };
            Ok(folder.names()?.iter().any(is_open))
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use kubexm_plan::Op;

    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use crate::dispatch;
    use crate::fake::host::Host;

    fn mode(host: &Host, path: &str) -> u32 {
        fs::metadata(host.machine.path(path)).expect("a folder").mode() & 0o7777
    }

    /// Somebody made it for everybody before.
    #[test]
    fn a_folder_of_roots_alone_stays_so_while_others_may_enter_one_in_it() {
        let host = Host::fresh();
        host.put("/data/volumes/theirs", "theirs");
        let op = Op::from(Dir { path: "/data/volumes".to_owned(), mode: 0o700 });
        let found = dispatch::observe(&op, &host.machine).expect("a look");
        assert_eq!((mode(&host, "/data/volumes"), found.satisfied), (0o755, false));
        dispatch::converge(&op, &host.machine).expect("made");
        let volume = host.machine.path("/data/volumes/pvc-1");
        fs::create_dir(&volume).expect("a volume");
        // A pod's own process may have set any.
        for open in [0o777, 0o755, 0o1777, 0o710] {
            fs::set_permissions(&volume, fs::Permissions::from_mode(open)).expect("a mode");
            dispatch::restore(&op, &host.machine, &found, Wave::Data).expect("back");
            assert_eq!(mode(&host, "/data/volumes"), 0o700, "{open:o}");
        }
        fs::remove_dir(&volume).expect("removed");
        // Others' folders there are theirs, as before.
        fs::create_dir(host.machine.path("/data/volumes/of-others")).expect("a folder");
        dispatch::restore(&op, &host.machine, &found, Wave::Data).expect("back");
        assert_eq!(mode(&host, "/data/volumes"), 0o755);
    }

    #[test]
    fn where_it_is_a_link_the_folder_behind_it_is_closed() {
        let host = Host::fresh();
        host.put("/data/openebs/.keep", "");
        let link = host.machine.path("/srv/volumes");
        fs::create_dir_all(link.parent().expect("a parent")).expect("a folder");
        std::os::unix::fs::symlink("../data/openebs", &link).expect("a link");
        let open = Op::from(Dir { path: "/srv/volumes".to_owned(), mode: 0o755 });
        assert!(dispatch::observe(&open, &host.machine).expect("a look").satisfied);
        let op = Op::from(Dir { path: "/srv/volumes".to_owned(), mode: 0o700 });
        assert!(!dispatch::observe(&op, &host.machine).expect("a look").satisfied);
        dispatch::converge(&op, &host.machine).expect("made");
        assert!(dispatch::observe(&op, &host.machine).expect("a look").satisfied);
        assert_eq!(mode(&host, "/data/openebs"), 0o700);
        assert!(link.is_symlink());
    }

    impl Cases for Dir {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[
            ("a directory", |_| Dir { path: "/etc/kubexm/a".into(), mode: 0o700 }),
            ("a directory with another mode", |h| {
                h.put("/etc/kubexm/x", "x");
                Dir { path: "/etc/kubexm".into(), mode: 0o711 }
            }),
        ]);
    }
}
