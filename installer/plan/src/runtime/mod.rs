//! What container runtimes are on a node: units, sockets, configs, folders, processes. One file for each; preflight,
//! recipes, teardown, evidence and the simulation take every such name from here.

mod containerd;
mod cri_o;
mod docker;
mod isulad;
mod traits;

use kubexm_spec::cluster::RuntimeKind;

pub use traits::{Keeper, RuntimeTraits};

/// Every runtime of the format: a host may run any of them already.
pub const ALL: [&RuntimeTraits; 4] = [&containerd::TRAITS, &docker::TRAITS, &cri_o::TRAITS, &isulad::TRAITS];

/// Those that recipes install: what an earlier run left is of one of them.
pub const INSTALLED: [&RuntimeTraits; 1] = [&containerd::TRAITS];

/// Those of a kind.
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
    fn of_a_runtime_that_is_installed_all_is_known_that_a_teardown_needs() {
        for runtime in INSTALLED {
            assert!(runtime.keeper.is_some_and(|keeper| keeper.of_kubelet.is_some()), "{}", runtime.unit);
            assert!(!runtime.state.is_empty() && !runtime.container_mounts.is_empty(), "{}", runtime.unit);
        }
    }
}
