//! The final check: the node is Ready, system pods run with images of the bundle only, and a pod's network works.

use std::collections::BTreeSet;

use kubexm_plan::{Probe, Step, Undo};
use kubexm_spec::{ClusterImage, Kind};

use crate::context::{Node, PlanCx};
use crate::error::RecipeError;
use crate::modules::flannel;

/// Looked at from a control plane; changes nothing.
pub fn steps(cx: &PlanCx<'_>, node: &Node<'_>) -> Result<Vec<Step>, RecipeError> {
    Ok(vec![ready(node), pods(cx, node), network(cx, node)?])
}

fn ready(node: &Node<'_>) -> Step {
    Step::on(node.name(), "check.ready", "Wait until the node is Ready")
        .probe(Probe::NodeReady { node: node.name().to_owned() }, 180)
        .timeout_s(200)
        .undo(Undo::Nothing)
        .build()
}

fn pods(cx: &PlanCx<'_>, node: &Node<'_>) -> Step {
    let images: BTreeSet<String> =
        cx.manifest.artifacts.iter().filter(|a| a.key.kind() == Kind::Image).map(|a| a.name.clone()).collect();
    let probe = Probe::PodsRunning {
        namespaces: vec!["kube-system".to_owned(), flannel::NAMESPACE.to_owned()],
        images: images.into_iter().collect(),
    };
    Step::on(node.name(), "check.pods", "Wait until system pods run, with images of the bundle only")
        .probe(probe, 300)
        .timeout_s(320)
        .undo(Undo::Nothing)
        .build()
}

fn network(cx: &PlanCx<'_>, node: &Node<'_>) -> Result<Step, RecipeError> {
    let probe = Probe::PodNetwork {
        node: node.name().to_owned(),
        image: cx.image(ClusterImage::Pause, node.platform)?.name.clone(),
        name: format!("kubernetes.default.svc.{}", cx.kubernetes()?.dns_domain),
        dns: cx.service_address(10)?.to_string(),
        service: format!("{}:443", cx.service_address(1)?),
    };
    Ok(Step::on(node.name(), "check.network", "Ask DNS and a service from inside a pod's network")
        .probe(probe, 120)
        .timeout_s(140)
        .undo(Undo::Nothing)
        .build())
}
