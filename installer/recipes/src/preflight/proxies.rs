//! `*_proxy` variables: kubeadm copies them into the control plane's manifests.

use super::report::Report;
use super::site::Site;

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    for seen in &site.hosts {
        for (variable, file) in &seen.facts.proxies {
            report.warn(
                seen.name(),
                format!("{variable} set in {file}"),
                "no proxy between the cluster's own parts",
                "kubexm clears it for all that it starts; services that users start see it: remove it, or set no_proxy",
            );
        }
    }
}
