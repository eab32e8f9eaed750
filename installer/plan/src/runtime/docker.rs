//! dockerd with a containerd of its own, and cri-dockerd before it.

use kubexm_spec::cluster::RuntimeKind;

use super::traits::{Keeper, RuntimeTraits};

/// Name of its engine's process.
pub const DAEMON: &str = "dockerd";
/// Folders of an engine: configuration and key, images and containers.
pub const FOLDERS: [&str; 2] = ["/etc/docker", "/var/lib/docker"];
/// The unit of the CRI before it.
pub const CRI_UNIT: &str = "cri-docker.service";
/// The program of that unit, in a folder of its own: docker's archive owns every file of its folder.
pub const CRI_PROGRAM: &str = "/usr/local/lib/kubexm-cri-dockerd/cri-dockerd";
/// Docker's own socket, where programs of hosts and pods look for it.
pub const SOCKET: &str = "/run/docker.sock";
/// State of containers that run: apart from that of any other docker, by whose arguments a supervisor is known as kubexm's.
pub const EXEC_ROOT: &str = "/run/kubexm-docker";
/// What else is written: folders of its containerd, wherever that is configured to have its own; sockets, which a process that is killed leaves.
pub const WRITTEN: [&str; 4] = ["/opt/containerd", "/run/containerd", "/run/cri-dockerd.sock", SOCKET];

pub(super) const TRAITS: RuntimeTraits = RuntimeTraits {
    kind: RuntimeKind::Docker,
    unit: "docker.service",
    other_units: &[CRI_UNIT],
    daemons: &[DAEMON, "cri-dockerd"],
    endpoint: "unix:///run/cri-dockerd.sock",
    // Its archive contains a containerd and a runc, which must not replace those of the distribution or the bundle.
    programs: Some("/usr/local/lib/kubexm-docker"),
    config: "/etc/docker/daemon.json",
    drop_ins: None,
    // One folder for each registry, with its CA.
    registries: "/etc/docker/certs.d",
    // The engine writes a key beside its configuration, and looks for plugins in /run/docker whatever its own folders are.
    state: &[FOLDERS[0], "/run/docker", EXEC_ROOT, "/var/lib/cri-dockerd", FOLDERS[1]],
    container_mounts: &[EXEC_ROOT, "/var/lib/docker"],
    mount_folders: &["overlay2", "containers", "netns", "containerd"],
    own_mounts: &[],
    ports: &[],
    namespaces: &[],
    packaged: &[],
    keeper: Some(Keeper {
        program: "containerd-shim",
        // Every docker has its containers in the namespace `moby`.
        of_kubelet: Some(("-address", "/run/kubexm-docker/containerd/containerd.sock")),
        shared_with: (DAEMON, "docker"),
        otherwise: "containerd",
    }),
};
