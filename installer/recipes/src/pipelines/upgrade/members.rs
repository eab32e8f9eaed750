//! The members of an etcd of kubexm's own, one after the other: with their data, and never two of them down.
//!
//! They come before the control planes, as kubeadm's own etcd does: an API server takes a newer etcd. Until the last of them has
//! another minor version the cluster of members works with the old one, so that any of them can go back (etcd's upgrade guides).

use kubexm_plan::{ClusterFacts, StepId, Undo};
use kubexm_spec::{Program, Version};

use super::found::{Found, FoundNode};
use crate::context::{PlanContext, PlannedHost};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::modules::etcd::{self, Member};
use crate::modules::kubernetes;
use crate::phases::ClusterHosts;

/// The members, and which of them get another etcd.
#[derive(Debug)]
pub(super) struct OwnMembers<'a> {
    pub all: Vec<Member>,
    /// The etcd in the bundle.
    pub target: String,
    /// Hosts whose member is not the bundle's, or not recorded as such, in the order in which they are replaced.
    pub replaced: Vec<PlannedHost<'a>>,
    /// Whether one of them runs another etcd: it is stopped.
    pub stops: bool,
    /// The member after which no version goes back: the last one of those whose minor version changes.
    pub one_way: Option<String>,
}

impl<'a> OwnMembers<'a> {
    /// None if etcd is not kubexm's.
    pub(super) fn of(
        cx: &PlanContext<'_>,
        site: &ClusterHosts<'a>,
        running: &ClusterFacts,
    ) -> Result<Option<Self>, RecipeError> {
        let all = etcd::members(cx)?;
        let of_host = |member: &Member| site.nodes.iter().find(|node| node.name() == member.name).copied();
        let hosts: Vec<PlannedHost<'a>> = all.iter().filter_map(of_host).collect();
        let Some(first) = hosts.first() else { return Ok(None) };
        let target = cx.program(Program::Etcd, first.platform)?.version.clone();
        let found = |node: &PlannedHost<'_>| {
            let member = running.etcd.iter().find(|member| member.name == node.name());
            member.and_then(|member| member.version.as_deref())
        };
        // What it runs decides, and what was recorded, which a create goes by.
        let differs = |node: &PlannedHost<'_>| {
            let recorded = etcd::formed_version(node.facts);
            found(node) != Some(target.as_str()) || recorded != Some(target.as_str())
        };
        let line = |version: &str| Version::of(version).line();
        let crosses = |node: &&PlannedHost<'_>| found(node).is_none_or(|version| line(version) != line(&target));
        let one_way = hosts.iter().rfind(crosses).map(|node| node.name().to_owned());
        let stops = hosts.iter().any(|node| found(node) != Some(target.as_str()));
        let replaced = hosts.iter().filter(|node| differs(node)).copied().collect();
        Ok(Some(Self { all, target, replaced, stops, one_way }))
    }
}

/// Adds their replacement; returns the steps that the control planes wait for.
pub(super) fn run<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    found: &Found<'_>,
    members: &OwnMembers<'a>,
    after: &[StepId],
) -> Result<Vec<StepId>, RecipeError> {
    let mut chain = Chain::after(after.iter().cloned());
    for node in &members.replaced {
        chain.then(etcd::others_are_healthy(node, &members.all));
        let undo = match &members.one_way {
            Some(last) if last == node.name() => Undo::Irreversible { why: ONE_WAY.to_owned() },
            _ => Undo::RestoreBefore,
        };
        chain.then([etcd::replace(draft, node, &members.all, undo)?]);
    }
    // Control planes without a member have etcd's tools for snapshots; those with a turn of their own get them there.
    let is_left = |node: &&PlannedHost<'_>| {
        let turn = found.node(node.name()).is_some_and(FoundNode::differs);
        node.roles.control_plane && !node.roles.etcd && !turn && members.stops
    };
    for node in site.nodes.iter().filter(is_left) {
        chain.then(kubernetes::tools(draft, node)?);
    }
    Ok(draft.add(chain))
}

/// Said before anything is changed.
const ONE_WAY: &str = "members of etcd cannot go back to an earlier minor version once all of them have the new one; the data of before is \
                       in the snapshot of etcd that is taken before";
