//! dockerd with cri-dockerd.

use kubexm_spec::cluster::RuntimeKind;

use super::traits::{KNOWN_BY_SIGHT, RuntimeTraits};

pub(super) const TRAITS: RuntimeTraits = RuntimeTraits {
    kind: RuntimeKind::Docker,
    unit: "docker.service",
    other_units: &["cri-docker.service"],
    config: "/etc/docker/daemon.json",
    ..KNOWN_BY_SIGHT
};
