//! Containers of pods, through the runtime's own programs: containerd's `ctr`, which every node with containerd has
//! (`crictl` can be left out of a bundle), and those of CRI-O's archive.

use kubexm_plan::runtime;
use kubexm_spec::cluster::RuntimeKind;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::container::{Container, Signal};
use crate::system::Program;
use crate::{Machine, OpError, crictl};

/// Every container of this name in pods of kube-system, ended ones too; none where the runtime does not run.
pub(crate) fn of_system_pod(machine: &Machine, kind: RuntimeKind, name: &str) -> Result<Vec<Container>, OpError> {
    supported(kind, "containers of", "restarted")?;
    if !machine.path(runtime::of(kind).socket()).exists() {
        return Ok(Vec::new());
    }
    if kind == RuntimeKind::CriO {
        return crictl::of_system_pod(machine, name);
    }
    // kubelet's labels, which the CRI plugin keeps (k8s.io/cri-client, kubelet/types/labels.go).
    let filter =
        format!("labels.\"io.kubernetes.pod.namespace\"==kube-system,labels.\"io.kubernetes.container.name\"=={name}");
    let listed = machine.run(&ctr(["containers", "list", "--quiet", &filter]))?.stdout();
    let ids: Vec<&str> = listed.lines().map(str::trim).filter(|id| !id.is_empty()).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    // `TASK PID STATUS`, one line for each container with a process.
    let tasks = machine.run(&ctr(["tasks", "list"]))?.stdout();
    let runs = |id: &str| {
        let mut lines = tasks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.any(|words| words.first() == Some(&id) && words.last() == Some(&"RUNNING"))
    };
    Ok(ids.into_iter().map(|id| Container { id: id.to_owned(), running: runs(id) }).collect())
}

/// When a container was created, in nanoseconds since 1970 by the host's clock: right before its process started.
pub(crate) fn created(machine: &Machine, kind: RuntimeKind, id: &str) -> Result<i128, OpError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Info {
        created_at: String,
    }
    supported(kind, "containers of", "restarted")?;
    if kind == RuntimeKind::CriO {
        return crictl::created(machine, id);
    }
    let program = ctr(["containers", "info", id]);
    let text = machine.run(&program)?.stdout();
    let unreadable = |why: String| OpError::other(format!("`{program}` does not say when it was created: {why}"));
    let info: Info = serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
    let created = OffsetDateTime::parse(&info.created_at, &Rfc3339).map_err(|error| unreadable(error.to_string()))?;
    Ok(created.unix_timestamp_nanos())
}

/// Asks a container's process to end or to read its files again, or ends it. One that is gone is no error; kubelet starts a static pod's again.
pub(crate) fn signal(machine: &Machine, kind: RuntimeKind, id: &str, signal: Signal) -> Result<(), OpError> {
    supported(kind, "containers of", "restarted")?;
    if kind == RuntimeKind::CriO {
        return crictl::signal(machine, id, signal);
    }
    let program = ctr(["tasks", "kill", "--signal", signal.name(), id]);
    let output = machine.try_run(&program)?;
    let gone = String::from_utf8_lossy(&output.stderr).contains("not found");
    if output.code == 0 || gone {
        Ok(())
    } else {
        Err(OpError::other(format!("`{program}` failed: {}", output.tail())))
    }
}

/// Refuses a runtime whose program is not known here: `what` of it cannot be `done`.
pub(crate) fn supported(kind: RuntimeKind, what: &str, done: &str) -> Result<(), OpError> {
    match kind {
        RuntimeKind::Containerd | RuntimeKind::CriO => Ok(()),
        other @ (RuntimeKind::Docker | RuntimeKind::Isulad) => {
            Err(OpError::other(format!("{what} {other} cannot be {done} yet; use containerd")))
        }
    }
}

/// containerd's program, for what kubelet uses.
pub(crate) fn ctr<const N: usize>(args: [&str; N]) -> Program {
    Program::new("ctr").args(["--namespace", "k8s.io"]).args(args)
}
