//! Pod networks: one file for each plugin, with the steps that apply it. The names of a plugin and its paths on nodes
//! are in [`kubexm_plan::network`].

mod calico;
mod chart;
mod cilium;
mod flannel;
mod hybridnet;
mod kept;
mod kube_ovn;
mod manifest;
pub mod multus;
pub mod nodelocaldns;
mod options;
mod pool;
mod rollout;
mod typha;

pub use calico::pod_networks;
pub use cilium::replaces_kube_proxy;
pub use flannel::interface;
use ipnet::IpNet;
use kubexm_plan::network::{self, NetworkTraits};
use kubexm_plan::op::Link;
use kubexm_plan::{ClusterFacts, Step, Undo};
use kubexm_spec::cluster::{Addon, AddonSource, Cluster, Keyword as _, NetworkPlugin};
pub use pool::shares;

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;

/// The pod network of a cluster, as seen on nodes.
pub fn of(cluster: &Cluster) -> &'static NetworkTraits {
    let plugin = cluster.network.plugin;
    let of_its_options = match plugin {
        NetworkPlugin::Flannel => flannel::traits(cluster),
        NetworkPlugin::Calico => calico::traits(cluster),
        NetworkPlugin::Cilium => cilium::traits(cluster),
        NetworkPlugin::KubeOvn => kube_ovn::traits(cluster),
        _ => None,
    };
    of_its_options.unwrap_or_else(|| network::of(plugin))
}

/// What a cluster has of networks on its nodes: the pod network's own, multus' before it, and the DNS cache's.
pub fn all_of(cluster: &Cluster) -> Vec<&'static NetworkTraits> {
    std::iter::once(of(cluster)).chain(multus::traits(cluster)).chain(nodelocaldns::traits(cluster)).collect()
}

/// Whether the operator installs the network: nodes are not Ready until then.
pub fn is_left_to_operator(cluster: &Cluster) -> bool {
    cluster.network.plugin == NetworkPlugin::None
}

/// Whether its pods read every address of their node.
pub fn needs_host_ips(cluster: &Cluster) -> bool {
    cluster.network.plugin == NetworkPlugin::Flannel && cluster.network.has_two_stacks()
}

/// What else can be chosen where only nodes on one link reach each other's pods; none where it does not matter.
pub fn needs_one_link(cluster: &Cluster) -> Option<&'static str> {
    flannel::needs_one_link(cluster).or_else(|| pool::needs_one_link(cluster))
}

/// The interface by whose address nodes reach each other's pods, where it is not the one of the node's own address.
pub fn pods_interface(cluster: &Cluster) -> Option<&str> {
    match cluster.network.plugin {
        NetworkPlugin::Calico => cluster.network.interface.as_deref(),
        _ => interface(cluster),
    }
}

/// A link to a CNI plugin that the network's pods install in a folder of their own.
pub fn plugin_link(cluster: &Cluster) -> Option<Link> {
    kube_ovn::plugin_link(cluster)
}

/// Networks beside those of pods and services that nodes get addresses of, with their fields below `spec.network`.
pub fn further(cluster: &Cluster) -> Option<(&'static str, IpNet)> {
    let (field, network) = kube_ovn::nodes_network(cluster)?;
    Some((field, network.parse().ok()?))
}

/// Applies the network from the first control plane; no steps if the operator installs it.
pub fn steps(draft: &mut Draft<'_>, first: &PlannedHost<'_>, undo: Undo) -> Result<Vec<Step>, RecipeError> {
    Ok(match draft.cx.cluster.network.plugin {
        NetworkPlugin::Flannel => vec![flannel::step(draft, first, undo)?],
        NetworkPlugin::Calico => vec![calico::step(draft, first, undo)?],
        NetworkPlugin::Cilium => vec![cilium::step(draft, first, undo)?],
        NetworkPlugin::KubeOvn => vec![kube_ovn::step(draft, first, undo)?],
        NetworkPlugin::Hybridnet => hybridnet::steps(draft, first, &undo)?,
        NetworkPlugin::None => Vec::new(),
    })
}

/// Fails if the pod network of a running cluster has been made with other settings that nothing changes afterwards. What was applied is not
/// known of an older cluster.
pub fn unchanged(cluster: &Cluster, running: &ClusterFacts) -> Result<(), RecipeError> {
    refused(cluster, kept::changed(cluster, running))
}

/// The same for commands that bring no node what it lacks of the network.
pub fn same(cluster: &Cluster, running: &ClusterFacts) -> Result<(), RecipeError> {
    refused(cluster, changed(cluster, running))
}

/// What was applied to it and is something else in cluster.yaml, as text for people.
pub fn changed(cluster: &Cluster, running: &ClusterFacts) -> Vec<String> {
    let kept = kept::changed(cluster, running).into_iter();
    kept.chain(multus::added(cluster, running)).chain(nodelocaldns::changed(cluster, running)).collect()
}

/// Calico's operator, which installs the network.
const CALICO_OPERATOR: &str = "tigera-operator";

/// Fails if an add-on is a pod network, by the name of its chart, beside that of the cluster.
pub fn one(cluster: &Cluster) -> Result<(), RecipeError> {
    let network = |addon: &Addon| {
        let chart = match &addon.source {
            AddonSource::Catalogue { name, .. } => name.as_str(),
            AddonSource::Repository { chart, .. } => chart.as_str(),
            AddonSource::Oci { reference, .. } => reference.rsplit('/').next().unwrap_or(reference),
            AddonSource::Url { .. } | AddonSource::Path { .. } => return None,
        };
        let plugin = NetworkPlugin::of_word(chart).filter(|plugin| *plugin != NetworkPlugin::None);
        (plugin.is_some() || chart == CALICO_OPERATOR).then(|| chart.to_owned())
    };
    if is_left_to_operator(cluster) {
        return Ok(());
    }
    match cluster.addons.iter().find_map(|addon| Some((&addon.name, network(addon)?))) {
        None => Ok(()),
        Some((name, network)) => Err(RecipeError::Unsupported {
            what: format!(
                "the pod network {network} as add-on {name} beside spec.network.plugin {}",
                cluster.network.plugin.word()
            ),
            hint: "leave the add-on out, or write `plugin: none` to install the network as an add-on".to_owned(),
        }),
    }
}

fn refused(cluster: &Cluster, changed: Vec<String>) -> Result<(), RecipeError> {
    match changed.is_empty() {
        true => Ok(()),
        false => Err(RecipeError::NetworkChanged { cluster: cluster.name.clone(), changed }),
    }
}

/// Fails if the bundle has the network in a form that no recipe knows.
pub fn check(cx: &PlanContext<'_>) -> Result<(), RecipeError> {
    match cx.cluster.network.plugin {
        NetworkPlugin::Calico => calico::check(cx),
        NetworkPlugin::KubeOvn => kube_ovn::check(cx),
        _ => Ok(()),
    }
}
