//! `create`: from prepared hosts to a cluster that has been looked at from the inside.

use kubexm_plan::{Plan, Step, StepId};

use crate::context::{Node, PlanCx};
use crate::draft::{Chain, Draft, rolling};
use crate::error::RecipeError;
use crate::modules::{
    check, containerd, control_plane, depot, dns, flannel, images, join, kubeconfig, kubernetes, os, packages,
    registry, route, time, trust,
};
use crate::packages::NodePackages;
use crate::{built, bundle};

/// The plan that makes a cluster, or completes it: every step looks before it changes anything.
pub fn create(cx: &PlanCx<'_>) -> Result<Plan, RecipeError> {
    plan(cx, "create")
}

/// The whole plan, under the name of a pipeline.
pub(super) fn plan(cx: &PlanCx<'_>, pipeline: &str) -> Result<Plan, RecipeError> {
    built::refuse(cx.cluster)?;
    bundle::check(cx)?;
    let nodes = cx.nodes()?;
    let control_planes = cx.control_planes(&nodes)?;
    let (first, others) = control_planes.split_first().ok_or(RecipeError::NoHosts { what: "control plane" })?;
    let mut draft = Draft::new(cx, pipeline, &nodes);

    // Every host, side by side; the registry's before all that take from it, the first control plane's next
    let mut depot: Vec<StepId> = Vec::new();
    let mut prepared: Vec<(&str, Vec<StepId>)> = Vec::new();
    let mut clocks: Vec<(&Node<'_>, Chain, Step)> = Vec::new();
    for node in in_order(&nodes, first) {
        let coming = packages::of_node(cx, node)?;
        let (chain, packaged) = prepare(&mut draft, first, node, coming.as_ref(), &mut depot)?;
        let clock = time::step(&mut draft, node, &nodes, coming.as_ref())?;
        clocks.extend(clock.map(|step| (node, packaged, step)));
        prepared.push((node.name(), draft.add(chain)));
    }

    // Clocks beside all that, before kubeadm; those that others go by first
    clocks.sort_by_key(|(node, ..)| !node.serves_time);
    let mut served: Vec<StepId> = Vec::new();
    for (node, mut clock, step) in clocks {
        if !node.serves_time {
            clock.wait(&served);
        }
        clock.then([step]);
        let set = draft.add(clock);
        prepared.push((node.name(), set.clone()));
        if node.serves_time {
            served.extend(set);
        }
    }
    let prepared = |node: &Node<'_>| {
        Chain::after(prepared.iter().filter(|(name, _)| *name == node.name()).flat_map(|(_, ids)| ids.clone()))
    };

    // The first control plane
    let init = control_plane::init(cx, first)?;
    let init_id = init.id.clone();
    let mut begin = prepared(first);
    begin.then([init]);
    begin.together(
        // Before the pod network, so before DNS starts
        [kubeconfig::step(first)]
            .into_iter()
            .chain(control_plane::register(first, &init_id))
            .chain(dns::corefile(&mut draft, first, &nodes, &init_id)?),
    );
    begin.then([flannel::step(&mut draft, first, &init_id)?]);
    let network = draft.add(begin);

    // Further control planes one at a time: each adds a member to etcd, which two at once could leave without quorum
    let mut joins = Vec::new();
    for node in others {
        let mut chain = prepared(node);
        chain.wait(std::slice::from_ref(&init_id));
        let awaited = join::awaited(first, node);
        let awaited_id = awaited.id.clone();
        chain.then([awaited, join::step(&mut draft, first, node)?]);
        let mut users = chain.fork();
        users.then([kubeconfig::step(node)]);
        chain.then([join::register(first, node, &awaited_id)]);
        chain.aside(users);
        joins.push(chain);
    }
    rolling(&mut joins, 1);

    // Workers all at once, as soon as the first API server answers. They wait neither for further control planes (etcd
    // goes on while a member is added, and kubeadm tries again through its pauses) nor for the pod network: their
    // kubelet registers meanwhile, and no pod of theirs can start before the network's own pod has come.
    for node in nodes.iter().filter(|n| n.worker && !n.control_plane) {
        let mut chain = prepared(node);
        chain.wait(std::slice::from_ref(&init_id));
        let awaited = join::awaited(first, node);
        let awaited_id = awaited.id.clone();
        chain.then([awaited, join::step(&mut draft, first, node)?]);
        chain.then([join::register(first, node, &awaited_id)]);
        joins.push(chain);
    }
    let joined: Vec<StepId> = joins.into_iter().flat_map(|chain| draft.add(chain)).collect();

    // Does it work?
    let members: Vec<Node<'_>> = nodes.iter().filter(|n| n.in_cluster()).copied().collect();
    draft.add(check::steps(cx, first, &members, &network, &joined)?);
    Ok(draft.finish())
}

/// The registry's host first, then the first control plane, then as cluster.yaml has them.
fn in_order<'n, 'a>(nodes: &'n [Node<'a>], first: &Node<'_>) -> Vec<&'n Node<'a>> {
    let mut order: Vec<&Node<'a>> = nodes.iter().collect();
    order.sort_by_key(|node| (!node.registry, node.name() != first.name()));
    order
}

/// A host until nothing but kubeadm lacks. What is long (containerd with the images, programs) goes side by side.
/// `depot` has the step after which the registry serves, once its host was prepared. The second chain goes on from where the host's
/// packages are there.
fn prepare(
    draft: &mut Draft<'_>,
    first: &Node<'_>,
    node: &Node<'_>,
    coming: Option<&NodePackages<'_>>,
    depot: &mut Vec<StepId>,
) -> Result<(Chain, Chain), RecipeError> {
    let cx = draft.cx;
    let mut chain = Chain::default();

    // The host
    chain.then(os::steps(cx, node)?);

    // Where everything comes from
    let depots = trust::depots(cx, node)?;
    if depots.is_some() {
        chain.then([trust::ca(draft, node)]);
        chain.wait(depot);
    }
    chain.then([trust::taking_from(depots, depot::store(draft, node, coming))]);
    let mut serve = chain.fork();
    if node.registry {
        serve.then([depot::serve(draft, node)?]);
        serve.then(registry::steps(draft, node)?);
        *depot = serve.tail().to_vec();
    }

    // What the rest calls: nobody who takes from the registry waits for it
    chain.then(time::before(cx.cluster, node, coming));
    if let Some(coming) = coming {
        chain.then(packages::steps(draft, node, coming));
    }
    let packaged = chain.fork();
    if node.in_cluster() {
        chain.then(route::step(draft, node)?);
    }
    if !node.in_cluster() {
        chain.meet(serve);
        return Ok((chain, packaged));
    }

    // What runs containers
    let mut runtime = chain.fork();
    runtime.then(containerd::steps(draft, node)?);
    runtime.meet(serve);
    runtime.wait(depot);
    runtime.together(images::steps(cx, node)?);

    // Kubernetes
    let mut kubelet = chain.fork();
    kubelet.then(kubernetes::steps(draft, node)?);
    kubelet.then(dns::resolv_conf(draft, node)?);
    if node.name() == first.name() {
        kubelet.then([control_plane::configure(draft, node)?]);
    } else {
        kubelet.then(join::patch(draft, first, node)?);
    }

    chain.meet(runtime);
    chain.meet(kubelet);

    // Tools that nothing here calls: they are unpacked while kubeadm waits
    let mut tools = chain.fork();
    tools.together(kubernetes::tools(draft, node)?);
    chain.aside(tools);
    Ok((chain, packaged))
}
