//! What differs on the hosts of a created cluster from the plan, before anything is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kubexm_engine::drift::Drift;
use kubexm_engine::link::LinkError;
use kubexm_engine::{EventSink, controller_link};
use kubexm_plan::{CONTROLLER, CheckedPlan, Facts, Pipeline, Plan};
use kubexm_spec::{ExitCode, ExitError as _, error_chain, one_line};

use crate::authorities::Authorities;
use crate::connected_cluster::ConnectedCluster;
use crate::diff::without_secrets;
use crate::error::SessionError;
use crate::events;
use crate::observe::subject::Subject;
use crate::run::secrets::ControllerSlots;

/// Whether `create`, or what applies add-ons, is about hosts that all belong to the cluster already.
pub(crate) fn is_created(plan: &Plan, facts: &BTreeMap<String, Facts>) -> bool {
    let stamped = |host: &str| {
        let stamp = facts.get(host).and_then(|facts| facts.stamp.as_ref());
        stamp.is_some_and(|stamp| stamp.cluster == plan.cluster_name)
    };
    matches!(plan.pipeline, Pipeline::Create | Pipeline::AddonsApply)
        && plan.hosts.iter().all(|host| host.name == CONTROLLER || stamped(&host.name))
        && facts.values().any(|facts| facts.joined)
}

/// Says once on which hosts edits of kubeadm's files cannot be found.
pub(crate) fn report_unrecorded(events: &dyn EventSink, facts: &BTreeMap<String, Facts>) {
    let unrecorded = |facts: &&Facts| facts.kubeadm_files.as_ref().is_some_and(|files| !files.recorded);
    let hosts: Vec<&str> = facts.values().filter(unrecorded).map(|facts| facts.host.as_str()).collect();
    if !hosts.is_empty() {
        let text = format!(
            "an earlier version set up Kubernetes on {}: edits of static pods and of kubelet's configuration are not \
             found there",
            hosts.join(", ")
        );
        events::note(events, text);
    }
}

/// Warns of a comparison that does not take place though a cluster runs: it is what one host says that prevents it.
pub(crate) fn report_newcomers(events: &dyn EventSink, plan: &Plan, facts: &BTreeMap<String, Facts>) {
    let stamped = |name: &String| facts.get(name).is_some_and(|facts| facts.stamp.is_some());
    let new: Vec<&str> = plan
        .hosts
        .iter()
        .map(|host| &host.name)
        .filter(|name| *name != CONTROLLER && !stamped(name))
        .map(String::as_str)
        .collect();
    if plan.pipeline == Pipeline::Create && !new.is_empty() && facts.values().any(|facts| facts.joined) {
        let text = format!(
            "a cluster runs, and {} say that they are not in it: what was edited on the others is not compared, and is replaced without being shown",
            new.join(", ")
        );
        events::warning(events, text);
    }
}

/// None if the hosts are not all in the cluster, or nothing could be compared. Of a host that does not answer nothing is compared, which
/// is said.
///
/// # Errors
/// A host answered what it was not asked.
pub(crate) async fn of<S: Subject>(
    site: &ConnectedCluster<'_, S>,
    plan: &CheckedPlan,
    created: bool,
    authorities: &Authorities,
) -> Result<Option<Drift>, SessionError> {
    if !created {
        return Ok(None);
    }
    let warn = |text: &str| events::warning(site.session.events, one_line(text));
    match compared(site, plan, authorities).await {
        Ok((drift, failed)) => {
            failed.iter().for_each(|error| warn(&format!("not compared: {}", error_chain(error))));
            Ok(Some(drift))
        }
        Err(error) if error.exit_code() == ExitCode::HostUntrusted => Err(error),
        Err(error) => {
            warn(&format!("what differs on the hosts could not be compared: {}", error_chain(&error)));
            Ok(None)
        }
    }
}

/// Compares the hosts of a created cluster with a plan.
///
/// `authorities` are those that the plan will distribute: a comparison makes and renews no certificate.
///
/// # Errors
/// The authorities cannot be read, or a host does not answer.
pub(crate) async fn on_hosts<S: Subject>(
    site: &ConnectedCluster<'_, S>,
    plan: &CheckedPlan,
    authorities: &Authorities,
) -> Result<Drift, SessionError> {
    let (drift, failed) = compared(site, plan, authorities).await?;
    if failed.is_empty() { Ok(drift) } else { Err(SessionError::links(failed)) }
}

/// With the errors of hosts that did not answer.
async fn compared<S: Subject>(
    site: &ConnectedCluster<'_, S>,
    plan: &CheckedPlan,
    authorities: &Authorities,
) -> Result<(Drift, Vec<LinkError>), SessionError> {
    let pki = authorities.view(&site.home)?;
    let (session, plan) = (site.session, plan.plan());
    events::phase(session.events, "compare");
    let mut links = site.fleet.links();
    if plan.has_controller_steps() {
        links.insert(CONTROLLER.to_owned(), Arc::new(controller_link(&site.home.folder)));
    }
    let slots = ControllerSlots {
        session,
        cluster: site.subject.cluster(),
        fleet: &site.fleet,
        pki,
        backup_key: None,
        backup_files: BTreeMap::new(),
        operator: authorities.operator.clone(),
        read: tokio::sync::Mutex::default(),
        refused: AtomicBool::new(false),
    };
    let found = kubexm_engine::drift::drift(plan, &links, &slots, session.events).await;
    let (mut drift, failed) = found.map_err(|error| SessionError::links([error]))?;
    let all = drift.steps.iter_mut().flat_map(|step| &mut step.differences);
    all.for_each(|one| one.diff = one.diff.as_deref().map(without_secrets));
    Ok((drift, failed))
}
