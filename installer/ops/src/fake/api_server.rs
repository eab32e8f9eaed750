//! Static pods of a control plane: the container that kubelet runs from each manifest, and the files that it read at its
//! start. One fails to start if one of its files contains the word `unreadable`. Pods that are not kubeadm's: `proxies`.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use kubexm_plan::kubeadm_certificates::{KUBE_VIP, READ_BY};
use kubexm_spec::Digest;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::proxies;
use super::rooted::RootedSystem;
use super::state::{State, StaticPod};
use crate::OpError;
use crate::system::Output;

const API_SERVER: &str = "kube-apiserver";
const FILTER: &str = "labels.\"io.kubernetes.pod.namespace\"==kube-system,labels.\"io.kubernetes.container.name\"==";

impl RootedSystem {
    /// The files that the running API server read at its start, by path; none if it does not run.
    pub fn read_by_api_server(&self) -> Result<Option<BTreeMap<String, Digest>>, OpError> {
        let _lock = self.lock()?;
        Ok(State::load(self)?.api_server.filter(|server| !server.ended).map(|server| server.read))
    }

    /// The files that a running static pod read at its start, by path; none if it does not run.
    pub fn read_by(&self, pod: &str) -> Result<Option<BTreeMap<String, Digest>>, OpError> {
        let _lock = self.lock()?;
        Ok(get(&State::load(self)?, pod).filter(|found| !found.ended).map(|found| found.read.clone()))
    }

    /// For a copy of a host, whose files are newer than its containers: the API server counts as started after them.
    pub fn mark_as_copy(&self) -> Result<(), OpError> {
        let _lock = self.lock()?;
        let mut state = State::load(self)?;
        let before = state.clone();
        state.api_server.iter_mut().chain(state.static_pods.values_mut()).for_each(|pod| pod.started = now());
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

/// The manifest of a static pod, with the files that it reads.
pub(super) fn manifest<'f>(pod: &str, files: impl Iterator<Item = &'f str>) -> String {
    let flags: String = files.map(|path| format!("    - --read={path}\n")).collect();
    format!("double: static pod {pod}\n{flags}")
}

/// Files of kubexm in `extraArgs` of kubeadm's config.
pub(super) fn files(config: &str) -> Vec<String> {
    let values = config.lines().filter_map(|line| line.trim().strip_prefix("value: "));
    values.filter(|value| value.starts_with("/etc/kubexm/")).map(str::to_owned).collect()
}

/// The work of kubelet: a container runs as long as its manifest exists. (The real one outlives kubelet.)
pub(super) fn run_manifest(system: &RootedSystem, state: &mut State) {
    let kubelet = state.units.get("kubelet.service").is_some_and(|unit| unit.active);
    for pod in pods() {
        match system.read(&format!("/etc/kubernetes/manifests/{pod}.yaml")).filter(|_| kubelet) {
            None => set(state, pod, None),
            Some(manifest) if get(state, pod).is_none() => {
                let started = start(system, state, pod, &manifest);
                set(state, pod, Some(started));
            }
            Some(_) => {}
        }
    }
}

pub(super) fn pods() -> impl Iterator<Item = &'static str> {
    READ_BY.into_iter().chain([KUBE_VIP]).map(|(pod, _)| pod).chain(proxies::PODS)
}

pub(super) fn get<'s>(state: &'s State, pod: &str) -> Option<&'s StaticPod> {
    if pod == API_SERVER { state.api_server.as_ref() } else { state.static_pods.get(pod) }
}

pub(super) fn set(state: &mut State, pod: &str, container: Option<StaticPod>) {
    match container {
        container if pod == API_SERVER => state.api_server = container,
        Some(container) => drop(state.static_pods.insert(pod.to_owned(), container)),
        None => drop(state.static_pods.remove(pod)),
    }
}

fn start(system: &RootedSystem, state: &mut State, pod: &str, manifest: &str) -> StaticPod {
    state.starts += 1;
    let paths = manifest.lines().filter_map(|line| line.trim().strip_prefix("- --read="));
    let texts: BTreeMap<&str, String> = paths.map(|path| (path, system.read(path).unwrap_or_default())).collect();
    let config = proxies::config(system, pod, manifest);
    let lacks = proxies::PODS.contains(&pod) && config.as_ref().is_none_or(|text| text.contains("unreadable"));
    StaticPod {
        config: config.unwrap_or_default(),
        id: format!("{:064x}", state.starts),
        started: now(),
        ended: lacks || texts.values().any(|text| text.is_empty() || text.contains("unreadable")),
        read: texts.iter().map(|(path, text)| ((*path).to_owned(), Digest::of(text))).collect(),
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The container with an id, and its pod.
pub(super) fn find<'s>(state: &'s State, id: &str) -> Option<(&'static str, &'s StaticPod)> {
    pods().find_map(|pod| get(state, pod).filter(|found| found.id == id).map(|found| (pod, found)))
}

/// `ctr containers` and `ctr tasks`; none for other arguments.
pub(super) fn ctr(system: &RootedSystem, state: &mut State, args: &[&str]) -> Option<Output> {
    Some(match args {
        ["containers", "list", "--quiet", filter] if filter.starts_with(FILTER) => {
            let pod = filter.strip_prefix(FILTER).unwrap_or_default();
            // kubelet restarts a container that ended.
            if get(state, pod).is_some_and(|server| server.ended) {
                set(state, pod, None);
                run_manifest(system, state);
            }
            Output::text(get(state, pod).map(|server| format!("{}\n", server.id)).unwrap_or_default())
        }
        ["containers", "list", ..] => Output::text(String::new()),
        ["containers", "info", id] => match find(state, id) {
            Some((_, server)) => {
                let started = OffsetDateTime::from_unix_timestamp_nanos(i128::from(server.started)).ok()?;
                let created = started.format(&Rfc3339).ok()?;
                Output::text(serde_json::json!({"ID": id, "CreatedAt": created}).to_string())
            }
            None => Output::failed(1, format!("ctr: container \"{id}\" in namespace \"k8s.io\": not found")),
        },
        ["tasks", "list"] => {
            let all = pods().filter_map(|pod| get(state, pod));
            let lines: String = all
                .map(|pod| format!("{}    4711    {}\n", pod.id, if pod.ended { "STOPPED" } else { "RUNNING" }))
                .collect();
            Output::text(format!("TASK    PID     STATUS    \n{lines}"))
        }
        ["tasks", "kill", "--signal", "SIGHUP", id] => {
            let Some((pod, found)) = find(state, id).map(|(pod, found)| (pod, found.clone())) else {
                return Some(Output::failed(1, format!("ctr: no running task found: task {id} not found: not found")));
            };
            let manifest = system.read(&format!("/etc/kubernetes/manifests/{pod}.yaml")).unwrap_or_default();
            let config = proxies::config(system, pod, &manifest).filter(|text| !text.contains("unreadable"));
            set(state, pod, Some(StaticPod { config: config.unwrap_or_else(|| found.config.clone()), ..found }));
            Output::default()
        }
        ["tasks", "kill", "--signal", "SIGTERM" | "SIGKILL", id] => {
            let Some((pod, _)) = find(state, id) else {
                return Some(Output::failed(1, format!("ctr: no running task found: task {id} not found: not found")));
            };
            set(state, pod, None);
            run_manifest(system, state);
            Output::default()
        }
        _ => return None,
    })
}
