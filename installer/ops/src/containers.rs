//! Containers of pods, through each runtime's own programs.

use kubexm_plan::runtime;
use kubexm_spec::cluster::RuntimeKind;

use crate::container::{Container, Signal};
use crate::{Machine, OpError, crictl, ctr, docker, isulad};

/// Every container of this name in pods of kube-system, ended ones too; none where the runtime does not run.
pub(crate) fn of_system_pod(machine: &Machine, kind: RuntimeKind, name: &str) -> Result<Vec<Container>, OpError> {
    if !machine.path(runtime::of(kind).socket()).exists() {
        return Ok(Vec::new());
    }
    match kind {
        RuntimeKind::CriO => crictl::of_system_pod(machine, runtime::of(kind), name),
        RuntimeKind::Docker => docker::of_system_pod(machine, name),
        RuntimeKind::Isulad => isulad::of_system_pod(machine, name),
        RuntimeKind::Containerd => ctr::of_system_pod(machine, name),
    }
}

/// When a container was created, in nanoseconds since 1970 by the host's clock: right before its process started.
pub(crate) fn created(machine: &Machine, kind: RuntimeKind, id: &str) -> Result<i128, OpError> {
    match kind {
        RuntimeKind::CriO => crictl::created(machine, runtime::of(kind), id),
        RuntimeKind::Docker => docker::created(machine, id),
        RuntimeKind::Isulad => isulad::created(machine, id),
        RuntimeKind::Containerd => ctr::created(machine, id),
    }
}

/// Asks a container's process to end or to read its files again, or ends it. One that is gone is no error; kubelet starts a static pod's again.
pub(crate) fn signal(machine: &Machine, kind: RuntimeKind, id: &str, signal: Signal) -> Result<(), OpError> {
    match kind {
        RuntimeKind::CriO => crictl::signal(machine, id, signal),
        RuntimeKind::Docker => docker::signal(machine, id, signal),
        RuntimeKind::Isulad => isulad::signal(machine, id, signal),
        RuntimeKind::Containerd => ctr::signal(machine, id, signal),
    }
}
