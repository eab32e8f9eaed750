//! Pod network: Cilium, by its own chart. Its values are those of `spec.network.options`, over the cluster's own networks
//! (`kubexm_manifests::chart_network`) and over what only the site knows, which is computed here.

use kubexm_plan::{Step, Undo};
use kubexm_spec::cluster::Cluster;
use serde_json::json;

use super::chart;
use crate::context::PlannedHost;
use crate::draft::Draft;
use crate::error::RecipeError;

/// Whether Cilium does kube-proxy's work, so that there is none.
pub fn replaces_kube_proxy(cluster: &Cluster) -> bool {
    cluster.network.replaces_kube_proxy()
}

/// Installs the chart. The agents ask the API by the control plane's name, as kube-proxy and flannel do: without kube-proxy nobody else would
/// lead them to the address of its service, and with it they need not wait for its rules. Pods of the host's network have the host's
/// /etc/hosts.
pub fn step(draft: &mut Draft<'_>, first: &PlannedHost<'_>, undo: Undo) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let (chart, mut site) = chart::of(cx)?;
    site.insert("k8sServiceHost".to_owned(), cx.control_plane_name().into());
    site.insert("k8sServicePort".to_owned(), cx.cluster.control_plane_port().into());
    if let Some(interface) = &cx.cluster.network.interface {
        site.insert("devices".to_owned(), json!([interface]));
    }
    let op = chart::op(draft, first, &chart, &site)?;
    let step = chart::step(first, "network.cilium").ensure(op).undo(undo).build();
    Ok(draft.depends_on_all(step))
}
