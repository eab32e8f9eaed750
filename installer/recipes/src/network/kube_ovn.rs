//! Pod network: Kube-OVN, by its own chart. Its values are those of `spec.network.options`, over the cluster's own networks
//! (`kubexm_manifests::chart_network`) and over what only the site knows, which is computed here
//! ([decision 0119](../../../../docs/decisions/0119-of-kube-ovn-one-control-plane-and-its-datapath.md)).

use kubexm_plan::network::NetworkTraits;
use kubexm_plan::network::kube_ovn::{JOIN_CIDR, MASTER, PLUGIN, PLUGINS, VXLAN};
use kubexm_plan::op::{Link, NodeLabel};
use kubexm_plan::{Step, Undo};
use kubexm_spec::cluster::{Cluster, NetworkPlugin};
use kubexm_spec::{ArtifactKey, Version};
use serde_json::json;

use super::chart;
use super::options::chosen;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;

/// How packets travel between nodes; Kube-OVN's own choice.
pub(super) const TUNNEL: (&str, &str) = ("networking.TUNNEL_TYPE", "geneve");
/// The network of the nodes' own ports.
pub(super) const JOIN: (&str, &str) = ("ipv4.JOIN_CIDR", JOIN_CIDR);
/// Lines whose chart this recipe knows.
const LINES: [[u64; 2]; 2] = [[1, 12], [1, 14]];
const RELEASE: &str = "kube-ovn";

/// Of a cluster without the usual tunnels.
pub(super) fn traits(cluster: &Cluster) -> Option<&'static NetworkTraits> {
    (chosen(cluster, TUNNEL) == "vxlan").then_some(&VXLAN)
}

/// The network of the nodes' own ports, with its field; none with another plugin.
pub(super) fn nodes_network(cluster: &Cluster) -> Option<(&'static str, &str)> {
    (cluster.network.plugin == NetworkPlugin::KubeOvn).then(|| ("options.ipv4.JOIN_CIDR", chosen(cluster, JOIN)))
}

/// Its pods have older copies of plugins of the bundle, and write them over those where they put their own: they get a folder of their own,
/// and the runtime finds the plugin by a link.
pub(super) fn plugin_link(cluster: &Cluster) -> Option<Link> {
    let link = || Link { path: PLUGIN.to_owned(), target: format!("{PLUGINS}/{RELEASE}"), accepted: Vec::new() };
    (cluster.network.plugin == NetworkPlugin::KubeOvn).then(link)
}

/// Installs the chart; before that, its databases get a node to run on.
pub(super) fn step(draft: &mut Draft<'_>, first: &PlannedHost<'_>, undo: Undo) -> Result<Step, RecipeError> {
    check(draft.cx)?;
    let (chart, mut site) = chart::of(draft.cx)?;
    site.insert("cni_conf".to_owned(), json!({"CNI_BIN_DIR": PLUGINS}));
    let op = chart::op(draft, first, &chart, &site)?;
    let (key, value) = MASTER;
    let label = NodeLabel { node: first.name().to_owned(), key: key.to_owned(), value: value.to_owned() };
    let step = chart::step(first, "network.kube-ovn").ensure(label).ensure(op).undo(undo).build();
    Ok(draft.depends_on_all(step))
}

/// Fails if the bundle has a line of it whose chart is not known: its values have other names from line to line.
pub(super) fn check(cx: &PlanContext<'_>) -> Result<(), RecipeError> {
    let key = ArtifactKey::Chart(RELEASE.to_owned());
    let artifact = cx.manifest.artifacts.iter().find(|artifact| artifact.key == key);
    artifact.map_or(Ok(()), |artifact| check_version(&artifact.version))
}

fn check_version(version: &str) -> Result<(), RecipeError> {
    let line = Version::of(version.trim_start_matches('v')).line();
    if line.is_some_and(|line| LINES.contains(&line)) {
        return Ok(());
    }
    let known = LINES.map(|[major, minor]| format!("{major}.{minor}")).join(" and ");
    Err(RecipeError::Unsupported {
        what: format!("Kube-OVN {version} (the values of its chart are known of {known})"),
        hint: "leave out `spec.network.version`, and build the bundle again".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_of_another_line_is_refused_by_name() {
        for good in ["v1.12.21", "1.14.10"] {
            assert!(check_version(good).is_ok(), "{good}");
        }
        for bad in ["v1.13.2", "v1.15.0", "v2.14.0", ""] {
            let error = check_version(bad).map_err(|error| error.to_string());
            assert!(error.is_err_and(|error| error.contains(&format!("Kube-OVN {bad} (")) && error.contains("1.12 and 1.14")), "{bad}");
        }
    }
}
