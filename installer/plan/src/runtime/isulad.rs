//! iSulad, from openEuler's packages.

use kubexm_spec::cluster::RuntimeKind;

use super::traits::{DETECTED_ONLY, RuntimeTraits};

pub(super) const TRAITS: RuntimeTraits = RuntimeTraits {
    kind: RuntimeKind::Isulad,
    unit: "isulad.service",
    config: "/etc/isulad/daemon.json",
    ..DETECTED_ONLY
};
