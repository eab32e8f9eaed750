//! A file that all control planes have alike, for one that joins without kubeadm's own way to share it (`upload-certs` refuses a cluster
//! whose CA has no key there).

use kubexm_plan::kubeadm_certificates::SHARED;

use crate::{Machine, OpError, fsio};

/// The text of one of [`SHARED`]; any other path is refused.
pub(super) fn read(machine: &Machine, path: &str) -> Result<String, OpError> {
    if !SHARED.contains(&path) {
        return Err(OpError::other(format!("{path} is not shared by control planes; this is a fault of the program")));
    }
    fsio::read_text(&machine.path(path))?.ok_or_else(|| {
        OpError::other(format!(
            "{path} is not there, and another control plane needs it: put it back from a backup (`kubexm-install backup extract`), then run \
             again"
        ))
    })
}
