//! isulad of openEuler's packages, with the bundle's runc and crictl.
//!
//! What of it is written here and in the recipe is what its sources say (2.1.6); it has run on no host of ours.

use kubexm_spec::cluster::RuntimeKind;

use super::traits::{Keeper, RuntimeTraits};

/// The package that brings it, in every system that has one.
pub const PACKAGE: &str = "iSulad";
/// The daemon.
pub const DAEMON: &str = "/usr/bin/isulad";
/// The client, which has commands that the CRI lacks.
pub const CLIENT: &str = "isula";
/// What starts containers, by a name of kubexm's in isulad's list: `runc` itself would be whatever the search path has.
pub const RUNTIME: &str = "kubexm";
/// The program of that name.
pub const RUNC: &str = "/usr/local/lib/kubexm-isulad/runc";
/// State of containers that run.
pub const STATE: &str = "/run/isulad";
/// Files that it writes elsewhere, and leaves when it is killed.
pub const WRITTEN: [&str; 2] = ["/run/isulad.pid", "/run/isulad.sock"];

pub(super) const TRAITS: RuntimeTraits = RuntimeTraits {
    kind: RuntimeKind::Isulad,
    unit: "isulad.service",
    other_units: &[],
    daemons: &["isulad"],
    // Also /var/run/isulad.sock, where its clients look for it.
    endpoint: "unix:///run/isulad.sock",
    // runc and crictl; isulad itself is where its package puts it.
    programs: Some("/usr/local/lib/kubexm-isulad"),
    config: "/etc/isulad/daemon.json",
    drop_ins: None,
    // Nothing is pulled.
    registries: "/etc/isulad/certs.d",
    // The first is its clients'; /etc/isulad is the package's.
    state: &["/run/isula", STATE, "/var/lib/isulad"],
    container_mounts: &["/var/lib/isulad"],
    // Shared memory, root file systems.
    mount_folders: &["engines", "mnt", "storage"],
    // The folder on itself.
    own_mounts: &["/var/lib/isulad/mnt"],
    // Where pods are attached to.
    ports: &[10350],
    namespaces: &["isulacni-"],
    packaged: &["isulad", "isula", "isulad-shim"],
    keeper: Some(Keeper {
        program: "isulad-shim",
        // `isulad-shim ID BUNDLE RUNTIME info`, and for an exec its timeout.
        of_kubelet: Some((RUNC, "info")),
        shared_with: ("isulad", "isulad"),
        otherwise: "isulad",
    }),
};
