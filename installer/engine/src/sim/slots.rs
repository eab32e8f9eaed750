//! Values that a simulated control plane makes for a join, and which of them are still valid.

use kubexm_plan::{SlotName, SlotProvider};

use super::world::World;
use crate::link::SlotValues;

impl World {
    /// Makes a value; every token is a new one.
    pub(super) fn provide(&mut self, host: &str, provider: &SlotProvider) -> Result<Vec<u8>, String> {
        let kind = match provider {
            SlotProvider::JoinToken { .. } => "joinToken",
            SlotProvider::CaCertHash { .. } => "caCertHash",
            SlotProvider::UploadKey { .. } => "certificateKey",
            SlotProvider::KubeletClient { .. } => "kubeletClient",
            SlotProvider::SharedFile { .. } => "sharedFile",
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
                return Err(format!("{provider:?} is not made on a host"));
            }
        };
        if !self.cluster.contains_key("initialised") {
            return Err(format!("{host} cannot make a {kind}: no API server answers"));
        }
        self.provided.push(kind.to_owned());
        let value = match provider {
            SlotProvider::CaCertHash { .. } => "sha256:ca".to_owned(),
            SlotProvider::SharedFile { path, .. } => format!("secret-{kind}-{path}"),
            _ => format!("secret-{kind}-{}", self.provided.len()),
        };
        self.valid_values.insert(value.clone().into_bytes());
        Ok(value.into_bytes())
    }

    /// A join needs every value that it reads, and each must still be valid.
    pub(super) fn refuse_values(&self, reads: &[SlotName], slots: &SlotValues) -> Result<(), String> {
        for name in reads {
            match slots.get(name) {
                None => return Err(format!("slot {} was not given to the step", name.0)),
                Some(value) if !self.valid_values.contains(value) => {
                    return Err(format!("the value of slot {} is no longer valid", name.0));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// A failed join uses its values up.
    pub(super) fn invalidate_values(&mut self, reads: &[SlotName], slots: &SlotValues) {
        for value in reads.iter().filter_map(|name| slots.get(name)).filter(|value| value.starts_with(b"secret-")) {
            self.valid_values.remove(value);
        }
    }
}
