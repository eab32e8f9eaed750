//! Certificates that an authority of the cluster's own signs on the controller, and the files on a host that have them.

use std::collections::BTreeMap;

use kubexm_plan::op::{Content, File};
use kubexm_plan::{CertificateUse, SlotName, SlotProvider};
use kubexm_spec::cluster::Cluster;

/// Providers of the values of a plan's slots, by name.
pub type Slots = BTreeMap<SlotName, SlotProvider>;

/// A certificate, and where a host has it and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Name of its slot, by which the controller keeps it: another name is another certificate.
    pub slot: String,
    /// Name of its key's slot.
    pub key_slot: String,
    pub usage: CertificateUse,
    /// Path of the certificate.
    pub certificate: &'static str,
    /// Path of its key.
    pub key: &'static str,
}

impl Issued {
    /// The two files, whose slots are added.
    pub fn files(self, slots: &mut Slots) -> [File; 2] {
        let key = SlotProvider::CertificateKey { cert: SlotName(self.slot.clone()) };
        [
            slot_file(slots, self.certificate, 0o644, &self.slot, SlotProvider::Certificate(self.usage)),
            slot_file(slots, self.key, 0o600, &self.key_slot, key),
        ]
    }
}

/// Says of each certificate and authority of a plan how long it is valid, should the run make it.
pub fn set_validity(cluster: &Cluster, slots: &mut Slots) {
    for provider in slots.values_mut() {
        match provider {
            SlotProvider::Certificate(usage) => usage.valid_h = Some(cluster.own_certificate_validity().hours()),
            SlotProvider::Authority { valid_h, .. } => *valid_h = Some(cluster.own_authority_validity().hours()),
            _ => {}
        }
    }
}

/// A file with the value of a slot, which is added.
pub fn slot_file(slots: &mut Slots, path: &str, mode: u32, slot: &str, provider: SlotProvider) -> File {
    let slot = SlotName(slot.to_owned());
    slots.insert(slot.clone(), provider);
    File { path: path.to_owned(), content: Content::Slot { slot }, mode }
}
