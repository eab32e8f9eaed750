//! Debian's family: repositories, packages, versions and relations.

pub mod relation;
pub mod version;
