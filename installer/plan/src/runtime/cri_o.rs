//! CRI-O with conmon, and containers/storage.

use kubexm_spec::cluster::RuntimeKind;

use super::traits::{Keeper, RuntimeTraits};

/// Where conmon writes how a container has ended: podman's conmon writes elsewhere.
pub const EXITS: &str = "/run/crio/exits";
/// Namespaces of pods, which CRI-O mounts below it: with its default they would be among those of others.
pub const NAMESPACES: &str = "/run/crio/namespaces";
/// Where runc has the state of CRI-O's containers, apart from that of others.
pub const RUNC_ROOT: &str = "/run/crio/runc";

pub(super) const TRAITS: RuntimeTraits = RuntimeTraits {
    kind: RuntimeKind::CriO,
    unit: "crio.service",
    other_units: &[],
    daemons: &["crio"],
    endpoint: "unix:///run/crio/crio.sock",
    // Its archive contains a runc and a crictl, which must not replace those of the bundle.
    programs: Some("/usr/local/lib/cri-o"),
    config: "/etc/crio/crio.conf",
    drop_ins: Some(("/etc/crio/crio.conf.d", "90-kubexm.conf")),
    registries: "/etc/containers/registries.conf.d",
    // `runroot` and `root` of containers/storage, and CRI-O's own folders.
    state: &["/run/containers", "/run/crio", "/var/lib/containers", "/var/lib/crio"],
    container_mounts: &["/run/containers/storage", "/run/crio/namespaces", "/var/lib/containers/storage"],
    mount_folders: &["storage", "namespaces"],
    own_mounts: &[],
    ports: &[],
    namespaces: &[],
    packaged: &[],
    keeper: Some(Keeper {
        program: "conmon",
        of_kubelet: Some(("--exit-dir", EXITS)),
        shared_with: ("crio", "cri-o"),
        otherwise: "podman",
    }),
};
