//! `reset`: removes a cluster, using only the ledgers that its nodes have kept.
//!
//! Needs no bundle and no data of the controller that created the cluster. The last step of each host deletes its data
//! and runs after all hosts have finished the other steps; until then the reset can be rolled back, and the cluster
//! runs again.

use std::collections::BTreeMap;

use kubexm_plan::op::EtcdKeysDelete;
use kubexm_plan::{ClusterId, Pipeline, Plan, Step, StepId, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::Roles;

pub use super::host_removal::ResetHost;
use super::host_removal::{self, Owned};
use crate::draft::plan_host;
use crate::error::RecipeError;

/// The whole input of the recipe.
#[derive(Clone, Debug)]
pub struct ResetContext<'a> {
    /// `metadata.name`.
    pub cluster: &'a str,
    /// The cluster's id, from the stamps of its hosts.
    pub cluster_id: Option<ClusterId>,
    /// Digest of the bytes of the cluster.yaml that names the hosts.
    pub cluster_digest: Digest,
    /// In the order of cluster.yaml; those that cannot be reached are left out.
    pub hosts: Vec<ResetHost<'a>>,
    /// The folder of the registry's data, if it is deleted too; it holds what others have pushed.
    pub registry_data: Option<&'a str>,
    /// What the cluster has in an etcd of the user's, if it is deleted too.
    pub etcd_data: Option<EtcdData<'a>>,
}

/// What a cluster has in an etcd of the user's.
#[derive(Clone, Debug)]
pub struct EtcdData<'a> {
    /// The control plane whose API server's certificate is used.
    pub host: &'a str,
    /// `https://10.0.0.5:2379`.
    pub endpoints: Vec<String>,
    /// What its keys begin with.
    pub prefix: &'a str,
    /// How many they are.
    pub keys: u64,
}

/// Why that cannot be rolled back.
const ETCD_WHY: &str =
    "the cluster's objects are deleted from the site's own etcd; what was written since the backup is lost";

/// The order in which hosts are reset: hosts that others need come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Position {
    Worker,
    ControlPlane,
    FirstControlPlane,
    Etcd,
    Registry,
}

/// The plan that removes a cluster.
pub fn reset(cx: &ResetContext<'_>) -> Result<Plan, RecipeError> {
    let mut groups: BTreeMap<Position, Vec<(&ResetHost<'_>, Owned)>> = BTreeMap::new();
    let first = cx.hosts.iter().find(|host| host.roles.control_plane).map(|host| host.name);
    for host in &cx.hosts {
        let mut owned = host_removal::of_host(cx.cluster, host)?;
        if let Some(data) = cx.registry_data.filter(|_| host.roles.registry) {
            owned.delete_folder(data);
        }
        if !host.is_clean() {
            groups.entry(position(host, first)).or_default().push((host, owned));
        }
    }
    host_removal::refuse_mounts(groups.values().flatten())?;
    host_removal::refuse_switched(groups.values().flatten())?;
    let mut steps: Vec<Step> = Vec::new();
    let mut last: Vec<StepId> = Vec::new();
    let mut held = None;
    for group in groups.values() {
        let mut ends = Vec::new();
        for (host, owned) in group {
            let mut chain = host_removal::chain(host.name, owned, &last);
            // It removes the certificate with which the keys are deleted.
            if cx.etcd_data.as_ref().is_some_and(|data| data.host == host.name) {
                held = chain.pop_if(|step| step.id.0.ends_with(host_removal::REVERT));
            }
            ends.extend(chain.last().map(|step| step.id.clone()));
            steps.extend(chain);
        }
        // A group of hosts with nothing left to stop does not delay other groups.
        if !ends.is_empty() {
            last = ends;
        }
    }
    // No API server runs any more, and whatever can fail and be rolled back has been done, but for what needs the certificate.
    if let Some(data) = &cx.etcd_data {
        let deleted = delete_keys(data, &last);
        last = vec![deleted.id.clone()];
        steps.push(deleted);
        if let Some(revert) = held {
            let revert = Step { after: std::mem::take(&mut last), ..revert };
            last = vec![revert.id.clone()];
            steps.push(revert);
        }
    }
    for (host, owned) in groups.values().flatten() {
        steps.push(host_removal::purge(host.name, owned, &last));
    }
    Ok(Plan {
        schema: kubexm_plan::SCHEMA,
        pipeline: Pipeline::Reset,
        cluster_name: cx.cluster.to_owned(),
        cluster_id: cx.cluster_id,
        cluster: cx.cluster_digest,
        bundle: None,
        hosts: cx.hosts.iter().map(|host| plan_host(host.name, host.roles, false)).collect(),
        fleet_concurrency: 16,
        host_concurrency: 4,
        slots: BTreeMap::new(),
        texts: BTreeMap::new(),
        steps,
    })
}

fn delete_keys(data: &EtcdData<'_>, after: &[StepId]) -> Step {
    let title = "Delete what the cluster has in the site's own etcd";
    let act = EtcdKeysDelete { endpoints: data.endpoints.clone(), prefix: data.prefix.to_owned(), keys: data.keys };
    let step = Step::on(data.host, "reset.etcd", title).timeout_s(600);
    after
        .iter()
        .fold(step, |step, id| step.after(id))
        .ensure(act)
        .undo(Undo::Irreversible { why: ETCD_WHY.to_owned() })
        .build()
}

fn position(host: &ResetHost<'_>, first: Option<&str>) -> Position {
    match host.roles {
        Roles { registry: true, .. } => Position::Registry,
        Roles { control_plane: true, .. } if first == Some(host.name) => Position::FirstControlPlane,
        Roles { control_plane: true, .. } => Position::ControlPlane,
        Roles { etcd: true, worker: false, .. } => Position::Etcd,
        _ => Position::Worker,
    }
}
