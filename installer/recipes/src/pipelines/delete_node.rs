//! `delete-node`: removes hosts from a cluster, which stays.
//!
//! Needs no bundle: what is on the hosts comes from their ledgers, what the cluster consists of from its own API server
//! and etcd. Everything that can be rolled back comes before anything that cannot: pods are evicted and names are
//! removed first; then etcd's members, hosts, node objects and data.

mod balancers;
mod check;
mod context;
mod corefile;
mod etcd;
mod names;
mod record;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::op::{DrainedFor, HostsBlock, MemberRemove, NodeDelete};
use kubexm_plan::{Op, Pipeline, Plan, Step, StepId, Undo};
use kubexm_spec::Digest;

use super::host_removal::{self, ResetHost};
use crate::draft::plan_host;
use crate::error::RecipeError;
use crate::modules::drain;
use check::Leaving;
pub use context::DeleteContext;

/// A plan, and what the operator should know about it.
#[derive(Clone, Debug)]
pub struct Deletion {
    pub plan: Plan,
    /// Reached hosts with nothing to do.
    pub clean: Vec<String>,
    /// One sentence each.
    pub warnings: Vec<String>,
}

/// The plan that deletes hosts. It has no steps if nothing of them is left.
pub fn delete_node(cx: &DeleteContext<'_>) -> Result<Deletion, RecipeError> {
    let (leaving, on) = check::leaving(cx)?;
    let mut plan = Plan {
        schema: kubexm_plan::SCHEMA,
        pipeline: Pipeline::DeleteNode,
        cluster_name: cx.cluster.name.clone(),
        cluster_id: cx.running.id,
        cluster: cx.cluster_digest,
        bundle: None,
        hosts: cx.hosts.iter().map(|host| plan_host(host.name, host.roles, false)).collect(),
        fleet_concurrency: 16,
        host_concurrency: 4,
        slots: BTreeMap::new(),
        texts: BTreeMap::new(),
        steps: Vec::new(),
    };
    let steps = &mut plan.steps;
    let mut last: Vec<StepId> = Vec::new();
    let drained: Vec<&str> = leaving.iter().filter(|host| host.is_drained()).map(|host| host.name).collect();
    let by = cordoned_by(cx);
    // All of them first: what is evicted from one would be scheduled on another that leaves as well, and be evicted again.
    for node in drained.iter().filter(|_| drained.len() > 1) {
        add(steps, drain::cordon(on, &format!("delete.cordon-{node}"), node, &by), &mut last);
    }
    for node in &drained {
        let id = format!("delete.drain-{node}");
        add(steps, drain::step(on, &id, node, cx.drain, DrainedFor::default(), Some(by.clone())), &mut last);
    }
    let (balanced, configs) = balancers::without(cx, &leaving, &last)?;
    plan.texts.extend(configs.into_iter().map(|text| (Digest::of(&text), text)));
    let (dns, corefile): (Vec<Step>, Vec<String>) = corefile::without(cx, (on, &leaving), &last)?.into_iter().unzip();
    plan.texts.extend(corefile.into_iter().map(|text| (Digest::of(&text), text)));
    let named: Vec<Step> = names(cx, &leaving, &last).into_iter().chain(balanced).chain(dns).collect();
    if !named.is_empty() {
        last = named.iter().map(|step| step.id.clone()).collect();
        steps.extend(named);
    }
    let (known, members) = etcd::without(cx, (on, &leaving), &last);
    plan.texts.extend(members.into_iter().map(|text| (Digest::of(&text), text)));
    last = known.last().map_or(last, |step| vec![step.id.clone()]);
    steps.extend(known);
    for host in &leaving {
        if let Some(member) = &host.member {
            add(steps, member_remove(on, host.name, member.clone()), &mut last);
        }
        if let Some((here, owned)) = &host.here {
            let chain = host_removal::chain(here.name, owned, &last);
            last = chain.last().map_or(last, |step| vec![step.id.clone()]);
            steps.extend(chain);
        }
    }
    // kubelet, which would create it again, has stopped.
    let objects: Vec<Step> = leaving
        .iter()
        .filter(|host| host.node || host.here.is_some() && host.is_node)
        .map(|host| object(on, host.name))
        .collect();
    if !objects.is_empty() {
        let ids = objects.iter().map(|step| step.id.clone()).collect();
        steps.extend(objects.into_iter().map(|step| Step { after: last.clone(), ..step }));
        last = ids;
    }
    let gone: BTreeSet<&str> = leaving.iter().map(|host| host.name).collect();
    if let Some((step, text)) = record::without(cx, on, &gone)? {
        plan.texts.insert(Digest::of(&text), text);
        add(&mut plan.steps, step, &mut last);
    }
    for (here, owned) in leaving.iter().filter_map(|host| host.here.as_ref()) {
        plan.steps.push(host_removal::purge(here.name, owned, &last));
    }
    // What is done for a host that was not reached fails with the host that does it.
    let known: BTreeSet<&str> = cx.hosts.iter().map(|host| host.name).collect();
    let is_away = |step: &&mut Step| step.domain.as_deref().is_some_and(|host| !known.contains(host));
    plan.steps.iter_mut().filter(is_away).for_each(|step| step.domain = None);
    let works_on = |host: &&ResetHost<'_>| !plan.steps.iter().any(|step| step.host == host.name);
    let clean = cx.hosts.iter().filter(works_on).map(|host| host.name.to_owned()).collect();
    let mut warnings = warnings::warnings(cx, &leaving);
    let changed = plan.steps.iter().filter(|step| step.id.0.ends_with("/delete.balancer"));
    let unread = changed.filter(|step| !step.ops.iter().any(|op| matches!(op, Op::Unit(_) | Op::StaticPodStarted(_))));
    warnings.extend(unread.map(|step| {
        format!(
            "{} is not Ready: the proxy there gets its back-ends as a file, which it reads when it starts the next time",
            step.host
        )
    }));
    Ok(Deletion { clean, warnings, plan })
}

/// The mark of nodes that a deletion from this cluster has cordoned.
fn cordoned_by(cx: &DeleteContext<'_>) -> String {
    let cluster = cx.running.id.map_or_else(|| cx.cluster.name.clone(), |id| id.to_string());
    format!("deletion of {cluster}")
}

/// Appends a step that comes after the last ones.
fn add(steps: &mut Vec<Step>, step: Step, last: &mut Vec<StepId>) {
    let after = std::mem::replace(last, vec![step.id.clone()]);
    steps.push(Step { after, ..step });
}

/// One step for each host that stays and has a deleted host's name in its managed block.
fn names(cx: &DeleteContext<'_>, leaving: &[Leaving<'_>], after: &[StepId]) -> Vec<Step> {
    let gone: Vec<&str> = leaving.iter().map(|host| host.name).collect();
    let stays = cx.hosts.iter().filter(|host| !gone.contains(&host.name));
    let changed = stays.filter_map(|host| {
        let HostsBlock { lines, own_name } = names::newest(host.ledger)?;
        let kept = names::without(&lines, &gone, &cx.cluster.control_plane_name());
        (kept != lines).then(|| {
            let title = format!("Remove {} from /etc/hosts", gone.join(", "));
            let step = Step::on(host.name, "delete.hosts", &title).ensure(HostsBlock { lines: kept, own_name });
            Step { after: after.to_vec(), ..step.undo(Undo::RestoreBefore).build() }
        })
    });
    changed.collect()
}

fn member_remove(on: &str, host: &str, member: MemberRemove) -> Step {
    let why = "a member that was removed from etcd cannot come back with its data";
    Step::on(on, &format!("delete.member-{host}"), &format!("Remove {host} from the members of etcd"))
        .domain(host)
        .ensure(member)
        .undo(Undo::Irreversible { why: why.to_owned() })
        .build()
}

fn object(on: &str, node: &str) -> Step {
    Step::on(on, &format!("delete.object-{node}"), &format!("Delete the node object {node}"))
        .domain(node)
        .ensure(NodeDelete { node: node.to_owned() })
        .undo(Undo::Irreversible { why: "the node's labels, taints and annotations are deleted with it".to_owned() })
        .build()
}
