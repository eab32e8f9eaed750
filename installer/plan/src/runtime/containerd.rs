//! containerd 1.7 and 2.x.

use kubexm_spec::cluster::RuntimeKind;

use super::traits::{Keeper, RuntimeTraits};

pub(super) const TRAITS: RuntimeTraits = RuntimeTraits {
    kind: RuntimeKind::Containerd,
    unit: "containerd.service",
    other_units: &[],
    daemons: &["containerd"],
    endpoint: "unix:///run/containerd/containerd.sock",
    programs: None,
    config: "/etc/containerd/config.toml",
    drop_ins: None,
    registries: "/etc/containerd/certs.d",
    // `root`, `state`, and the plugin `opt`.
    state: &["/opt/containerd", "/run/containerd", "/var/lib/containerd"],
    container_mounts: &[
        "/run/containerd/io.containerd.runtime.v2.task/k8s.io",
        "/run/containerd/io.containerd.grpc.v1.cri",
    ],
    mount_folders: &["io.containerd.", "tmpmounts"],
    own_mounts: &[],
    ports: &[],
    namespaces: &["cni-"],
    packaged: &[],
    keeper: Some(Keeper {
        program: "containerd-shim",
        // Containers in other namespaces (`moby`, `default`) are left alone.
        of_kubelet: Some(("-namespace", "k8s.io")),
        shared_with: ("dockerd", "docker"),
        otherwise: "containerd",
    }),
};
