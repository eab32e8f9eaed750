//! Pod network: Hybridnet, by its own chart, and the network of all pods by its own objects
//! ([decision 0121](../../../../docs/decisions/0121-hybridnets-first-network-comes-after-its-webhook.md)).

use kubexm_charts::objects::list;
use kubexm_plan::op::Manifests;
use kubexm_plan::{Step, Undo};
use serde_json::json;

use super::chart;
use crate::context::PlannedHost;
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::release;

const NAMESPACE: &str = "kube-system";
/// Names of the objects, as its chart has them, and of their record.
const INIT: &str = "init";
const RECORD: &str = "network.hybridnet";
const API: &str = "networking.alibaba.com/v1";
/// Of the VXLAN that carries packets between nodes: its link is `eth0.vxlan4`.
pub(super) const VXLAN: u8 = 4;
/// Further attempts until the webhook that checks the objects answers: about a minute, its image being there.
const ATTEMPTS: u32 = 8;

/// Installs the chart, and then makes the network: the API server asks a webhook of the chart about it, and refuses it until that runs.
pub(super) fn steps(draft: &mut Draft<'_>, first: &PlannedHost<'_>, undo: &Undo) -> Result<Vec<Step>, RecipeError> {
    let (chart, mut site) = chart::of(draft.cx)?;
    // Its copies of plugins are older than the bundle's.
    site.insert("daemon".to_owned(), json!({"neededCommunityCNIPlugins": ""}));
    let op = chart::op(draft, first, &chart, &site)?;
    let chart = chart::step(first, "network.hybridnet").ensure(op).undo(undo.clone()).build();
    let chart = draft.depends_on_all(chart);
    let pods = draft.cx.cluster.network.pod_cidr;
    let objects = [
        json!({
            "apiVersion": API, "kind": "Network", "metadata": {"name": INIT},
            "spec": {"netID": VXLAN, "type": "Overlay"},
        }),
        json!({
            "apiVersion": API, "kind": "Subnet", "metadata": {"name": INIT},
            "spec": {
                "config": {"autoNatOutgoing": true},
                "network": INIT,
                "range": {"cidr": pods, "version": "4"},
            },
        }),
    ];
    let blob = draft.text(list(&objects) + "\n");
    let (name, namespace) = (RECORD.to_owned(), NAMESPACE.to_owned());
    let network = Step::on(first.name(), "network.pods", "Make the network of all pods")
        .ensure(Manifests { name, namespace, blob, in_plan: true, slots: Vec::new(), wait_s: release::WAIT })
        .timeout_s(release::TIMEOUT)
        .retries(ATTEMPTS)
        .undo(undo.clone())
        .build();
    Ok(vec![chart, network])
}
