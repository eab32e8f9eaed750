//! What differs on the hosts of a created cluster from the plan, before anything is asked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kubexm_engine::drift::Drift;
use kubexm_engine::{ClusterPki, EventSink, controller_link};
use kubexm_plan::{CONTROLLER, CheckedPlan, Facts, Pipeline, Plan};

use crate::diff::without_secrets;
use crate::events;
use crate::observe::subject::Subject;
use crate::run::secrets::ControllerSlots;
use crate::site::Site;

/// Whether `create` is about hosts that all belong to the cluster already.
pub(crate) fn is_created(plan: &Plan, facts: &BTreeMap<String, Facts>) -> bool {
    let stamped = |host: &str| {
        let stamp = facts.get(host).and_then(|facts| facts.stamp.as_ref());
        stamp.is_some_and(|stamp| stamp.cluster == plan.cluster_name)
    };
    plan.pipeline == Pipeline::Create
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

/// None if the hosts are not all in the cluster, or one does not answer.
///
/// `pki` is the folder with the certificates that the plan will distribute.
pub(crate) async fn of<S: Subject>(site: &Site<'_, S>, plan: &CheckedPlan, created: bool, pki: &Path) -> Option<Drift> {
    if !created {
        return None;
    }
    let (session, plan) = (site.session, plan.plan());
    events::phase(session.events, "compare");
    let mut links = site.fleet.links();
    // Only under the cluster's lock may certificates be read, since one that expires soon is made anew.
    let pki = site.lock.as_ref().and_then(|_| pki.is_dir().then(|| ClusterPki::open(pki).ok())?);
    let found = match pki {
        Some(pki) => {
            if plan.has_controller_steps() {
                links.insert(CONTROLLER.to_owned(), Arc::new(controller_link(&site.home.folder)));
            }
            let cluster = site.subject.cluster();
            let slots = ControllerSlots {
                session,
                cluster,
                fleet: &site.fleet,
                pki,
                read: tokio::sync::Mutex::default(),
                refused: AtomicBool::new(false),
            };
            kubexm_engine::drift::drift(plan, &links, &slots, session.events).await
        }
        None => kubexm_engine::drift::drift(plan, &links, &NoValues, session.events).await,
    };
    match found {
        Ok(mut drift) => {
            let all = drift.steps.iter_mut().flat_map(|step| &mut step.differences);
            all.for_each(|one| one.diff = one.diff.as_deref().map(without_secrets));
            Some(drift)
        }
        Err(error) => {
            events::warning(session.events, format!("what differs on the hosts could not be compared: {error}"));
            None
        }
    }
}

/// Reads no value.
struct NoValues;

#[async_trait::async_trait]
impl kubexm_engine::SlotSource for NoValues {
    async fn value(
        &self,
        name: &kubexm_plan::SlotName,
        _: &kubexm_plan::SlotProvider,
        _: &Plan,
    ) -> Result<Vec<u8>, kubexm_engine::EngineError> {
        let reason = "it is not read for a comparison".to_owned();
        Err(kubexm_engine::EngineError::Slot { slot: name.0.clone(), reason })
    }
}
