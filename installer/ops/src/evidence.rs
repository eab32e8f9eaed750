//! Evidence after a failure: collected before the undo, only from kubexm's own components, which log no secrets.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use kubexm_plan::network;
use kubexm_plan::runtime::{self, RuntimeTraits};

use crate::Machine;
use crate::system::Program;

const JOURNALS: [&str; 11] = [
    "kubelet",
    "kubexm-certs",
    "kubexm-depot",
    "kubexm-etcd",
    "kubexm-etcd-backup",
    "kubexm-haproxy",
    "kubexm-harbor",
    "kubexm-harbor-engine",
    "kubexm-keepalived",
    "kubexm-nginx",
    "kubexm-nginx-check",
];
const LINES: &str = "500";
/// Whether a folder of logs belongs to a pod that kubexm installs. Logs of users' pods may contain anything and are not
/// collected.
fn is_ours(pod: &str) -> bool {
    let namespace = pod.split('_').next().unwrap_or_default();
    network::any().any(|network| network.namespaces.contains(&namespace))
}

/// The most bytes from the end of each pod log.
const TAIL: u64 = 64 << 10;

/// Text by file name. What cannot be read is left out, so that collecting evidence never causes another failure.
pub fn collect(machine: &Machine) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let of_runtimes = runtime::INSTALLED.into_iter().flat_map(RuntimeTraits::units);
    let of_runtimes = of_runtimes.map(|unit| unit.trim_end_matches(".service"));
    for unit in JOURNALS.into_iter().chain(of_runtimes) {
        let journal = Program::new("journalctl").args(["--unit", unit, "--lines", LINES, "--no-pager"]).within(20);
        run(machine, &journal, &format!("journal-{unit}.log"), &mut found);
    }
    run(
        machine,
        &Program::new("systemctl").args(["--failed", "--no-pager"]).within(20),
        "units-failed.txt",
        &mut found,
    );
    run(machine, &Program::new("ss").args(["-lntup"]).within(20), "sockets.txt", &mut found);
    run(machine, &Program::new("ip").args(["route", "show", "table", "all"]).within(20), "routes.txt", &mut found);
    run(machine, &Program::new("ip").args(["address", "show"]).within(20), "addresses.txt", &mut found);
    // Both, since nft does not show the rules of iptables-legacy.
    run(machine, &Program::new("nft").args(["list", "ruleset"]).within(20), "nft.txt", &mut found);
    run(machine, &Program::new("iptables-save").within(20), "iptables.txt", &mut found);
    run(machine, &Program::new("ip6tables-save").within(20), "ip6tables.txt", &mut found);
    pod_logs(machine, &mut found);
    found
}

fn run(machine: &Machine, program: &Program, name: &str, found: &mut Vec<(String, String)>) {
    if let Ok(output) = machine.try_run(&program.clone().may_be_cut_off()) {
        let text = output.stdout();
        if !text.trim().is_empty() {
            found.push((name.to_owned(), text));
        }
    }
}

/// `/var/log/pods/<namespace>_<pod>_<uid>/<container>/<n>.log` → `pod-<namespace>_<pod>-<container>-<n>.log`.
fn pod_logs(machine: &Machine, found: &mut Vec<(String, String)>) {
    let folder = machine.path("/var/log/pods");
    for entry in walkdir::WalkDir::new(&folder).min_depth(3).max_depth(3).sort_by_file_name().into_iter().flatten() {
        let Ok(below) = entry.path().strip_prefix(&folder) else { continue };
        let parts: Vec<String> = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let [pod, container, file] = parts.as_slice() else { continue };
        if !file.ends_with(".log") || !is_ours(pod) {
            continue;
        }
        if let Some(text) = tail(entry.path()) {
            let pod = pod.rsplit_once('_').map_or(pod.as_str(), |(name, _uid)| name);
            found.push((format!("pod-{pod}-{container}-{file}"), text));
        }
    }
}

fn tail(path: &Path) -> Option<String> {
    let mut file = fs::File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
