//! `create`: from prepared hosts to a cluster that has been looked at from the inside.

use kubexm_plan::Plan;

use crate::bundle;
use crate::context::{Node, PlanCx};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::modules::{
    check, containerd, control_plane, depot, dns, flannel, images, kubeconfig, kubernetes, os, route,
};

/// The plan that makes a cluster.
pub fn create(cx: &PlanCx<'_>) -> Result<Plan, RecipeError> {
    bundle::check(cx)?;
    let nodes = cx.nodes()?;
    let node = the_one(&nodes)?;
    let mut draft = Draft::new(cx, "create", &nodes);
    let mut chain = Chain::default();

    // The host
    chain.then(os::steps(cx, node)?);
    chain.then(route::step(&mut draft, node)?);

    // Where everything comes from
    chain.then([depot::store(&draft, node)]);
    chain.then([depot::serve(&mut draft, node)?]);

    // What runs containers
    chain.then(containerd::steps(&mut draft, node)?);
    chain.together(images::steps(cx, node)?);

    // Kubernetes
    chain.then(kubernetes::steps(&mut draft, node)?);
    chain.then(dns::resolv_conf(&mut draft, node)?);
    chain.then([control_plane::configure(&mut draft, node)?]);
    let init = control_plane::init(cx, node)?;
    let init_id = init.id.clone();
    chain.then([init]);
    chain.then([kubeconfig::step(node)]);

    // Before the pod network, so before DNS starts
    chain.then(control_plane::register(node, &init_id));
    chain.then(dns::corefile(&mut draft, node, &init_id)?);
    chain.then([flannel::step(&mut draft, node, &init_id)?]);

    // Does it work?
    chain.then(check::steps(cx, node)?);
    Ok(draft.finish(chain))
}

fn the_one<'n, 'a>(nodes: &'n [Node<'a>]) -> Result<&'n Node<'a>, RecipeError> {
    match nodes {
        [node] if node.control_plane => Ok(node),
        [_] => Err(RecipeError::NoHosts { what: "control plane" }),
        _ => Err(RecipeError::NotBuiltYet {
            what: format!("a cluster of {} hosts", nodes.len()),
            hint: "name one host, a control plane and worker at once".to_owned(),
        }),
    }
}
