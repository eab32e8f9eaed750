//! The pod network of a running cluster stays the one that it has: a second one beside it would give pods two addresses' worth of
//! routes and rules, and which of the two configurations the runtime takes is decided by the names of files.

use kubexm_plan::network::{self, multus};
use kubexm_plan::state_folders::CNI_CONFIGS;
use kubexm_spec::cluster::{Keyword as _, NetworkPlugin};

use super::input::{ObservedHost, PreflightInput};
use super::report::Report;
use crate::network::is_left_to_operator;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let wanted = input.cx.cluster.network.plugin;
    // The operator's own network may be one of those that kubexm knows, and installed in any way.
    if is_left_to_operator(input.cx.cluster) {
        return;
    }
    for host in input.nodes().filter(|host| host.ours && host.facts.joined) {
        multus_kept(host, input.cx.cluster.network.multus, report);
        let Some((other, config)) = other_network(host, wanted) else { continue };
        report.fail(
            host.name(),
            format!("a node with the pod network {} ({config})", other.word()),
            format!("{}, which spec.network.plugin names: no command replaces the network of a running cluster", wanted.word()),
            format!(
                "write plugin: {} in cluster.yaml, or none if you have installed that network yourself; after a run that did not succeed \
                 roll it back first",
                other.word()
            ),
        );
    }
}

/// A network that is not the wanted one, and the file that names it to the runtime.
fn other_network<'h>(host: &'h ObservedHost<'_>, wanted: NetworkPlugin) -> Option<(NetworkPlugin, &'h str)> {
    let others = NetworkPlugin::ALL.iter().copied().filter(|plugin| *plugin != wanted);
    let mut configs = others.flat_map(|plugin| {
        let configs = network::of(plugin).cni_configs;
        configs.iter().map(move |config| (plugin, *config))
    });
    configs.find_map(|(plugin, config)| {
        let found = host.facts.leftovers.iter().find(|leftover| leftover.what == config)?;
        Some((plugin, found.what.as_str()))
    })
}

/// Multus does not go while pods have interfaces of it, and is no second one before another that somebody else has installed.
fn multus_kept(host: &ObservedHost<'_>, wanted: bool, report: &mut Report) {
    let mut leftovers = host.facts.leftovers.iter().map(|leftover| leftover.what.as_str());
    if !wanted && leftovers.any(|what| what == multus::CONFIG) {
        report.fail(
            host.name(),
            format!("a node with multus before its pod network ({})", multus::CONFIG),
            "spec.network.multus: true, as the cluster has it: no command takes multus out of a running cluster",
            "write multus: true in cluster.yaml; after a run that did not succeed roll it back first; docs/operations/networks.md says how \
             multus is removed by hand",
        );
    }
    let is_other = |what: &str| {
        let name = what.strip_prefix(CNI_CONFIGS).unwrap_or_default();
        what != multus::CONFIG && name.contains("multus.conf")
    };
    if let Some(other) = leftovers.find(|what| wanted && is_other(what)) {
        report.fail(
            host.name(),
            format!("a multus that kubexm-install has not installed ({other})"),
            "a node without multus, which spec.network.multus installs",
            "remove that multus first (its DaemonSet, and this file), or leave spec.network.multus out",
        );
    }
}
