//! CPUs and memory. The thresholds are what machines sold as "4 GB" and "2 GB" report.

use kubexm_spec::cluster::Roles;

use super::input::{PreflightInput, gib};
use super::report::Report;

/// What a host of a role needs.
struct Needs {
    role: &'static str,
    cpus: u32,
    /// Bytes.
    memory: u64,
}

/// 3.5 GiB.
const CONTROL_PLANE: Needs = Needs { role: "control plane", cpus: 2, memory: 7 << 29 };
/// 1.7 GiB: etcd keeps its database (2 GiB at most by default) in the page cache.
const ETCD: Needs = Needs { role: "member of etcd", cpus: 2, memory: (17_u64 << 30).div_ceil(10) };
/// 1.7 GiB.
const WORKER: Needs = Needs { role: "worker", ..ETCD };
/// 0.4 GiB: keepalived and a proxy of TCP connections.
const LOAD_BALANCER: Needs = Needs { role: "load balancer", cpus: 1, memory: (4_u64 << 30).div_ceil(10) };

fn needs(roles: Roles) -> Needs {
    match roles {
        Roles { control_plane: true, .. } => CONTROL_PLANE,
        Roles { etcd: true, .. } => ETCD,
        Roles { worker: false, registry: false, load_balancer: true, .. } => LOAD_BALANCER,
        _ => WORKER,
    }
}

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in &input.hosts {
        let Needs { role, cpus, memory } = needs(host.roles);
        if host.facts.cpus < cpus {
            report.fail(
                host.name(),
                format!("{} CPU", host.facts.cpus),
                format!("{cpus} CPUs or more"),
                "give the machine more CPUs",
            );
        }
        if host.facts.memory < memory {
            report.fail(
                host.name(),
                format!("{} of memory", gib(host.facts.memory)),
                format!("{} or more on a {role}", gib(memory)),
                "give the machine more memory",
            );
        }
    }
}
