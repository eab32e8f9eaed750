//! `adopt`: records on every node of a running cluster which cluster it belongs to, so that later commands know it.
//!
//! Nothing is taken from a bundle, and nothing that runs is touched: what kubeadm and others have made is not in any ledger, so no rollback
//! and no reset removes it. The first control plane comes first: a host of a cluster whose first control plane is free is no member of it.

use std::collections::BTreeMap;

use kubexm_plan::op::Stamp;
use kubexm_plan::{ClusterId, Pipeline, Plan, Step, StepId, Undo};
use kubexm_spec::Digest;

use crate::adoption::{Adoption, AdoptionInput, Origin};
use crate::draft::plan_host;
use crate::error::RecipeError;

/// The whole input of the recipe.
#[derive(Clone, Copy, Debug)]
pub struct AdoptContext<'a> {
    pub input: AdoptionInput<'a>,
    /// Digest of the bytes of cluster.yaml.
    pub cluster_digest: Digest,
    /// From the stamps of hosts that are adopted already, or new.
    pub cluster_id: ClusterId,
}

/// The plan that adopts a cluster. It has no steps for a cluster that kubexm has made itself.
pub fn adopt(cx: &AdoptContext<'_>) -> Result<Plan, RecipeError> {
    let cluster = cx.input.cluster;
    let found = Adoption::of(&cx.input);
    let problems = found.in_the_way();
    if !problems.is_empty() {
        return Err(RecipeError::CannotAdopt { cluster: cluster.name.clone(), problems });
    }
    let first = cluster.first_control_plane().ok_or(RecipeError::NoHosts { what: "control plane" })?;
    let mut steps: Vec<Step> = Vec::new();
    if found.origin != Origin::Kubexm {
        let begin = stamp(cx, &first.name, &[]);
        let after = [begin.id.clone()];
        steps.push(begin);
        let others = cluster.hosts.iter().filter(|host| host.name != first.name);
        let nodes = others.filter(|host| cluster.roles(&host.name).in_cluster());
        steps.extend(nodes.map(|host| stamp(cx, &host.name, &after)));
    }
    Ok(Plan {
        schema: kubexm_plan::SCHEMA,
        pipeline: Pipeline::Adopt,
        cluster_name: cluster.name.clone(),
        cluster_id: Some(cx.cluster_id),
        cluster: cx.cluster_digest,
        bundle: None,
        hosts: cluster.hosts.iter().map(|host| plan_host(&host.name, cluster.roles(&host.name), false)).collect(),
        fleet_concurrency: 16,
        host_concurrency: 4,
        slots: BTreeMap::new(),
        texts: BTreeMap::new(),
        steps,
    })
}

fn stamp(cx: &AdoptContext<'_>, host: &str, after: &[StepId]) -> Step {
    let (cluster, id) = (cx.input.cluster.name.clone(), Some(cx.cluster_id));
    let step = Step::on(host, "adopt.stamp", "Record on the node which cluster it belongs to")
        .ensure(Stamp { cluster, id, bundle: None, adopted: true })
        .undo(Undo::RestoreBefore)
        .build();
    Step { after: after.to_vec(), ..step }
}
