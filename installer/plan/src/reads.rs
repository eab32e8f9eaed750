//! What an op is given besides what it says itself: slots and texts of its plan.

use std::collections::BTreeSet;

use kubexm_spec::Digest;

use crate::op::{Act, Content, File, ImageLoaded, ImageSource, Op};
use crate::{SlotName, SlotProvider};

impl Op {
    /// Slots whose values the op gets.
    pub fn slots(&self) -> &[SlotName] {
        match self {
            Self::File(File { content: Content::Slot { slot }, .. }) => std::slice::from_ref(slot),
            Self::Act(Act::KubeadmJoin { slots, .. }) => slots,
            _ => &[],
        }
    }

    /// The text of the plan that the op names.
    pub const fn text(&self) -> Option<Digest> {
        match self {
            Self::File(File { content: Content::Text { digest }, .. }) => Some(*digest),
            Self::KubeObject(object) => Some(object.text),
            Self::Act(Act::KubeadmJoin { config, .. }) => Some(*config),
            _ => None,
        }
    }
}

impl Op {
    /// Blobs of the node's content store that the op takes something from.
    pub fn blobs(&self) -> BTreeSet<Digest> {
        match self {
            Self::Binary(binary) => BTreeSet::from([binary.blob]),
            Self::Unpacked(unpacked) => BTreeSet::from([unpacked.blob]),
            Self::ImageLoaded(ImageLoaded { source: ImageSource::Store { blobs }, .. }) => blobs.clone(),
            Self::RegistryLayout(layout) => {
                layout.repositories.values().flat_map(|r| r.manifests.iter().chain(&r.blobs)).copied().collect()
            }
            Self::Packages(packages) => packages.links().map(|(_, blob)| blob).collect(),
            _ => BTreeSet::new(),
        }
    }
}

impl SlotProvider {
    /// The slot that this one cannot be made without.
    pub const fn needs(&self) -> Option<&SlotName> {
        match self {
            Self::RegistryKey { cert } => Some(cert),
            _ => None,
        }
    }
}
