//! A file that all control planes have alike: for one that joins without kubeadm's own way to share it (`upload-certs` refuses a cluster
//! whose CA has no key there), and the certificate of an authority that one of them has renewed.

use kubexm_plan::kubeadm_certificates::{AUTHORITIES, SHARED};

use crate::{Machine, OpError, fsio};

/// The text of one of [`SHARED`] or [`AUTHORITIES`]; any other path is refused.
pub(super) fn read(machine: &Machine, path: &str) -> Result<String, OpError> {
    if !SHARED.contains(&path) && !AUTHORITIES.contains(&path) {
        return Err(OpError::other(format!("{path} is not shared by control planes; this is a fault of the program")));
    }
    fsio::read_text(&machine.path(path))?.ok_or_else(|| {
        OpError::other(format!(
            "{path} is not there, and another control plane needs it: put it back from a backup (`kubexm-install backup extract`), then run \
             again"
        ))
    })
}
