//! iSulad, from the packages of openEuler.

use kubexm_spec::cluster::RuntimeKind;

use super::traits::{KNOWN_BY_SIGHT, RuntimeTraits};

pub(super) const TRAITS: RuntimeTraits = RuntimeTraits {
    kind: RuntimeKind::Isulad,
    unit: "isulad.service",
    config: "/etc/isulad/daemon.json",
    ..KNOWN_BY_SIGHT
};
