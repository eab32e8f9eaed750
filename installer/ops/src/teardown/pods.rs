//! Processes of pods: the supervisors of kubelet's containers ([`kubexm_plan::runtime`]), their children, and processes
//! in a pod's control group. By design they outlive the runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use kubexm_plan::runtime::{self, Keeper};

use super::cgroups;
use crate::{Machine, OpError, fsio};

/// How long a container may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// How long killed processes may take to disappear.
const GONE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

/// A process of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Name of its program.
    pub name: String,
    /// Whether it is a container's supervisor and not a container.
    pub shim: bool,
}

struct Seen {
    name: String,
    parent: u32,
    shim: bool,
}

/// Every running process of a pod.
pub fn running(machine: &Machine) -> Result<Vec<Process>, OpError> {
    let all = processes(machine)?;
    let mut of_pods: BTreeSet<u32> = all.iter().filter(|(_, seen)| seen.shim).map(|(pid, _)| *pid).collect();
    loop {
        let more: Vec<u32> = all
            .iter()
            .filter(|(pid, seen)| of_pods.contains(&seen.parent) && !of_pods.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            break;
        }
        of_pods.extend(more);
    }
    of_pods.extend(all.keys().copied().filter(|pid| cgroups::is_of_a_pod(machine, *pid)));
    Ok(all
        .into_iter()
        .filter(|(pid, _)| of_pods.contains(pid))
        .map(|(pid, seen)| Process { pid, name: seen.name, shim: seen.shim })
        .collect())
}

/// Stops every process of a pod: SIGTERM first, SIGKILL after ten seconds; then their control groups are removed.
/// kubelet must not run, or it would start them again. The runtime may run.
pub fn stop_all(machine: &Machine) -> Result<(), OpError> {
    let containers = |processes: &[Process]| processes.iter().any(|process| !process.shim);
    let first = running(machine)?;
    for process in first.iter().filter(|process| !process.shim) {
        machine.system().signal(process.pid, false)?;
    }
    // Processes of a fake machine end at once or never.
    let until = Instant::now() + if machine.is_real() { GRACE } else { Duration::ZERO };
    while containers(&running(machine)?) && Instant::now() < until {
        std::thread::sleep(PAUSE);
    }
    let until = Instant::now() + GONE;
    loop {
        let left = running(machine)?;
        if left.is_empty() {
            break;
        }
        if Instant::now() > until {
            let names: Vec<String> = left.iter().map(|left| format!("{} (pid {})", left.name, left.pid)).collect();
            return Err(OpError::other(format!(
                "processes of pods do not end, even when killed: {}; they wait for a device or a file server \
                 (`cat /proc/<pid>/stack` shows for what): fix that or reboot the host, then run again",
                names.join(", ")
            )));
        }
        for process in &left {
            machine.system().signal(process.pid, true)?;
        }
        std::thread::sleep(PAUSE);
    }
    cgroups::remove(machine)
}

fn processes(machine: &Machine) -> Result<BTreeMap<u32, Seen>, OpError> {
    let folder = machine.path("/proc");
    let listed = fs::read_dir(&folder).map_err(OpError::path("list", &folder))?;
    let pids = listed.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // A process that ends meanwhile is ignored.
    Ok(pids.filter_map(|pid| Some((pid, look(machine, pid)?))).collect())
}

fn look(machine: &Machine, pid: u32) -> Option<Seen> {
    let stat = fsio::read_text(&machine.path(format!("/proc/{pid}/stat"))).ok()??;
    // The name is in parentheses and may contain any character, also parentheses (proc(5)).
    let (before, after) = stat.rsplit_once(") ")?;
    let mut fields = after.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    let name = before.split_once('(')?.1.to_owned();
    let line = fsio::read(&machine.path(format!("/proc/{pid}/cmdline"))).ok().flatten().unwrap_or_default();
    let arguments: Vec<String> =
        line.split(|b| *b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let program = arguments.first().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    // Supervisors of other containers, which have other arguments, are kept.
    let is_program = |keeper: Keeper| runs(machine, pid, keeper.program);
    let keeps = |keeper: Keeper| {
        let of_kubelet = |(key, value)| arguments.windows(2).any(|pair| pair[0] == key && pair[1] == value);
        program.starts_with(keeper.program) && keeper.of_kubelet.is_some_and(of_kubelet) && is_program(keeper)
    };
    // Arguments are whatever a user of the host gives to a process of his own; the runtime is of who tears it down.
    let shim = runtime::INSTALLED.iter().filter_map(|runtime| runtime.keeper).any(keeps) && is_ours(machine, pid);
    Some(Seen { name, parent, shim })
}

/// Whether the process runs a file of that name: a program that becomes root, like su, takes any name that one gives it. A file that was
/// replaced meanwhile has ` (deleted)` behind it. Processes of a fake machine may have none.
fn runs(machine: &Machine, pid: u32, program: &str) -> bool {
    match fs::read_link(machine.path(format!("/proc/{pid}/exe"))) {
        Ok(file) => file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(program)),
        Err(_) => !machine.is_real(),
    }
}

/// The folder of a process belongs to its effective user, also where it may not be dumped (proc(5)).
fn is_ours(machine: &Machine, pid: u32) -> bool {
    let folder = fs::metadata(machine.path(format!("/proc/{pid}")));
    folder.is_ok_and(|folder| folder.uid() == rustix::process::geteuid().as_raw())
}
