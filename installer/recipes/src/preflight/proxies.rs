//! `*_proxy` variables: kubeadm copies them into the control plane's manifests.

use super::input::PreflightInput;
use super::report::Report;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in &input.hosts {
        for (variable, file) in &host.facts.proxies {
            report.warn(
                host.name(),
                format!("{variable} set in {file}"),
                "no proxy between the cluster's own parts",
                "kubexm does not pass it on to what it starts, but other services inherit it: remove it, or set no_proxy",
            );
        }
    }
}
