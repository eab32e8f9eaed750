//! Debian's family: repositories, packages, versions and relations.

pub mod archive;
pub mod control;
pub mod index;
pub mod listing;
pub mod publish;
pub mod relation;
pub mod release;
pub mod status;
pub mod version;
