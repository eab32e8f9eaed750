//! What must be so before anything is removed.

use kubexm_spec::cluster::RegistryKind;
use kubexm_spec::one_line;

use super::context::PruneContext;
use crate::error::RecipeError;
use crate::identity::Identity;
use crate::registries;

/// The control plane that is asked which images are used.
pub(super) fn site<'a>(cx: &PruneContext<'a>) -> Result<&'a str, RecipeError> {
    if let Some(reason) = other_registry(cx.cluster.registry.kind) {
        return Err(refused(reason));
    }
    let identity = Identity::of(cx.cluster, cx.facts);
    for host in &cx.cluster.hosts {
        // One that is left out may run with an earlier bundle, whose images it pulls.
        let Some(facts) = cx.facts.get(&host.name) else {
            return Err(refused(&format!("{} was not reached, and every host of the cluster is needed", host.name)));
        };
        if let Some(why) = &facts.unreadable_stamp {
            return Err(refused(&format!("{}: {why}", host.name)));
        }
        if facts.joined && facts.stamp.is_none() {
            return Err(refused(&format!(
                "{} does not say which bundle it has; run `kubexm-install create`, which writes that",
                host.name
            )));
        }
        if facts.stamp.is_some() && !identity.is_member(cx.cluster, &host.name, facts) {
            return Err(refused(&format!(
                "{} belongs to another cluster than the first control plane: find out with `kubexm-install status -f cluster.yaml`, and \
                 correct cluster.yaml",
                host.name
            )));
        }
    }
    if !cx.running.api_answers() {
        let why: Vec<String> = cx.running.gaps.iter().map(|gap| format!("{}: {}", gap.host, gap.why)).collect();
        return Err(refused(&format!(
            "the API server does not answer, so nobody knows which images are used; mend that first ({})",
            why.join("; ")
        )));
    }
    if let (Some(hosts), Some(cluster)) = (identity.id, cx.running.id)
        && hosts != cluster
    {
        return Err(refused(&format!(
            "the hosts belong to the cluster with id {hosts}, and the API server is of the one with id {cluster}"
        )));
    }
    if let Some(recorded) = registries::other_than_recorded(cx.cluster, cx.running) {
        return Err(refused(&format!(
            "the cluster has its registry on {}, and cluster.yaml names others in spec.roleGroups.registry: write the hosts that it has, \
             or run `kubexm-install create`, which brings it the others",
            recorded.join(", ")
        )));
    }
    let planes = cx.cluster.role_groups.control_plane.iter();
    let mut joined = planes.filter(|name| cx.facts.get(*name).is_some_and(|facts| facts.joined));
    joined.next().map(String::as_str).ok_or(RecipeError::NoHosts { what: "control plane that runs" })
}

/// A registry host may have said a part of the reason.
pub(super) fn refused(reason: &str) -> RecipeError {
    RecipeError::CannotPrune { reason: one_line(reason) }
}

/// Why a registry of this type is not pruned, and what can be done.
fn other_registry(kind: RegistryKind) -> Option<&'static str> {
    match kind {
        RegistryKind::Embedded | RegistryKind::Registry | RegistryKind::Harbor => None,
        RegistryKind::None => Some(
            "the cluster has none (spec.registry.type is none); images that a node does not use are removed by its kubelet",
        ),
        RegistryKind::External => Some(
            "it is yours (spec.registry.type is external), and kubexm-install deletes nothing there: use its own means, and keep what \
             `kubexm-install registry list` shows of the bundles in use",
        ),
    }
}
