//! Red Hat's family: repositories, packages, versions and relations.

pub mod dependency;
pub mod version;
