//! The pod network of a running cluster stays the one that it has: a second one beside it would give pods two addresses' worth of
//! routes and rules, and which of the two configurations the runtime takes is decided by the names of files.

use kubexm_plan::network;
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
        let configs = network::of(plugin).map(|traits| traits.cni_configs).unwrap_or_default();
        configs.iter().map(move |config| (plugin, *config))
    });
    configs.find_map(|(plugin, config)| {
        let found = host.facts.leftovers.iter().find(|leftover| leftover.what == config)?;
        Some((plugin, found.what.as_str()))
    })
}
