//! Values of slots that are made on a control plane, for joins.

mod ca_hash;
mod certificate_key;
mod kubelet_client;
mod random;
mod shared_file;
mod token;

use kubexm_plan::SlotProvider;

use crate::ops::stamp;
use crate::{Machine, OpError, kube};

/// Makes the value. Each call makes a new one; earlier ones expire.
pub fn value(provider: &SlotProvider, machine: &Machine) -> Result<Vec<u8>, OpError> {
    let made = match provider {
        SlotProvider::CaCertHash { .. } => ca_hash::read(machine)?,
        SlotProvider::JoinToken { host } => {
            on_a_control_plane(machine, host)?;
            of_no_adopted_cluster(machine, host)?;
            token::make(machine)?
        }
        SlotProvider::UploadKey { host } => {
            on_a_control_plane(machine, host)?;
            of_no_adopted_cluster(machine, host)?;
            certificate_key::upload(machine)?
        }
        SlotProvider::KubeletClient { node, .. } => kubelet_client::make(machine, node)?,
        SlotProvider::SharedFile { host, path } => {
            on_a_control_plane(machine, host)?;
            of_no_adopted_cluster(machine, host)?;
            shared_file::read(machine, path)?
        }
        SlotProvider::Authority { .. }
        | SlotProvider::Certificate(_)
        | SlotProvider::CertificateKey { .. }
        | SlotProvider::AdminKubeconfig { .. }
        | SlotProvider::SealedAuthorities { .. }
        | SlotProvider::RequestKey { .. }
        | SlotProvider::BackupKey
        | SlotProvider::BackupFile { .. }
        | SlotProvider::Secret { .. }
        | SlotProvider::DerivedPassword { .. }
        | SlotProvider::RegistryLogin { .. } => {
            return Err(OpError::other(format!("{provider:?} is not made on a node; this is a fault of the program")));
        }
    };
    Ok(made.into_bytes())
}

fn on_a_control_plane(machine: &Machine, host: &str) -> Result<(), OpError> {
    if kube::has_admin_conf(machine) {
        return Ok(());
    }
    Err(OpError::other(format!(
        "{} is not on {host}: what a join needs is made on a running control plane; run again once `kubeadm init` \
         has finished there",
        crate::paths::ADMIN_CONF
    )))
}

/// An older run that goes on must not join a host to a cluster that others have made meanwhile.
fn of_no_adopted_cluster(machine: &Machine, host: &str) -> Result<(), OpError> {
    match stamp::read(machine)? {
        Some(found) if found.adopted => Err(OpError::other(format!(
            "{host} is of cluster {:?}, which was adopted: kubexm-install has not made it, and joins no host to it; if that is wrong, \
             `kubexm-install adopt --roll-back RUN` undoes the adoption",
            found.cluster
        ))),
        _ => Ok(()),
    }
}
