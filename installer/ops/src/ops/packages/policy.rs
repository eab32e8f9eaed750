//! Nothing is started, stopped or restarted by a package's scripts while we work: `policy-rc.d` (invoke-rc.d(8), deb-systemd-invoke(1))
//! says 101, "action forbidden by policy". Scripts of rpm's family start nothing.

use kubexm_spec::Family;

use super::package_transaction::PackageTransaction;
use crate::fsio::Access;
use crate::place::{Look, Place, PutBack};
use crate::{Machine, OpError};

const PATH: &str = "/usr/sbin/policy-rc.d";
const TEXT: &str = "#!/bin/sh\n# Of KubeXM while it changes packages: no service is started, stopped or restarted meanwhile.\nexit 101\n";

/// Does something while services are forbidden, whatever its end.
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
        transaction.policy = Some(Place::look(machine, PATH)?);
        machine.ledger().keep(&machine.path(PATH))?;
    }
    // Before ours lies there: after a kill it must be known what was.
    transaction.write(machine)?;
    machine.write_file(PATH, TEXT.as_bytes(), Access::mode(0o755))?;
    let result = work();
    allow(machine, transaction)?;
    result
}

/// Restores what was there.
pub(super) fn allow(machine: &Machine, transaction: &mut PackageTransaction) -> Result<(), OpError> {
    if let Some(place) = &transaction.policy {
        place.restore(machine)?;
        transaction.policy = None;
    }
    Ok(())
}
