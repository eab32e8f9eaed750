//! dockerd with cri-dockerd.

use kubexm_spec::cluster::RuntimeKind;

use super::traits::{DETECTED_ONLY, RuntimeTraits};

/// Name of its engine's process.
pub const DAEMON: &str = "dockerd";
/// Folders of an engine: configuration and key, images and containers.
pub const FOLDERS: [&str; 2] = ["/etc/docker", "/var/lib/docker"];

pub(super) const TRAITS: RuntimeTraits = RuntimeTraits {
    kind: RuntimeKind::Docker,
    unit: "docker.service",
    other_units: &["cri-docker.service"],
    config: "/etc/docker/daemon.json",
    ..DETECTED_ONLY
};
