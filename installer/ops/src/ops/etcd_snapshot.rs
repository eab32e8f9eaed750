//! A snapshot of etcd: written under another name, checked, then renamed.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use kubexm_plan::op::{EtcdSnapshot, SNAPSHOTS, Snapshotted};
use kubexm_spec::{amount, amount_needed};

use crate::ops::act::members::{self, Reach};
use crate::path_state::{Look, PathState, PutBack};
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave, fsio, own_etcd, snapshot};

const LIMIT_S: u64 = 1_800;
/// What the snapshot needs besides its own size: the database grows while it is read.
pub(crate) const SPARE: u64 = 256 << 20;
const PAUSE: Duration = Duration::from_secs(5);
/// Below etcd's folder.
const DATABASE: &str = "member/snap/db";

impl Converge for EtcdSnapshot {
    fn observe(&self, machine: &Machine) -> Result<Snapshotted, OpError> {
        let path = self.path();
        Ok(Snapshotted { file: PathState::look(machine, &path)?, sound: snapshot::is_sound(&machine.path(&path))? })
    }

    fn satisfied(&self, found: &Snapshotted, _: &Machine) -> bool {
        found.sound
    }

    /// An earlier file of the name is no snapshot.
    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![self.path()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        fsio::private_folder(&machine.path(SNAPSHOTS))?;
        save(machine, SNAPSHOTS, &self.name, SPARE)
    }

    fn restore(&self, machine: &Machine, before: &Snapshotted, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.file.restore(machine) } else { Ok(()) }
    }
}

/// Waits until a member that this host asks is healthy, as it may not be yet right after a boot.
pub(crate) fn await_member(machine: &Machine, patience: Duration) -> Result<(), OpError> {
    let begun = Instant::now();
    while let Err(error) = source(machine) {
        if begun.elapsed() >= patience || !machine.is_real() {
            return Err(error);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Saves a snapshot as `NAME.db` in a folder that is there: under another name, until it is verified. `spare`: the bytes that are free
/// afterwards.
pub(crate) fn save(machine: &Machine, folder: &str, name: &str, spare: u64) -> Result<(), OpError> {
    let partial = take(machine, folder, name, spare)?;
    fsio::rename(&machine.path(partial), &machine.path(format!("{folder}/{name}.db")))
}

/// Takes a verified snapshot, root's alone, in a folder that is there, and returns its path: a hidden name, which is no snapshot to
/// anybody. The caller renames it or calls [`discard`].
pub(crate) fn take(machine: &Machine, folder: &str, name: &str, spare: u64) -> Result<String, OpError> {
    let Source { endpoint, files } = source(machine)?;
    let database = format!("{}/{DATABASE}", own_etcd::data_dir(machine)?);
    refuse_full(machine, folder, machine.path(database).metadata().map_or(0, |found| found.len()), spare)?;
    let partial = format!("{folder}/.{name}.partial");
    discard(machine, &partial)?;
    let real = machine.path(&partial).display().to_string();
    let [ca, certificate, key] = files.map(|path| machine.path(path).display().to_string());
    let save = Program::new("etcdctl")
        .args(["--endpoints", &endpoint, "--cacert", &ca, "--cert", &certificate, "--key", &key])
        .args(["snapshot", "save", &real])
        .within(LIMIT_S);
    let saved = machine.run(&save).and_then(|_| verified(machine, &partial)).and_then(|()| {
        // It has every Secret of the cluster, whatever the umask of etcdctl was.
        let private = std::fs::Permissions::from_mode(0o600);
        let partial = machine.path(&partial);
        std::fs::set_permissions(&partial, private).map_err(OpError::path("set the mode of", &partial))
    });
    match saved {
        Ok(()) => Ok(partial),
        Err(error) => {
            // What is not a snapshot is not kept.
            discard(machine, &partial)?;
            Err(error)
        }
    }
}

/// Removes a snapshot that was taken, or a part of one: etcdctl that was ended leaves its own name with `.part`.
pub(crate) fn discard(machine: &Machine, partial: &str) -> Result<(), OpError> {
    let whole = fsio::remove(&machine.path(partial));
    fsio::remove(&machine.path(format!("{partial}.part"))).and(whole)
}

/// The member that is asked, and the files of its client.
struct Source {
    endpoint: String,
    files: [String; 3],
}

/// A member that lags behind, or has no leader, would give an old state.
fn source(machine: &Machine) -> Result<Source, OpError> {
    let Reach { client, files, endpoints } = members::own(machine)?.ok_or_else(|| {
        OpError::other(
            "this host has no certificates of etcd: a snapshot is taken on a member or a control plane".to_owned(),
        )
    })?;
    let mut ill = Vec::new();
    for endpoint in endpoints {
        match client.status(machine, &endpoint) {
            Ok(status) => match status.trouble {
                None => return Ok(Source { endpoint, files }),
                Some(trouble) => ill.push(trouble),
            },
            Err(error) => ill.push(error.full()),
        }
    }
    Err(OpError::other(format!(
        "no member of etcd that this host asks is healthy ({}): mend it, then take the snapshot",
        ill.join("; ")
    )))
}

/// Fails if a snapshot of this size, in bytes, does not fit into a folder with the room that is to stay free.
pub(crate) fn refuse_full(machine: &Machine, folder: &str, size: u64, spare: u64) -> Result<(), OpError> {
    let (needed, space) = (size.saturating_add(spare), machine.system().space(folder)?);
    if space.free >= needed {
        return Ok(());
    }
    Err(OpError::other(format!(
        "a snapshot of etcd needs {} below {folder}, and {} are free: make room, then run again",
        amount_needed(needed),
        amount(space.free)
    )))
}

fn verified(machine: &Machine, path: &str) -> Result<(), OpError> {
    if !snapshot::is_sound(&machine.path(path))? {
        return Err(OpError::other(
            "the snapshot that etcd has sent does not match its checksum: it was cut off or changed on the way; run again",
        ));
    }
    snapshot::status(machine, path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for EtcdSnapshot {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("a snapshot of etcd", |h| {
            h.with_cluster();
            EtcdSnapshot { name: "before".to_owned() }
        })]);
    }
}
