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
