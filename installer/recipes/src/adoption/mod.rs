//! What is known of a cluster that kubeadm has made without kubexm, before it is adopted: what agrees with cluster.yaml and
//! the bundle, what differs, what cannot be determined, and what is in the way.
//!
//! In the way is what later commands would go wrong by: what cluster.yaml says of the cluster that no command can change (its
//! networks, its nodes, its etcd), and everything by which it could be another cluster. What differs in versions and names is
//! not: it is kept as it is.

mod cluster;
mod endpoint;
mod etcd;
mod external_etcd;
mod hosts;
mod input;
mod item;
mod node;
mod versions;

use std::collections::BTreeMap;

use kubexm_plan::{Facts, Pipeline, Plan};
use kubexm_spec::cluster::Cluster;

use crate::error::RecipeError;
pub(crate) use endpoint::no_operator;
pub use external_etcd::other_etcd;
pub(crate) use external_etcd::{is_of as is_of_their_etcd, is_same as same_endpoints, kubelet_etcd};
pub use input::{AdoptionInput, Origin};
use item::Items;
pub use item::{AdoptionItem, Verdict};
pub(crate) use node::left_running;
pub use versions::BundleVersions;

/// What is known of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    pub origin: Origin,
    /// What is in the way comes first.
    pub items: Vec<AdoptionItem>,
}

impl Adoption {
    /// Compares a running cluster with cluster.yaml and the bundle.
    pub fn of(input: &AdoptionInput<'_>) -> Self {
        let origin = input.origin();
        let mut items = Items::default();
        // Of a cluster of kubexm's own there is nothing to adopt: `drift` compares it.
        if origin != Origin::Kubexm {
            hosts::compare(input, &mut items);
            cluster::compare(input, &mut items);
            etcd::compare(input, &mut items);
        }
        Self { origin, items: items.shown() }
    }

    /// The items of a verdict.
    pub fn of_verdict(&self, verdict: Verdict) -> impl Iterator<Item = &AdoptionItem> {
        self.items.iter().filter(move |item| item.verdict == verdict)
    }

    /// Why it is not adopted, one line each.
    pub fn in_the_way(&self) -> Vec<String> {
        let line = |item: &AdoptionItem| {
            let host = item.host.as_ref().map(|host| format!("{host}: ")).unwrap_or_default();
            let wanted = item.wanted.as_ref().map(|wanted| format!(", and not {wanted}")).unwrap_or_default();
            let fix = item.fix.as_ref().map(|fix| format!("; {fix}")).unwrap_or_default();
            format!("{host}{}: {}{wanted}{fix}", item.what, item.found)
        };
        self.of_verdict(Verdict::InTheWay).map(line).collect()
    }
}

/// Whether a cluster was adopted, by what its control planes say: others have no part in it.
pub fn is_adopted(cluster: &Cluster, facts: &BTreeMap<String, Facts>) -> bool {
    let planes = &cluster.role_groups.control_plane;
    planes.iter().filter_map(|name| facts.get(name)?.stamp.as_ref()).any(|stamp| stamp.adopted)
}

/// The same, where control planes say it alike: one that lies would have pods of the others keep their earlier certificates.
///
/// # Errors
/// They do not say the same.
pub(crate) fn agreed(cluster: &Cluster, facts: &BTreeMap<String, Facts>) -> Result<bool, RecipeError> {
    let planes = &cluster.role_groups.control_plane;
    let stamped = planes.iter().filter_map(|name| Some((name, facts.get(name)?.stamp.as_ref()?.adopted)));
    let (adopted, made): (Vec<_>, Vec<_>) = stamped.partition(|(_, adopted)| *adopted);
    if adopted.is_empty() || made.is_empty() {
        return Ok(!adopted.is_empty());
    }
    let names = |all: Vec<(&String, bool)>| all.into_iter().map(|(name, _)| name.clone()).collect();
    Err(RecipeError::MarksDiffer { cluster: cluster.name.clone(), adopted: names(adopted), made: names(made) })
}

/// Refuses a pipeline that would replace or remove what others have made on hosts of an adopted cluster, which their ledgers do not
/// know. A renewal replaces only what kubeadm itself renews; the recipe of an upgrade decides itself.
///
/// # Errors
/// A host has the stamp of an adopted cluster.
pub fn refuse(pipeline: Pipeline, cluster: &Cluster, facts: &BTreeMap<String, Facts>) -> Result<(), RecipeError> {
    match pipeline {
        Pipeline::CertsRenew | Pipeline::Upgrade => Ok(()),
        other => refuse_any(other, cluster, facts),
    }
}

/// The same for a plan that was made earlier: perhaps before the cluster was adopted.
///
/// # Errors
/// As [`refuse`].
pub fn refuse_plan(plan: &Plan, cluster: &Cluster, facts: &BTreeMap<String, Facts>) -> Result<(), RecipeError> {
    match plan.pipeline {
        Pipeline::Upgrade if !plan.is_of_adopted() => refuse_any(plan.pipeline, cluster, facts),
        other => refuse(other, cluster, facts),
    }
}

fn refuse_any(pipeline: Pipeline, cluster: &Cluster, facts: &BTreeMap<String, Facts>) -> Result<(), RecipeError> {
    let is_adopted = |facts: &&Facts| facts.stamp.as_ref().is_some_and(|stamp| stamp.adopted);
    let hosts: Vec<String> = facts.values().filter(is_adopted).map(|facts| facts.host.clone()).collect();
    match hosts.is_empty() {
        true => Ok(()),
        false => Err(RecipeError::Adopted { cluster: cluster.name.clone(), command: pipeline.command(), hosts }),
    }
}
