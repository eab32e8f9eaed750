//! A static pod that runs with the files as they are. "Started after the change" is a state: by the record of our own
//! restart, which a clock that is set back cannot falsify; without one by the times of the container and of the files.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use kubexm_plan::op::{PodReady, Started, StaticPodStarted, StaticPodState};
use kubexm_spec::Digest;

use crate::container::{Container, Signal};
use crate::kube::own_server;
use crate::ops::act::members;
use crate::started::{boot_id, digests, holds, read_record, remove_record, write_record};
use crate::{Converge, Machine, OpError, Wave, containers, fsio};

/// How long kubelet and the pod may take until the API server answers again.
const READY: Duration = Duration::from_secs(180);
/// How long a process may take until it runs with files that it has read again.
const RELOAD: Duration = Duration::from_secs(30);
/// A signal that comes before the process can handle it is lost: it is sent again every so many looks.
const SIGNAL_AGAIN: usize = 10;
/// kubelet gives a static pod 30 s before it kills it.
const GRACE: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(300);
/// Looks at a machine that is only a directory, where nothing happens by itself.
const LOOKS: usize = 10;
/// New containers that may end before the API server answers: etcd may be away for a moment, a file that is wrong ends
/// every one of them.
const MAY_END: usize = 2;

impl Converge for StaticPodStarted {
    fn observe(&self, machine: &Machine) -> Result<StaticPodState, OpError> {
        let record = read_record(machine, &self.pod)?;
        let container = running(self, machine)?;
        let current = match &container {
            Some(container) => {
                let now = digests(machine, self.files())?;
                // A record of other files of the pod says nothing about these.
                let known = record.as_ref().and_then(|record| about(record, &now));
                match known.as_ref().filter(|record| record.invocation == *container) {
                    Some(record) => record.loaded == now,
                    None => {
                        let boot = boot_id(machine)?;
                        known.as_ref().is_some_and(|record| holds(record, container, &boot, &now))
                            || containers::created(machine, self.runtime, container)? >= changed(self, machine)?
                    }
                }
            }
            None => false,
        };
        Ok(StaticPodState { container, current: current && unread(self, machine)?.is_none(), record })
    }

    fn satisfied(&self, found: &StaticPodState, _: &Machine) -> bool {
        found.container.is_some() && found.current
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        if let Some(path) = unread(self, machine)? {
            let mend = match self.is_of_kubeadm() {
                true => {
                    "kubeadm wrote the flag and its volume there when the control plane was made: restore them \
                     (/etc/kubexm/kubeadm.yaml of the first control plane has both), then run again"
                }
                false => "somebody has edited that file: remove it and run again, and it is written anew",
            };
            return Err(OpError::other(format!(
                "{} does not read {path}: {} does not name it, so a changed file would have no effect. {mend}",
                self.pod,
                manifest(self)
            )));
        }
        let found = self.observe(machine)?;
        run_with(self, machine, &found, self.ready)
    }

    fn restore(&self, machine: &Machine, before: &StaticPodState, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Start {
            return Ok(());
        }
        // With the control plane the pod is gone.
        if before.container.is_some() && machine.path(manifest(self)).is_file() {
            let now = self.observe(machine)?;
            // Never restarted, it still has what the files hold again; unless it has read some of them since.
            let untouched = self.reloaded.is_empty() && now.container.is_some() && now.container == before.container;
            if !untouched && !self.satisfied(&now, machine) {
                run_with(self, machine, &now, self.ready.when_rolled_back())?;
            }
        }
        // One that an earlier run recorded is of a container that is gone, or as it was.
        if before.record.is_none() { remove_record(machine, &self.pod) } else { Ok(()) }
    }
}

/// What a record says about these files; none if it has not all of them.
fn about(record: &Started, files: &BTreeMap<String, Digest>) -> Option<Started> {
    let loaded = files.keys().map(|path| Some((path.clone(), *record.loaded.get(path)?))).collect::<Option<_>>()?;
    Some(Started { loaded, ..record.clone() })
}

/// What the next container reads: the files of this op, and those that other ops have recorded.
fn to_load(
    op: &StaticPodStarted,
    machine: &Machine,
    record: Option<&Started>,
) -> Result<BTreeMap<String, Digest>, OpError> {
    let recorded = record.into_iter().flat_map(|record| record.loaded.keys());
    let all: BTreeSet<&String> = op.files().chain(recorded).collect();
    digests(machine, all.into_iter())
}

fn manifest(op: &StaticPodStarted) -> String {
    format!("/etc/kubernetes/manifests/{}.yaml", op.pod)
}

/// A file that the manifest does not name.
fn unread<'o>(op: &'o StaticPodStarted, machine: &Machine) -> Result<Option<&'o str>, OpError> {
    let Some(text) = fsio::read_text(&machine.path(manifest(op)))? else { return Ok(None) };
    Ok(op
        .files()
        .map(String::as_str)
        .find(|path| !text.contains(path) && !real(machine, path).is_some_and(|path| text.contains(&path))))
}

/// Where a path leads: kubespray has a link in the place of kubeadm's folder of certificates, and the manifests name the folder itself.
fn real(machine: &Machine, path: &str) -> Option<String> {
    let (real, root) = (machine.path(path).canonicalize().ok()?, machine.root().canonicalize().ok()?);
    Some(format!("/{}", real.strip_prefix(root).ok()?.display()))
}

fn running(op: &StaticPodStarted, machine: &Machine) -> Result<Option<String>, OpError> {
    let all = containers::of_system_pod(machine, op.runtime, &op.pod)?;
    Ok(all.into_iter().find(|container| container.running).map(|container| container.id))
}

/// When the last of the files changed, in nanoseconds since 1970. The change time of an inode cannot be set, and a rename
/// sets it.
fn changed(op: &StaticPodStarted, machine: &Machine) -> Result<i128, OpError> {
    let mut last = i128::MIN;
    for path in op.files() {
        let real = machine.path(path);
        match real.symlink_metadata() {
            Ok(found) => last = last.max(i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(OpError::path("look at", &real)(error)),
        }
    }
    Ok(last)
}

/// Whether the files that the container was started with are as they were, so that a signal is enough.
fn reads_again(op: &StaticPodStarted, found: &StaticPodState, now: &BTreeMap<String, Digest>) -> bool {
    let same_start = || {
        let started = found.record.as_ref().filter(|record| Some(&record.invocation) == found.container.as_ref());
        started.is_some_and(|record| op.after.iter().all(|path| record.loaded.get(path) == now.get(path)))
    };
    !op.reloaded.is_empty() && (op.after.is_empty() || same_start())
}

/// Makes the container that runs with other files read them again, or ends it; waits until it or kubelet's next one answers,
/// and records it.
fn run_with(op: &StaticPodStarted, machine: &Machine, found: &StaticPodState, until: PodReady) -> Result<(), OpError> {
    let loaded = to_load(op, machine, found.record.as_ref())?;
    let known: BTreeSet<String> = all(op, machine)?.into_iter().map(|container| container.id).collect();
    let stale = found.container.as_ref().filter(|_| !found.current);
    let by_signal = stale.filter(|_| reads_again(op, found, &loaded));
    if let Some(id) = stale {
        let signal = if by_signal.is_some() { Signal::Hup } else { Signal::Term };
        containers::signal(machine, op.runtime, id, signal)?;
    }
    let stale = if by_signal.is_some() { None } else { stale };
    let started = Instant::now();
    let mut killed = false;
    let mut new = BTreeSet::new();
    for look in 1.. {
        let now = all(op, machine)?;
        let running = now.iter().find(|container| container.running).map(|container| &container.id);
        if let Some(id) = running.filter(|id| Some(*id) != stale)
            && ready(op, machine, until)?
        {
            return write_record(machine, &op.pod, id.clone(), loaded);
        }
        new.extend(now.iter().map(|container| &container.id).filter(|id| !known.contains(*id)).cloned());
        if new.len() > MAY_END {
            return Err(failed(op, "ends again and again"));
        }
        if let Some(id) = by_signal.filter(|id| running == Some(*id)) {
            if started.elapsed() > RELOAD || !machine.is_real() && look >= LOOKS {
                return Err(not_reloaded(op));
            }
            if look % SIGNAL_AGAIN == 0 {
                containers::signal(machine, op.runtime, id, Signal::Hup)?;
            }
        }
        if started.elapsed() > READY || !machine.is_real() && look >= LOOKS {
            return Err(failed(op, &format!("does not answer after {} s", READY.as_secs())));
        }
        if let Some(id) = stale.filter(|id| running == Some(*id) && !killed && started.elapsed() > GRACE) {
            containers::signal(machine, op.runtime, id, Signal::Kill)?;
            killed = true;
        }
        if machine.is_real() {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

fn all(op: &StaticPodStarted, machine: &Machine) -> Result<Vec<Container>, OpError> {
    containers::of_system_pod(machine, op.runtime, &op.pod)
}

fn failed(op: &StaticPodStarted, how: &str) -> OpError {
    OpError::other(format!(
        "{pod} was {restarted} to read {files}, and {how}: look at the end of the newest log in \
         /var/log/pods/kube-system_{pod}-*/{pod} on this host, mend the file that it names, and run again",
        restarted = if op.is_of_kubeadm() { "restarted" } else { "started" },
        pod = op.pod,
        files = op.files().map(String::as_str).collect::<Vec<_>>().join(" and "),
    ))
}

fn not_reloaded(op: &StaticPodStarted) -> OpError {
    OpError::other(format!(
        "{pod} got a signal to read {files} again, and after {} s still runs with what it read before. The end of the newest log \
         in /var/log/pods/kube-system_{pod}-*/{pod} on this host names the line that it does not take; if somebody has edited the \
         file, remove it, and run again: it is written anew",
        RELOAD.as_secs(),
        pod = op.pod,
        files = op.reloaded.join(" and "),
    ))
}

fn ready(op: &StaticPodStarted, machine: &Machine, until: PodReady) -> Result<bool, OpError> {
    match until {
        PodReady::Serves { port } => serves(op, machine, port),
        PodReady::ApiServer | PodReady::ApiServerAgain => own_server::answers(machine),
        PodReady::Member => {
            let Some(client) = members::client(machine)? else { return Ok(false) };
            Ok(client.status(machine, members::LOCAL).is_ok_and(|status| status.trouble.is_none()))
        }
        PodReady::Running => Ok(true),
    }
}

/// Whether the process runs with a file as it is on disk: what it answers is in that file alone.
fn serves(op: &StaticPodStarted, machine: &Machine, port: u16) -> Result<bool, OpError> {
    // Nobody listens yet.
    let Ok(answer) = machine.system().http_get(port) else { return Ok(false) };
    let answer = answer.trim();
    for path in &op.reloaded {
        if !answer.is_empty() && fsio::read_text(&machine.path(path))?.is_some_and(|text| text.contains(answer)) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
impl crate::cases::Cases for StaticPodStarted {
    const TESTED: crate::cases::Tested<crate::cases::Case<Self>> = crate::cases::Tested::In("static_pod.rs");
}
