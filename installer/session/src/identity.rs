//! Creation and checking of cluster ids on the controller.

use kubexm_plan::{ClusterId, Plan};

use crate::error::SessionError;

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
