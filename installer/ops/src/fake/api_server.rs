//! kube-apiserver of a control plane: the container that kubelet runs from its manifest, and the files that it read at
//! its start. It fails to start if one of its files contains the word `unreadable`.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use kubexm_spec::Digest;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::rooted::RootedSystem;
use super::state::{ApiServer, State};
use crate::OpError;
use crate::system::Output;

const MANIFEST: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";
const FILTER: &str =
    "labels.\"io.kubernetes.pod.namespace\"==kube-system,labels.\"io.kubernetes.container.name\"==kube-apiserver";

impl RootedSystem {
    /// The files that the running API server read at its start, by path; none if it does not run.
    pub fn read_by_api_server(&self) -> Result<Option<BTreeMap<String, Digest>>, OpError> {
        let _lock = self.lock()?;
        Ok(State::load(self)?.api_server.filter(|server| !server.ended).map(|server| server.read))
    }

    /// For a copy of a host, whose files are newer than its containers: the API server counts as started after them.
    pub fn mark_as_copy(&self) -> Result<(), OpError> {
        let mut state = State::load(self)?;
        let before = state.clone();
        let Some(server) = &mut state.api_server else { return Ok(()) };
        server.started = now();
        state.save(self, &before)
    }

    /// The API server crashes, and kubelet starts a new container.
    pub fn crash_api_server(&self) -> Result<(), OpError> {
        let _lock = self.lock()?;
        let mut state = State::load(self)?;
        let before = state.clone();
        state.api_server = None;
        run_manifest(self, &mut state);
        state.save(self, &before)
    }
}

/// Its manifest with the files that kubeadm's config names.
pub(super) fn manifest(files: &[String]) -> String {
    let flags: String = files.iter().map(|path| format!("    - --read={path}\n")).collect();
    format!("double: static pod kube-apiserver\n{flags}")
}

/// Files of kubexm in `extraArgs` of kubeadm's config.
pub(super) fn files(config: &str) -> Vec<String> {
    let values = config.lines().filter_map(|line| line.trim().strip_prefix("value: "));
    values.filter(|value| value.starts_with("/etc/kubexm/")).map(str::to_owned).collect()
}

/// The work of kubelet: the container runs as long as the manifest exists. (The real one outlives kubelet.)
pub(super) fn run_manifest(system: &RootedSystem, state: &mut State) {
    let kubelet = state.units.get("kubelet.service").is_some_and(|unit| unit.active);
    match system.read(MANIFEST).filter(|_| kubelet) {
        None => state.api_server = None,
        Some(manifest) if state.api_server.is_none() => start(system, state, &manifest),
        Some(_) => {}
    }
}

fn start(system: &RootedSystem, state: &mut State, manifest: &str) {
    state.starts += 1;
    let paths = manifest.lines().filter_map(|line| line.trim().strip_prefix("- --read="));
    let texts: BTreeMap<&str, String> = paths.map(|path| (path, system.read(path).unwrap_or_default())).collect();
    state.api_server = Some(ApiServer {
        id: format!("{:064x}", state.starts),
        started: now(),
        ended: texts.values().any(|text| text.is_empty() || text.contains("unreadable")),
        read: texts.iter().map(|(path, text)| ((*path).to_owned(), Digest::of(text))).collect(),
    });
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// `ctr containers` and `ctr tasks`; none for other arguments.
pub(super) fn ctr(system: &RootedSystem, state: &mut State, args: &[&str]) -> Option<Output> {
    Some(match args {
        ["containers", "list", "--quiet", filter] if *filter == FILTER => {
            // kubelet restarts a container that ended.
            if state.api_server.as_ref().is_some_and(|server| server.ended) {
                state.api_server = None;
                run_manifest(system, state);
            }
            Output::text(state.api_server.as_ref().map(|server| format!("{}\n", server.id)).unwrap_or_default())
        }
        ["containers", "list", ..] => Output::text(String::new()),
        ["containers", "info", id] => match state.api_server.as_ref().filter(|server| server.id == *id) {
            Some(server) => {
                let started = OffsetDateTime::from_unix_timestamp_nanos(i128::from(server.started)).ok()?;
                let created = started.format(&Rfc3339).ok()?;
                Output::text(serde_json::json!({"ID": id, "CreatedAt": created}).to_string())
            }
            None => Output::failed(1, format!("ctr: container \"{id}\" in namespace \"k8s.io\": not found")),
        },
        ["tasks", "list"] => {
            let server = state.api_server.as_ref();
            let line = server.map(|server| {
                format!("{}    4711    {}\n", server.id, if server.ended { "STOPPED" } else { "RUNNING" })
            });
            Output::text(format!("TASK    PID     STATUS    \n{}", line.unwrap_or_default()))
        }
        ["tasks", "kill", "--signal", "SIGTERM" | "SIGKILL", id] => {
            if state.api_server.as_ref().is_none_or(|server| server.id != *id) {
                return Some(Output::failed(1, format!("ctr: no running task found: task {id} not found: not found")));
            }
            state.api_server = None;
            run_manifest(system, state);
            Output::default()
        }
        _ => return None,
    })
}
