//! Containers of containerd, through `ctr`, which every node with containerd has: `crictl` can be left out of a bundle.

use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::container::{Container, Signal};
use crate::system::Program;
use crate::{Machine, OpError};

/// Containers of this name in pods of kube-system; `what` is kubelet's label.
pub(crate) fn of_system_pod(machine: &Machine, name: &str) -> Result<Vec<Container>, OpError> {
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

/// When a container was created, in nanoseconds since 1970 by the host's clock.
pub(crate) fn created(machine: &Machine, id: &str) -> Result<i128, OpError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Info {
        created_at: String,
    }
    let program = ctr(["containers", "info", id]);
    let text = machine.run(&program)?.stdout();
    let unreadable = |why: String| OpError::other(format!("`{program}` does not say when it was created: {why}"));
    let info: Info = serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
    let created = OffsetDateTime::parse(&info.created_at, &Rfc3339).map_err(|error| unreadable(error.to_string()))?;
    Ok(created.unix_timestamp_nanos())
}

/// Sends a signal to a container's first process. One that is gone is no error.
pub(crate) fn signal(machine: &Machine, id: &str, signal: Signal) -> Result<(), OpError> {
    let program = ctr(["tasks", "kill", "--signal", signal.name(), id]);
    let output = machine.try_run(&program)?;
    let gone = String::from_utf8_lossy(&output.stderr).contains("not found");
    if output.code == 0 || gone {
        Ok(())
    } else {
        Err(OpError::other(format!("`{program}` failed: {}", output.tail())))
    }
}

/// containerd's program, for what kubelet uses.
pub(crate) fn ctr<const N: usize>(args: [&str; N]) -> Program {
    Program::new("ctr").args(["--namespace", "k8s.io"]).args(args)
}
