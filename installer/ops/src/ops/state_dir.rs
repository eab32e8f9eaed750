//! A directory that a service creates and fills, or a file that it writes: undo removes new content and keeps the
//! earlier one.

use kubexm_plan::op::StateDir;
use kubexm_plan::{Op, ledger};

use crate::path_state::{Look, PathEntry, PathState, PutBack};
use crate::teardown::mounts;
use crate::{Converge, Machine, OpError, Wave, folder, fsio};

impl Converge for StateDir {
    /// A folder that a service of kubexm has filled already is not listed: the rollback of a later run must not remove
    /// what the running cluster has written meanwhile.
    fn observe(&self, machine: &Machine) -> Result<PathState, OpError> {
        let place = PathState::look(machine, &self.path)?;
        let before_us = place.entry != PathEntry::Absent && !filled_by_us(machine, &self.path)?;
        let held = if before_us { folder::list(machine, &self.path) } else { None };
        Ok(PathState { held, ..place })
    }

    /// Always satisfied: the service creates it.
    fn satisfied(&self, _: &PathState, _: &Machine) -> bool {
        true
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, _: &Machine) -> Result<(), OpError> {
        Ok(())
    }

    fn restore(&self, machine: &Machine, before: &PathState, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Data {
            return Ok(());
        }
        match (&before.entry, &before.held) {
            (PathEntry::Absent, _) => {
                if let Some(mount) = mounts::at(machine, &self.path)? {
                    return Err(mounts::left_alone(&mount));
                }
                let real = machine.path(&self.path);
                // The entry is a new link, whose target belongs to somebody else.
                if real.is_symlink() {
                    fsio::remove(&real)?
                } else {
                    mounts::remove_tree(machine, &self.path)?
                }
                before.restore(machine)
            }
            (PathEntry::Directory { .. } | PathEntry::Link { .. }, Some(held)) => {
                folder::remove_new(machine, &self.path, held)?;
                restore_access(machine, before)
            }
            // The earlier content is unknown, so nothing in it is removed.
            (PathEntry::Directory { .. } | PathEntry::Link { .. }, None) => restore_access(machine, before),
            (PathEntry::File { .. } | PathEntry::Special, _) => Ok(()),
        }
    }
}

/// Restores the mode of an existing folder, and nothing in it.
pub(crate) fn restore_access(machine: &Machine, before: &PathState) -> Result<(), OpError> {
    if matches!(before.entry, PathEntry::Directory { .. }) { before.restore(machine) } else { Ok(()) }
}

fn filled_by_us(machine: &Machine, path: &str) -> Result<bool, OpError> {
    let ledger = machine.ledger();
    if !ledger.made(path) {
        return Ok(false);
    }
    let is_it = |op: &Op| matches!(op, Op::StateDir(dir) if dir.path == path);
    Ok(ledger::any_not_rolled_back(ledger.records()?.iter(), is_it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use crate::dispatch;
    use crate::fake::host::{Host, same};

    impl Cases for StateDir {
        const TESTED: Tested<Case<Self>> =
            Tested::Here(&[("a folder that a service fills", |_| StateDir::at("/opt/cni"))]);
    }

    #[test]
    fn data_of_a_service_is_removed_and_earlier_data_stays() {
        let host = Host::fresh();
        host.put("/var/lib/cni/theirs", "theirs");
        let ops = ["/usr/libexec/kubernetes", "/etc/cni", "/etc/cni/net.d/10-flannel.conflist", "/var/lib/cni"];
        let ops = ops.map(|path| Op::from(StateDir::at(path)));
        let before = host.tree();
        let found = ops.each_ref().map(|op| dispatch::observe(op, &host.machine).expect("a look"));
        assert!(found.iter().all(|found| found.satisfied), "a step must not fail because no service has begun yet");
        host.put("/usr/libexec/kubernetes/kubelet-plugins/volume/exec/x", "x");
        host.put("/etc/cni/net.d/10-flannel.conflist", "{}");
        host.put("/var/lib/cni/networks/cbr0/10.0.0.2", "pod");
        for wave in Wave::ALL {
            for (op, found) in ops.iter().zip(&found).rev() {
                dispatch::restore(op, &host.machine, found, wave).expect("back");
            }
        }
        same(&before, &host.tree(), "restore");
    }

    #[test]
    fn what_is_mounted_in_a_services_folder_stops_its_rollback_and_loses_nothing() {
        let host = Host::fresh();
        let op = Op::from(StateDir::at("/var/lib/kubelet"));
        let found = dispatch::observe(&op, &host.machine).expect("a look");
        host.put("/var/lib/kubelet/pods/1/volumes/nfs/data", "the user's");
        host.put(
            "/proc/self/mountinfo",
            "36 25 0:40 / /var/lib/kubelet/pods/1/volumes/nfs rw - nfs4 server:/export rw\n",
        );
        let error = dispatch::restore(&op, &host.machine, &found, Wave::Data).expect_err("a mount").full();
        assert!(error.contains("/var/lib/kubelet/pods/1/volumes/nfs") && error.contains("server:/export"), "{error}");
        assert_eq!(host.read("/var/lib/kubelet/pods/1/volumes/nfs/data"), "the user's");
    }
}
