//! A run of earlier, on hosts of a cluster that was adopted since, or is adopted no more.

use kubexm_plan::ledger::{Record, not_rolled_back};
use kubexm_plan::{ClusterId, Op, Pipeline, Plan, op};
use kubexm_spec::Cluster;

use crate::error::SessionError;
use crate::fleet::Fleet;
use crate::session::Session;

/// Refuses to go on with a run, or to roll it back, where that would change an adopted cluster otherwise than its adoption, its own
/// renewals and its own upgrades do. Control planes say whether a cluster is adopted, as when it is planned for.
///
/// # Errors
/// A control plane has the stamp of an adopted cluster that the run is not of, or has lost it, with what was there before the
/// run; or its ledger cannot be read.
pub(super) async fn check(
    session: &Session<'_>,
    fleet: &Fleet,
    cluster: &Cluster,
    (run, plan): (&str, &Plan),
) -> Result<(), SessionError> {
    for host in &cluster.role_groups.control_plane {
        let Some(link) = fleet.link_of(host) else { continue };
        let ledger = link.link().ledger().await.map_err(|error| SessionError::links([error]))?;
        if let Some(why) = why_not(plan, adopted_as(&ledger)) {
            fleet.revert_agents(session.events).await;
            return Err(SessionError::OfAdopted { run: run.to_owned(), host: host.clone(), why });
        }
    }
    Ok(())
}

/// The stamp that an adoption has given a host, unless it was rolled back.
fn adopted_as(ledger: &[Record]) -> Option<&op::Stamp> {
    let ops = not_rolled_back(ledger.iter()).flat_map(|record| &record.ops);
    ops.filter_map(|op| if let Op::Stamp(stamp) = op { Some(stamp) } else { None }).last().filter(|stamp| stamp.adopted)
}

fn why_not(plan: &Plan, stamp: Option<&op::Stamp>) -> Option<String> {
    let (pipeline, planned) = (plan.pipeline, plan.cluster_id);
    match stamp {
        Some(_) if !matches!(pipeline, Pipeline::Adopt | Pipeline::CertsRenew) && !plan.is_of_adopted() => Some(format!(
            "it is a {pipeline}, and the cluster there was adopted since: it would replace or remove what others have made"
        )),
        Some(stamp) if stamp.id != planned => {
            let text = |id: Option<ClusterId>| id.map_or_else(|| "none".to_owned(), |id| id.to_string());
            Some(format!(
                "it is of an earlier cluster of that name, with the id {}, and the one there was adopted with the id {}",
                text(planned),
                text(stamp.id)
            ))
        }
        None if plan.is_of_adopted() => Some(
            "it has upgraded an adopted cluster whose adoption was rolled back since, and with it what was kept of the earlier programs: \
             the new ones stay"
                .to_owned(),
        ),
        None if renews_adopted(plan) => Some(
            "it has renewed certificates of an adopted cluster whose adoption was rolled back since, and with it what was kept of the \
             earlier ones: the renewed ones stay"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Whether a renewal was planned for an adopted cluster.
fn renews_adopted(plan: &Plan) -> bool {
    let mut ops = plan.steps.iter().flat_map(|step| &step.ops);
    ops.any(|op| matches!(op, Op::Kubeconfig(kubeconfig) if kubeconfig.replaces.is_some()))
}
