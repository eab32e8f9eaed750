//! keepalived, and the proxies that kubexm's load balancers run.

use kubexm_plan::facts::Balancer;

use super::ours::Ours;
use super::processes::Process;
use crate::Machine;

/// Process names, and the configuration files of their packages.
const PROGRAMS: [(&str, &str); 3] = [
    ("haproxy", "/etc/haproxy/haproxy.cfg"),
    ("keepalived", "/etc/keepalived/keepalived.conf"),
    ("nginx", "/etc/nginx/nginx.conf"),
];

pub(super) fn look(machine: &Machine, processes: &[Process], ours: &Ours) -> Vec<Balancer> {
    let found = PROGRAMS.iter().filter_map(|(program, config)| {
        // A proxy in a pod (an ingress controller) belongs to the cluster, one in a container to what runs that (Harbor has an nginx).
        // One of somebody else beside ours is the one that counts.
        let running =
            processes.iter().filter(|process| process.name == *program && !process.in_pod && !process.in_container);
        let process = running.max_by_key(|process| !ours.process(process));
        let config = Some(*config).filter(|path| machine.path(path).exists());
        (process.is_some() || config.is_some()).then(|| Balancer {
            program: (*program).to_owned(),
            config: config.map(str::to_owned),
            pid: process.map(|process| process.pid),
            ours: process.map_or_else(|| config.is_some_and(|path| ours.path(path)), |process| ours.process(process)),
        })
    });
    found.collect()
}
