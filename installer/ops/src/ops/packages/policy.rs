//! Stops scripts of packages from starting, stopping or restarting services: `policy-rc.d` (invoke-rc.d(8),
//! deb-systemd-invoke(1)) exits with 101, "action forbidden by policy". Scripts of rpm packages start nothing.

use kubexm_spec::Family;

use super::package_transaction::PackageTransaction;
use crate::fsio::Access;
use crate::path_state::{Look, PathState, PutBack};
use crate::{Machine, OpError};

const PATH: &str = "/usr/sbin/policy-rc.d";
const TEXT: &str = "#!/bin/sh\n# Of KubeXM while it changes packages: no service is started, stopped or restarted meanwhile.\nexit 101\n";

/// Runs `work` while services are forbidden, and allows them again whatever the result is.
pub(super) fn while_forbidden(
    family: Family,
    machine: &Machine,
    transaction: &mut PackageTransaction,
    work: impl FnOnce() -> Result<(), OpError>,
) -> Result<(), OpError> {
    if family != Family::Deb {
        return work();
    }
    if transaction.policy.is_none() {
        transaction.policy = Some(PathState::look(machine, PATH)?);
        machine.ledger().keep(&machine.path(PATH), machine.digest_cache())?;
    }
    // Recorded before the policy is written, so that an interruption cannot lose the earlier file.
    transaction.write(machine)?;
    machine.write_file(PATH, TEXT.as_bytes(), Access::mode(0o755))?;
    let result = work();
    allow(machine, transaction)?;
    result
}

/// Restores the earlier policy.
pub(super) fn allow(machine: &Machine, transaction: &mut PackageTransaction) -> Result<(), OpError> {
    if let Some(place) = &transaction.policy {
        place.restore(machine)?;
        transaction.policy = None;
    }
    Ok(())
}
