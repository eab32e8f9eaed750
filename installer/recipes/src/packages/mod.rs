//! Operating system packages: what a host is missing, and what has to be installed for it. Pure.
//!
//! ```text
//! Facts, roles ─missing_roots→ missing roots ─node_plan(carried pool, what is installed)→ NodePackages ─split→ steps
//! ```

mod carried;
mod missing_roots;
mod node;
mod older;
mod served;

pub(crate) use carried::family;
pub use carried::{CarriedPackages, CarriedSet, NO_PACKAGES, RepositoryFile};
pub use missing_roots::{CannotInstall, missing_roots};
pub use node::{Conflict, NodePackages, Part, Upgrade, of_host};
pub use older::{OlderPackages, older};
pub use served::{DepotUse, PUBLIC_KEY, VENDOR_KEYS, served};

/// The folder of a set's repository on a host; `arch` in Go's naming, `amd64`.
pub fn folder(os: &str, arch: kubexm_spec::Arch) -> String {
    format!("{}/{}", crate::paths::REPOSITORIES, name(os, arch))
}

/// The name of a set's repository: `debian-12-amd64`.
pub fn name(os: &str, arch: kubexm_spec::Arch) -> String {
    format!("{os}-{}", arch.as_str())
}
