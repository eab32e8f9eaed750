//! What container runtimes have on a node: units, sockets, configs, folders, processes. One file for each; preflight,
//! recipes, teardown, evidence and the simulation use only these names.

mod containerd;
pub mod cri_o;
pub mod docker;
pub mod isulad;
mod traits;

use kubexm_spec::cluster::RuntimeKind;

pub use traits::{Keeper, RuntimeTraits};

/// Every runtime that cluster.yaml can name: a host may already run any of them.
pub const ALL: [&RuntimeTraits; 4] = [&containerd::TRAITS, &docker::TRAITS, &cri_o::TRAITS, &isulad::TRAITS];

/// Those that recipes install: the remains of an earlier run are of one of them.
pub const INSTALLED: [&RuntimeTraits; 4] = ALL;

/// Those whose static pods are restarted on clusters that others have made. The programs of the others are looked for where kubexm
/// puts them.
pub const RESTARTED_AS_FOUND: [&RuntimeTraits; 1] = [&containerd::TRAITS];

/// Those into which the images of an upgrade are loaded on such clusters, from each node's own store.
pub const LOADED_AS_FOUND: [&RuntimeTraits; 1] = [&containerd::TRAITS];

/// Modules of the kernel by which a runtime reaches pods in virtual machines: hosts are asked for all of them.
pub const MODULES: [&str; 2] = ["vhost_net", "vhost_vsock"];

/// The traits of a runtime.
pub const fn of(kind: RuntimeKind) -> &'static RuntimeTraits {
    match kind {
        RuntimeKind::Containerd => &containerd::TRAITS,
        RuntimeKind::Docker => &docker::TRAITS,
        RuntimeKind::CriO => &cri_o::TRAITS,
        RuntimeKind::Isulad => &isulad::TRAITS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_runtime_has_everything_that_a_teardown_needs() {
        for runtime in INSTALLED {
            assert!(runtime.keeper.is_some_and(|keeper| keeper.of_kubelet.is_some()), "{}", runtime.unit);
            assert!(!runtime.state.is_empty() && !runtime.container_mounts.is_empty(), "{}", runtime.unit);
        }
    }
}
