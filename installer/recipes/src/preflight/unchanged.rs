//! A running cluster is planned with its original settings. `create` adds what is missing; it cannot change the
//! version, networks or names of a running cluster, and half of such a change would be worse than none.

use kubexm_spec::Digest;

use super::report::Report;
use super::site::Site;
use crate::modules::kubeadm_config;

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    let Ok(nodes) = site.cx.nodes() else { return };
    for node in nodes.iter().filter(|node| node.roles.control_plane) {
        let (Some(made_with), Ok(wanted)) = (node.facts.kubeadm_config, kubeadm_config::init(site.cx, node)) else {
            continue;
        };
        if Digest::of(&wanted) != made_with {
            report.fail(
                node.name(),
                "a running kubexm cluster that was made with another version, network, name or kubelet setting",
                "the cluster.yaml and the bundle it was made with: `create` changes none of these on a running cluster",
                "revert the change (what it was made with is /etc/kubexm/kubeadm.yaml there); upgrade and reconfigure \
                 are not supported yet",
            );
        }
    }
}
