//! A snapshot of etcd: written under another name, checked, then renamed.

use kubexm_plan::op::{EtcdSnapshot, SNAPSHOTS, Snapshotted};

use crate::ops::act::members::{self, LOCAL};
use crate::path_state::{Look, PathState, PutBack};
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave, fsio, snapshot};

const PKI: &str = "/etc/kubernetes/pki/etcd";
const LIMIT_S: u64 = 1_800;
/// What the snapshot needs besides its own size: the database grows while it is read.
const SPARE: u64 = 256 << 20;
const DATABASE: &str = "/var/lib/etcd/member/snap/db";

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
        refuse_unhealthy(machine)?;
        refuse_full(machine)?;
        let (path, partial) = (self.path(), format!("{SNAPSHOTS}/.{}.partial", self.name));
        let folder = machine.path(SNAPSHOTS);
        fsio::private_folder(&folder)?;
        fsio::remove(&machine.path(&partial))?;
        let real = machine.path(&partial).display().to_string();
        let pki = |file: &str| machine.path(format!("{PKI}/{file}")).display().to_string();
        let save = Program::new("etcdctl")
            .args(["--endpoints", LOCAL, "--cacert", &pki("ca.crt"), "--cert", &pki("healthcheck-client.crt")])
            .args(["--key", &pki("healthcheck-client.key"), "snapshot", "save", &real])
            .within(LIMIT_S);
        let saved = machine.run(&save).and_then(|_| verified(machine, &partial));
        match saved {
            Ok(()) => fsio::rename(&machine.path(&partial), &machine.path(&path)),
            Err(error) => {
                // What is not a snapshot is not kept.
                fsio::remove(&machine.path(&partial))?;
                Err(error)
            }
        }
    }

    fn restore(&self, machine: &Machine, before: &Snapshotted, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.file.restore(machine) } else { Ok(()) }
    }
}

/// A member that lags behind, or has no leader, would give an old state.
fn refuse_unhealthy(machine: &Machine) -> Result<(), OpError> {
    let client = members::client(machine)?.ok_or_else(|| {
        OpError::other("this host has no certificates of etcd: a snapshot is taken on a control plane".to_owned())
    })?;
    match client.status(machine, LOCAL)?.trouble {
        None => Ok(()),
        Some(trouble) => Err(OpError::other(format!(
            "etcd on this host is not healthy ({trouble}): mend it, then take the snapshot"
        ))),
    }
}

fn refuse_full(machine: &Machine) -> Result<(), OpError> {
    let size = machine.path(DATABASE).metadata().map_or(0, |found| found.len());
    let (needed, space) = (size.saturating_add(SPARE), machine.system().space(SNAPSHOTS)?);
    if space.free >= needed {
        return Ok(());
    }
    Err(OpError::other(format!(
        "a snapshot of etcd needs {} MiB below {SNAPSHOTS}, and {} MiB are free: make room, then run again",
        needed >> 20,
        space.free >> 20
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
