//! Programs that kubeadm, kubelet and kube-proxy call are installed, or can be installed from the bundle.

use kubexm_spec::cluster::RegistryKind;

use super::input::PreflightInput;
use super::report::Report;
use crate::modules::os::uses_ipvs;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let harbor = input.cx.cluster.registry.kind == RegistryKind::Harbor;
    for host in input.hosts.iter().filter(|host| host.roles.registry && harbor) {
        if !host.facts.programs.get("iptables").is_some_and(Option::is_some) {
            report.fail(
                host.name(),
                "no iptables",
                "iptables, by which containers of Harbor find each other's names",
                "install the package iptables, or use another type of registry",
            );
        }
    }
    let Some(support) = input.support else { return };
    for host in input.nodes() {
        let is_planned = |name: &str| host.planned_packages().is_some_and(|planned| planned.brings(name));
        let has = |name: &str| host.facts.programs.get(name).is_some_and(Option::is_some) || is_planned(name);
        if uses_ipvs(input.cx.cluster) && !has("ipvsadm") {
            report.warn(
                host.name(),
                "no ipvsadm",
                "ipvsadm, by which a reset clears kube-proxy's table in the kernel (`proxyMode: ipvs`)",
                "install the package ipvsadm, or name the system in `spec.bundle.os`; without it the table stays until the next boot",
            );
        }
        let missing: Vec<String> = support
            .required_programs()
            .filter(|names| !names.iter().any(|name| has(name)))
            .map(|names| names.join(" or "))
            .collect();
        if !missing.is_empty() {
            report.fail(
                host.name(),
                format!("no {}", missing.join(", ")),
                "these programs",
                "install the packages that hold them (iptables, conntrack, socat, ethtool, iproute2, util-linux), or name \
                 the system in `spec.bundle.os` and build the bundle again: it then contains them",
            );
        }
    }
}
