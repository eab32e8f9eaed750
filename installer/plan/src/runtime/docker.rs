//! dockerd with cri-dockerd.

use kubexm_spec::cluster::RuntimeKind;

use super::traits::{DETECTED_ONLY, RuntimeTraits};

pub(super) const TRAITS: RuntimeTraits = RuntimeTraits {
    kind: RuntimeKind::Docker,
    unit: "docker.service",
    other_units: &["cri-docker.service"],
    config: "/etc/docker/daemon.json",
    ..DETECTED_ONLY
};
