//! What no cluster with CRI-O has today: what has not run on hosts with it.

use super::{All, LEAVE_OUT, Unsupported};
use crate::cluster::{Cluster, Keyword, NetworkPlugin, RegistryKind, RuntimeKind};

/// Empty for other runtimes.
pub(super) fn check(cluster: &Cluster) -> Vec<Unsupported> {
    let mut all = All::default();
    if cluster.runtime.kind != RuntimeKind::CriO {
        return all.0;
    }
    let kind = cluster.registry.kind;
    let instead = match kind {
        // It pulls images, and imports none.
        RegistryKind::None => "CRI-O loads images from a registry only: name one, embedded or registry",
        _ => "with CRI-O today: embedded or registry",
    };
    let known = [RegistryKind::Embedded, RegistryKind::Registry].contains(&kind);
    all.add(!known, "spec.registry.type", kind.word(), instead);
    all.add(cluster.runtime.own_folder().is_some(), "spec.runtime.dataDir", "", LEAVE_OUT);
    let instead = "put a file of your own into /etc/crio/crio.conf.d of the hosts, which kubexm-install keeps";
    all.add(!cluster.runtime.extra_config.is_empty(), "spec.runtime.extraConfig", "", instead);
    let plugin = cluster.network.plugin;
    let instead = "with CRI-O today: flannel, or none";
    let known = [NetworkPlugin::Flannel, NetworkPlugin::None].contains(&plugin);
    all.add(!known, "spec.network.plugin", plugin.word(), instead);
    all.add(cluster.network.multus, "spec.network.multus", "true", "leave it out: it has not run with CRI-O yet");
    all.0
}
