//! Packages of the operating system: what a host lacks of them, and what would have to be done for it. Pure.
//!
//! ```text
//! Facts, roles ─lacking→ roots that are not there ─node_plan(carried pool, what is installed)→ NodePackages ─split→ steps
//! ```

mod carried;
mod lacking;
mod node;

pub use carried::{CarriedPackages, CarriedSet, NO_PACKAGES, RepositoryFile};
pub use lacking::{Lacking, lacking};
pub use node::{Conflict, HostPackages, NodePackages, Part, Upgrade, of_host};

/// The folder of a set's repository on a host; `arch` is our word, `amd64`.
pub fn folder(os: &str, arch: kubexm_spec::Arch) -> String {
    format!("{}/{os}-{}", crate::paths::REPOSITORIES, arch.as_str())
}
