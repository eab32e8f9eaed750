//! The Corefile that `create` writes where a node has no resolver for pods: with the servers of the nodes that stay.

use kubexm_plan::ledger::not_rolled_back;
use kubexm_plan::op::KubeObject;
use kubexm_plan::{Op, Step, StepId, Undo};
use kubexm_spec::{Digest, KubernetesVersion};

use super::check::Leaving;
use super::context::DeleteContext;
use crate::context::upstream_nameservers;
use crate::error::RecipeError;
use crate::modules::dns;
use crate::pipelines::host_removal::ResetHost;

/// The step that writes it and its text; none if the hosts that leave change nothing of it, or kubexm has written none. Names that only
/// they could resolve would be asked for in vain.
pub(super) fn without(
    cx: &DeleteContext<'_>,
    (on, leaving): (&str, &[Leaving<'_>]),
    after: &[StepId],
) -> Result<Option<(Step, String)>, RecipeError> {
    if !is_ours(cx) {
        return Ok(None);
    }
    let version = cx.running.server_version.as_deref().and_then(|version| version.parse::<KubernetesVersion>().ok());
    let minor = version.map(|version| version.minor());
    let of = |stays: &dyn Fn(&str) -> bool| {
        let members = cx.hosts.iter().filter(|host| host.roles.in_cluster() && stays(host.name));
        let servers: Vec<_> = members.map(|host| upstream_nameservers(cx.cluster, host.facts)).collect();
        dns::config_map(cx.cluster, &servers, minor)
    };
    let text = of(&|host| leaving.iter().all(|one| one.name != host))?;
    // What a node has that is gone for good is not known; one of which nothing is left has been taken out of it.
    let is_reached = |name: &str| cx.hosts.iter().any(|host| host.name == name);
    let is_known = leaving.iter().all(|host| is_reached(host.name) || !host.node);
    if is_known && of(&|_| true)? == text {
        return Ok(None);
    }
    let step = Step::on(on, "delete.corefile", "Let CoreDNS forward to the resolvers of the nodes that stay")
        .ensure(KubeObject::new(dns::COREDNS, Digest::of(&text)))
        .retries(3)
        .undo(Undo::RestoreBefore)
        .build();
    Ok(Some((Step { after: after.to_vec(), ..step }, text)))
}

/// Whether kubexm has written it: any host may have.
fn is_ours(cx: &DeleteContext<'_>) -> bool {
    let writes = |op: &Op| matches!(op, Op::KubeObject(object) if object.name == dns::COREDNS);
    let of_host =
        |host: &ResetHost<'_>| not_rolled_back(host.ledger.iter()).any(|record| record.ops.iter().any(writes));
    cx.hosts.iter().any(of_host)
}
