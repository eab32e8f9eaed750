//! What the operator should know before he says yes.

use kubexm_spec::cluster::{ExternalKind, LoadBalancerMode};

use super::check::Leaving;
use super::context::DeleteContext;
use crate::pipelines::host_removal;
use crate::time_servers::is_server;

/// Budgets that are named.
const MOST_BUDGETS: usize = 10;

pub(super) fn warnings(cx: &DeleteContext<'_>, leaving: &[Leaving<'_>]) -> Vec<String> {
    let mut warnings = Vec::new();
    let members: Vec<&str> = leaving.iter().filter_map(|host| host.member.as_ref()).map(|m| m.name.as_str()).collect();
    let stays: Vec<&str> =
        cx.running.etcd.iter().map(|member| member.name.as_str()).filter(|name| !members.contains(name)).collect();
    if let ([one], false) = (stays.as_slice(), members.is_empty()) {
        warnings.push(format!("{one} will have the only member of etcd: without that host the cluster's data is lost"));
    }
    let planes: Vec<&str> = leaving.iter().filter(|host| host.control_plane).map(|host| host.name).collect();
    let own = |mode: &LoadBalancerMode| matches!(mode, LoadBalancerMode::External { kind: ExternalKind::External, .. });
    if own(&cx.cluster.load_balancer.mode) && !planes.is_empty() {
        let text = "is a back-end of your own load balancer; remove it there before you continue";
        warnings.extend(planes.iter().map(|host| format!("{host} {text}")));
    }
    let serves = |host: &&Leaving<'_>| {
        let is_server = cx.cluster.host(host.name).is_some_and(|host| is_server(cx.cluster, host));
        cx.cluster.roles(host.name).registry || is_server
    };
    warnings.extend(leaving.iter().filter(serves).map(|host| {
        format!(
            "{} served the registry or the time to the others, which do without until it is back: leave it in cluster.yaml and add it again \
             (`kubexm-install add-node {}`)",
            host.name, host.name
        )
    }));
    let balancers = leaving.iter().filter(|host| cx.cluster.roles(host.name).load_balancer);
    warnings.extend(balancers.map(|host| {
        format!(
            "{} has the load balancer, which the other hosts of that role have then; take it out of cluster.yaml afterwards and run \
             `kubexm-install create`, so that they no longer know it",
            host.name
        )
    }));
    if leaving.iter().any(Leaving::is_drained) {
        warnings.extend(budgets(cx));
    }
    warnings.extend(host_removal::kept_snapshots(leaving.iter().filter_map(|host| Some(host.here.as_ref()?.0))));
    warnings
}

/// Budgets that let no pod go, whose pods may be on a node that leaves: a drain waits for them, and is rolled back in the end.
fn budgets(cx: &DeleteContext<'_>) -> Vec<String> {
    let all = &cx.running.tight_budgets;
    let named = all.iter().take(MOST_BUDGETS).map(|budget| {
        let name = &budget.name;
        let limit = cx.drain.limit_s;
        if budget.never_lets_go() {
            return format!(
                "the PodDisruptionBudget {name} wants {} of its {} pods at all times, so it never lets one go: if one is on a node that \
                 leaves, its drain ends after {limit} s, and everything is rolled back; give its workload more replicas, or change the \
                 budget, before you continue",
                budget.wanted, budget.pods
            );
        }
        format!(
            "the PodDisruptionBudget {name} lets no pod go now ({} of {} are healthy, and it wants {}): a drain waits for it, {limit} s \
             at most (--drain-timeout)",
            budget.healthy, budget.pods, budget.wanted
        )
    });
    let more = all.len().saturating_sub(MOST_BUDGETS);
    named.chain((more > 0).then(|| format!("and {more} more budgets that let no pod go now"))).collect()
}
