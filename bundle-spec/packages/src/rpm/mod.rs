//! Red Hat's family: repositories, packages, versions and relations.

pub mod dependency;
pub mod file;
pub mod filelists;
pub mod header;
pub mod held;
pub mod installed;
pub mod mirrors;
pub mod modules;
pub mod primary;
pub mod publish;
pub mod repomd;
pub mod streams;
pub mod tag;
pub mod version;
mod xml;

pub use xml::DocumentError;

/// Whether a package may be installed where `native` is the machine's own: its own architecture, or none. i686 beside x86_64
/// is foreign.
pub fn fits(native: &str, arch: &str) -> bool {
    arch == native || arch == "noarch"
}
