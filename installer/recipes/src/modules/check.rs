//! The final check: nodes are Ready, system pods run with images of the bundle only, and a pod's network works.

use std::collections::BTreeSet;

use kubexm_plan::network::CLUSTER;
use kubexm_plan::{Probe, Step, StepId, Undo};
use kubexm_spec::{ClusterImage, Kind};

use crate::balancer::{CA, external, one_holder};
use crate::context::{PlanContext, PlannedHost};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::network;
use crate::phases::ClusterHosts;

/// Runs on the control planes and leaves nothing behind. Returns the last steps of the check. A host that is only a
/// worker is a failure domain of its own: the others wait for its check to end, not to succeed. `after`: the steps after
/// which nodes can be Ready; `registered`: the last step of a node.
pub fn run<'a, 's>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    after: &[StepId],
    registered: impl Fn(&PlannedHost<'a>) -> Option<&'s StepId>,
) -> Result<Vec<StepId>, RecipeError> {
    let (first, members) = (&site.first, site.members());
    let (mut chain, optional) = ready(draft, site, after, registered);
    let balancer = balancer(draft.cx, first).map(|step| draft.depends_on_all(step));
    chain.then(balancer);
    let holder = one_holder::at_end(draft.cx, &site.nodes, first).map(|step| draft.depends_on_all(step));
    chain.then(holder);
    let mut pods = pods(draft.cx, first);
    pods.after_end = optional;
    chain.then([draft.depends_on_all(pods)]);
    if network::is_left_to_operator(draft.cx.cluster) {
        return Ok(draft.add(chain));
    }
    // The check creates its pod on its own host, with admin.conf, so it runs on control planes only. The pod's name is
    // always the same, so the checks run one after the other.
    let checks = members.iter().filter(|n| n.roles.control_plane).map(|node| pod_network(draft.cx, node));
    chain.then(checks.collect::<Result<Vec<_>, _>>()?);
    Ok(draft.add(chain))
}

/// Of a cluster whose pods and network are others': every node is Ready.
pub fn nodes<'a, 's>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    after: &[StepId],
    registered: impl Fn(&PlannedHost<'a>) -> Option<&'s StepId>,
) -> Vec<StepId> {
    let (chain, _) = ready(draft, site, after, registered);
    draft.add(chain)
}

/// The steps in which nodes become Ready, and those of them that nobody waits for.
fn ready<'a, 's>(
    draft: &Draft<'a>,
    site: &ClusterHosts<'a>,
    after: &[StepId],
    registered: impl Fn(&PlannedHost<'a>) -> Option<&'s StepId>,
) -> (Chain, Vec<StepId>) {
    let mut chain = Chain::after(after.iter().cloned());
    let mut optional = Vec::new();
    let mut required = chain.fork();
    for node in &site.members() {
        let mut ready = chain.fork();
        ready.wait(registered(node).map(std::slice::from_ref).unwrap_or_default());
        let step = ready_step(draft.cx, &site.first, node);
        if node.optional() {
            optional.push(step.id.clone());
            ready.then([step]);
            required.merge_unawaited(ready);
        } else {
            ready.then([step]);
            required.merge(ready);
        }
    }
    chain.merge(required);
    (chain, optional)
}

fn ready_step(cx: &PlanContext<'_>, first: &PlannedHost<'_>, node: &PlannedHost<'_>) -> Step {
    let name = node.name();
    let (title, probe) = if network::is_left_to_operator(cx.cluster) {
        let title = format!("Wait until node {name} is NotReady only because it has no pod network yet");
        (title, Probe::NodeAwaitsNetwork { node: name.to_owned() })
    } else {
        (format!("Wait until node {name} is Ready"), Probe::NodeReady { node: name.to_owned(), kubelet: None })
    };
    Step::on(first.name(), &format!("check.ready-{name}"), &title)
        .domain(name)
        .probe(probe, 180)
        .timeout_s(200)
        .undo(Undo::Nothing)
        .build()
}

/// Through the address that kubexm moves: what clients outside the cluster use, and workers.
fn balancer(cx: &PlanContext<'_>, first: &PlannedHost<'_>) -> Option<Step> {
    let address = external::of(cx.cluster)?.address;
    let probe = Probe::ApiReady { url: format!("https://{address}/readyz"), ca: CA.to_owned() };
    let title = format!("Ask the API server through {address}");
    let step = Step::on(first.name(), "check.balancer", &title).probe(probe, 60).timeout_s(80);
    Some(step.undo(Undo::Nothing).build())
}

fn pods(cx: &PlanContext<'_>, first: &PlannedHost<'_>) -> Step {
    let images: BTreeSet<String> =
        cx.manifest.artifacts.iter().filter(|a| a.key.kind() == Kind::Image).map(|a| a.name.clone()).collect();
    let of_network = network::of(cx.cluster).namespaces;
    let namespaces = CLUSTER.namespaces.iter().chain(of_network);
    let networks = network::all_of(cx.cluster);
    let workloads = std::iter::once(&CLUSTER).chain(networks).flat_map(|traits| traits.workloads);
    let probe = Probe::PodsRunning {
        namespaces: namespaces.into_iter().map(|namespace| (*namespace).to_owned()).collect(),
        workloads: workloads.map(|workload| (*workload).to_owned()).collect(),
        images: images.into_iter().collect(),
        kubeadm_only: network::is_left_to_operator(cx.cluster),
        new_nodes: Vec::new(),
    };
    Step::on(first.name(), "check.pods", "Wait until system pods run, with images of the bundle only")
        .probe(probe, 300)
        .timeout_s(320)
        .undo(Undo::Nothing)
        .build()
}

fn pod_network(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let probe = Probe::PodNetwork {
        node: node.name().to_owned(),
        image: cx.image(ClusterImage::Pause, node.platform)?.name.clone(),
        name: format!("kubernetes.default.svc.{}", cx.kubernetes()?.dns_domain),
        dns: cx.service_address(10)?.to_string(),
        service: format!("{}:443", cx.service_address(1)?),
    };
    Ok(Step::on(node.name(), "check.network", "Query DNS and connect to a Service from a pod's network")
        .probe(probe, 120)
        .timeout_s(140)
        .undo(Undo::Nothing)
        .build())
}
