//! CRI-O (`crio.conf(5)`, `containers-storage.conf(5)`).

use kubexm_spec::cluster::RuntimeKind;

use super::traits::{Keeper, RuntimeTraits};

pub(super) const TRAITS: RuntimeTraits = RuntimeTraits {
    kind: RuntimeKind::CriO,
    unit: "crio.service",
    other_units: &[],
    endpoint: "unix:///run/crio/crio.sock",
    config: "/etc/crio/crio.conf",
    registries: "/etc/containers/registries.conf.d",
    // `runroot` and `root` of containers/storage, and CRI-O's own folders.
    state: &["/run/containers", "/run/crio", "/var/lib/containers", "/var/lib/crio"],
    container_mounts: &["/run/containers/storage", "/var/lib/containers/storage"],
    mount_folders: &["storage"],
    keeper: Some(Keeper { program: "conmon", of_kubelet: None, shared_with: ("crio", "cri-o"), otherwise: "podman" }),
};
