//! A container runtime that comes as a package of the hosts' system.

use kubexm_manifests::{RequireError, packaged_runtime};
use kubexm_spec::{Cluster, Lock};

use crate::BuildError;

/// Refuses a lock with packages of it that are too old for the cluster.
pub(crate) fn check(cluster: &Cluster, lock: &Lock) -> Result<(), BuildError> {
    let versions = lock.items.iter().map(|item| (&item.key, item.version.as_str()));
    let too_old = packaged_runtime::too_old(cluster, versions);
    too_old.map_or(Ok(()), |error| Err(BuildError::Require(RequireError::OldRuntimePackage(Box::new(error)))))
}
