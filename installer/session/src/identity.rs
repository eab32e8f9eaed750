//! Creation and checking of cluster ids on the controller. Hosts say the id of their cluster, and whoever is root on one may say another
//! cluster's, which is no secret: it decides whose backups are whose.

use std::collections::BTreeMap;
use std::fs;

use kubexm_engine::ClusterPki;
use kubexm_plan::cluster_facts::IDENTITY;
use kubexm_plan::{ClusterFacts, ClusterId, Facts, Plan};
use kubexm_spec::{Cluster, one_line};
use serde::Deserialize;

use crate::error::SessionError;
use crate::home::{ClusterHome, Home};

/// A new id.
pub(crate) fn new_id() -> Result<ClusterId, SessionError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| SessionError::NoRandom(error.to_string()))?;
    Ok(ClusterId::from_random(bytes))
}

/// Refuses a plan that was made for a cluster of the same name, but with another id, than the one that the hosts belong to.
pub(crate) fn check_plan(plan: &Plan, hosts: Option<ClusterId>) -> Result<(), SessionError> {
    match (plan.cluster_id, hosts) {
        (Some(planned), Some(found)) if planned != found => {
            Err(SessionError::ClusterMismatch { cluster: plan.cluster_name.clone(), planned, found })
        }
        _ => Ok(()),
    }
}

/// The id of a running cluster, as all its control planes that say one and this home know it.
///
/// # Errors
/// They do not agree.
pub(crate) fn of_running(home: &ClusterHome, running: &ClusterFacts) -> Result<Option<ClusterId>, SessionError> {
    let unproven = |why: String| SessionError::IdUnproven { cluster: home.name.clone(), why };
    if let Some(gap) = running.gaps.iter().find(|gap| gap.what == IDENTITY) {
        let host = if gap.host.is_empty() { "a control plane" } else { gap.host.as_str() };
        return Err(unproven(format!(
            "{host}: {}. Compare /var/lib/kubexm/stamp.json of every control plane with each other, find out who changed one, and run \
             again once they agree",
            one_line(&gap.why)
        )));
    }
    let sealed = ClusterPki::sealed_in(&home.pki())?.map(|(_, sealed)| sealed.about);
    let sealed = sealed.filter(|about| about.cluster == home.name).map(|about| about.cluster_id);
    match (running.id, sealed) {
        (Some(said), Some(known)) if said != known => Err(unproven(format!(
            "its control planes say that its id is {said}, and this home knows it with the id {known} ({}). If it was made anew since, \
             from another home or by others, move that file aside; otherwise find out who changed /var/lib/kubexm/stamp.json of the \
             first control plane",
            home.pki().join("authorities.json").display()
        ))),
        (said, _) => Ok(said),
    }
}

/// Refuses an id that hosts say and by which this home knows another cluster: two never have the same one.
///
/// # Errors
/// It does.
pub(crate) fn refuse_of_another(
    home: &Home,
    cluster: &Cluster,
    facts: &BTreeMap<String, Facts>,
    said: Option<ClusterId>,
) -> Result<(), SessionError> {
    let Some(said) = said else { return Ok(()) };
    for other in home.clusters()? {
        let mut ids = known(&other).into_iter();
        let Some((other, _)) = ids.find(|(name, id)| *id == said && *name != cluster.name) else { continue };
        let says = |facts: &Facts| {
            facts.stamp.as_ref().is_some_and(|stamp| stamp.cluster == cluster.name && stamp.id == Some(said))
        };
        let hosts = facts.iter().filter(|(_, facts)| says(facts)).map(|(host, _)| host.as_str());
        let (hosts, cluster) = (hosts.collect::<Vec<_>>().join(", "), cluster.name.clone());
        let why = format!(
            "{hosts}: /var/lib/kubexm/stamp.json says that its id is {said}, which this home knows as that of cluster {}, and two \
             clusters never have the same one. Find out who wrote it; `kubexm-install reset -f cluster.yaml --only HOST` frees a host \
             that is in no cluster",
            one_line(&other)
        );
        return Err(SessionError::IdUnproven { cluster, why });
    }
    Ok(())
}

/// Names and ids of a cluster that this home knows: those of its authorities, and of its last run, since an adopted one has none. What
/// cannot be read says nothing.
fn known(home: &ClusterHome) -> Vec<(String, ClusterId)> {
    let sealed = ClusterPki::sealed_in(&home.pki()).ok().flatten();
    let sealed = sealed.map(|(_, sealed)| (sealed.about.cluster, sealed.about.cluster_id));
    sealed.into_iter().chain(last_planned(home)).collect()
}

/// Of a plan nothing else is read: there may be many, and each is long.
fn last_planned(home: &ClusterHome) -> Option<(String, ClusterId)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Planned {
        cluster_name: String,
        cluster_id: Option<ClusterId>,
    }
    let last = home.run_ids().ok()?.pop()?;
    let text = fs::read(home.runs().join(last.as_str()).join("plan.json")).ok()?;
    let planned: Planned = serde_json::from_slice(&text).ok()?;
    Some((planned.cluster_name, planned.cluster_id?))
}
