//! A phase of a restore on one member of etcd. What was there is moved aside, never deleted: a rollback moves it back.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kubexm_plan::etcd;
use kubexm_plan::op::{EtcdRestored, RestorePhase, RestoreState, RestoredHost, SNAPSHOTS};
use kubexm_spec::cluster::RuntimeKind;

use crate::etcd_data::{self, MemberData, can_restore, remove_all};
use crate::fsio::{self, Access};
use crate::kube::own_server;
use crate::path_state::{Look, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave, backup, containers, own_etcd, started, systemd};

const MANIFESTS: &str = "/etc/kubernetes/manifests";
/// On the same file system, and not read by kubelet.
const STOPPED: &str = "/etc/kubernetes/kubexm-stopped";
/// In the order in which they are stopped.
const PODS: [&str; 2] = ["kube-apiserver", "etcd"];
/// How long kubelet may take to see that a manifest is gone, and to end the container.
const STOPS: Duration = Duration::from_secs(120);
/// How long it may take to start one.
const STARTS: Duration = Duration::from_secs(60);
/// How long all members may take to find each other, and the API server to answer.
const ANSWERS: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(300);

impl Converge for EtcdRestored {
    fn observe(&self, machine: &Machine) -> Result<RestoreState, OpError> {
        Ok(RestoreState { mark: PathState::look(machine, &self.mark())? })
    }

    fn satisfied(&self, found: &RestoreState, _: &Machine) -> bool {
        found.mark.entry.digest().is_some()
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        match &self.phase {
            RestorePhase::Stopped => {
                // What has no member gets no data.
                if self.on != RestoredHost::ApiServer {
                    can_restore(machine)?;
                }
                stop(self, machine)?;
            }
            RestorePhase::Data { .. } => restore_data(self, machine)?,
            RestorePhase::Started => {
                start(self, machine)?;
                if self.on.is_stacked() && !runs(machine, self.runtime, "etcd")? {
                    return Err(OpError::other(format!(
                        "etcd does not run {} s after its manifest is back: look at /var/log/pods/kube-system_etcd-*/etcd on this \
                         host, then run again",
                        STARTS.as_secs()
                    )));
                }
                if self.on.has_api_server() {
                    answers(machine)?;
                }
            }
        }
        machine.write_file(&self.mark(), b"done\n", Access::mode(0o600))
    }

    fn restore(&self, machine: &Machine, before: &RestoreState, wave: Wave) -> Result<(), OpError> {
        match (&self.phase, wave) {
            // Before the data moves under them.
            (RestorePhase::Started, Wave::Stop) => stop(self, machine)?,
            (RestorePhase::Data { .. }, Wave::Data) => bring_back(self, machine)?,
            (RestorePhase::Stopped, Wave::Start) => {
                // What etcd had before may be nothing that it can run with.
                let member = if self.on.has_own_member() { start_member(machine) } else { Ok(()) };
                start_pods(machine)?;
                if Folders::of(self, machine)?.member.exists() {
                    member?;
                }
                if self.on.has_api_server() {
                    runs(machine, self.runtime, if self.on.is_stacked() { "etcd" } else { "kube-apiserver" })?;
                }
            }
            _ => {}
        }
        // Last, so that an interrupted rollback is repeated.
        if wave == Wave::Start { before.mark.restore(machine) } else { Ok(()) }
    }
}

fn manifest(folder: &str, pod: &str) -> String {
    format!("{folder}/{pod}.yaml")
}

/// The API server first, which writes.
fn stop(op: &EtcdRestored, machine: &Machine) -> Result<(), OpError> {
    if op.on.has_api_server() {
        stop_pods(machine, op.runtime)?;
    }
    if op.on.has_own_member() {
        // A boot in the middle of a restore must not start it with data that the others do not have.
        systemd::enable(machine, etcd::UNIT, false)?;
        systemd::stop(machine, etcd::UNIT)?;
    }
    Ok(())
}

fn stop_pods(machine: &Machine, runtime: RuntimeKind) -> Result<(), OpError> {
    move_out(machine)?;
    let begun = Instant::now();
    for pod in PODS {
        loop {
            let all = containers::of_system_pod(machine, runtime, pod)?;
            if !all.iter().any(|container| container.running) {
                break;
            }
            if begun.elapsed() > STOPS {
                return Err(OpError::other(format!(
                    "{pod} still runs {} s after its manifest was moved to {STOPPED}: kubelet, which ends it, does not run \
                     or does not see that; look at `journalctl -u kubelet` on this host, then run again",
                    STOPS.as_secs()
                )));
            }
            if machine.is_real() {
                std::thread::sleep(PAUSE);
            }
        }
    }
    Ok(())
}

fn move_out(machine: &Machine) -> Result<(), OpError> {
    let folder = machine.path(STOPPED);
    if !folder.is_dir() {
        fsio::make_private_folder(&folder)?;
    }
    for pod in PODS {
        let from = machine.path(manifest(MANIFESTS, pod));
        if from.is_file() {
            fsio::rename(&from, &machine.path(manifest(STOPPED, pod)))?;
        }
    }
    Ok(())
}

/// etcd first: the API server ends without it.
fn start(op: &EtcdRestored, machine: &Machine) -> Result<(), OpError> {
    if op.on.has_own_member() {
        start_member(machine)?;
    }
    start_pods(machine)
}

/// With a record of what it was started with, as it had one: otherwise the next run would restart it.
fn start_member(machine: &Machine) -> Result<(), OpError> {
    systemd::enable(machine, etcd::UNIT, true)?;
    if systemd::show(machine, etcd::UNIT)?.active() {
        return Ok(());
    }
    let record = started::read_record(machine, etcd::UNIT)?;
    let files: Vec<String> = record.into_iter().flat_map(|record| record.loaded.into_keys()).collect();
    let loaded = started::digests(machine, files.iter())?;
    systemd::start_anew(machine, etcd::UNIT)?;
    match files.is_empty() {
        true => Ok(()),
        false => started::write_record(machine, etcd::UNIT, systemd::show(machine, etcd::UNIT)?.invocation, loaded),
    }
}

fn start_pods(machine: &Machine) -> Result<(), OpError> {
    // etcd first: the API server ends without it, and is started with growing pauses.
    for pod in PODS.iter().rev() {
        let from = machine.path(manifest(STOPPED, pod));
        if from.is_file() {
            fsio::rename(&from, &machine.path(manifest(MANIFESTS, pod)))?;
        }
    }
    fsio::remove_folder(&machine.path(STOPPED)).map(drop)
}

/// Waits until a static pod runs. With etcd the API server is started, too, and may end until etcd has a leader.
fn runs(machine: &Machine, runtime: RuntimeKind, pod: &str) -> Result<bool, OpError> {
    let begun = Instant::now();
    loop {
        let all = containers::of_system_pod(machine, runtime, pod)?;
        if all.iter().any(|container| container.running) {
            return Ok(true);
        }
        if begun.elapsed() > STARTS {
            return Ok(false);
        }
        if machine.is_real() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Waits until this host's API server answers: the state of its pods is that of the backup until kubelet reports them again.
fn answers(machine: &Machine) -> Result<(), OpError> {
    let begun = Instant::now();
    while !own_server::answers(machine)? {
        if begun.elapsed() > ANSWERS {
            return Err(OpError::other(format!(
                "the API server does not answer {} s after it was started with the data of the backup: look at \
                 /var/log/pods/kube-system_kube-apiserver-* and _etcd-* on this host, then run again",
                ANSWERS.as_secs()
            )));
        }
        if machine.is_real() {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Names within etcd's folder, which may be a disk of its own. etcd reads `member` alone.
struct Folders {
    data: PathBuf,
    member: PathBuf,
    /// What was there.
    aside: PathBuf,
    /// That nothing was there.
    nothing: PathBuf,
    scratch: PathBuf,
}

impl Folders {
    fn of(op: &EtcdRestored, machine: &Machine) -> Result<Self, OpError> {
        let data = own_etcd::data_dir(machine)?;
        let path = |name: String| machine.path(format!("{data}/{name}"));
        Ok(Self {
            member: path("member".to_owned()),
            aside: path(format!(".kubexm-before-{}", op.id)),
            nothing: path(format!(".kubexm-nothing-before-{}", op.id)),
            scratch: path(format!(".kubexm-restore-{}", op.id)),
            data: machine.path(&data),
        })
    }
}

fn restore_data(op: &EtcdRestored, machine: &Machine) -> Result<(), OpError> {
    let RestorePhase::Data { archive, slots, name, peer, initial_cluster } = &op.phase else { return Ok(()) };
    // Whatever the plan takes for the host's etcd: the folder is that of this unit.
    if own_etcd::has_member(machine) && systemd::show(machine, etcd::UNIT)?.running() {
        return Err(OpError::other(format!(
            "{} runs on this host, and its data would be moved from under it: cluster.yaml does not say that etcd is kubexm's \
             (spec.etcd.type, roleGroups.etcd), or somebody has started it; correct that, or stop it, then run again",
            etcd::UNIT
        )));
    }
    let folders = Folders::of(op, machine)?;
    let database = format!("{SNAPSHOTS}/restore-{}.db", op.id);
    let folder = machine.path(SNAPSHOTS);
    fsio::private_folder(&folder)?;
    backup::sweep(machine)?;
    let real = machine.path(&database);
    fsio::make_folders(&folders.data)?;
    let member = MemberData { archive, slots, id: &op.id, name, peer, initial_cluster };
    let restored = etcd_data::restore(machine, &member, (&real, &folders.scratch));
    fsio::remove_folder(&folder)?;
    restored?;
    // Kept once: what a second attempt finds is of the first one.
    if !folders.aside.exists() && !folders.nothing.exists() {
        match folders.member.symlink_metadata() {
            Ok(_) => fsio::rename(&folders.member, &folders.aside)?,
            Err(_) => std::fs::write(&folders.nothing, b"").map_err(OpError::path("write", &folders.nothing))?,
        }
    }
    remove_all(&folders.member)?;
    fsio::rename(&folders.scratch.join("member"), &folders.member)?;
    remove_all(&folders.scratch)
}

fn bring_back(op: &EtcdRestored, machine: &Machine) -> Result<(), OpError> {
    let folders = Folders::of(op, machine)?;
    remove_all(&folders.scratch)?;
    if folders.aside.exists() {
        remove_all(&folders.member)?;
        return fsio::rename(&folders.aside, &folders.member);
    }
    if folders.nothing.exists() {
        remove_all(&folders.member)?;
        return fsio::remove(&folders.nothing);
    }
    Ok(())
}

#[cfg(test)]
impl crate::cases::Cases for EtcdRestored {
    const TESTED: crate::cases::Tested<crate::cases::Case<Self>> = crate::cases::Tested::In("backup.rs");
}
