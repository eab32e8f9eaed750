//! A bundle, its signers, and which cluster.yaml is used.

pub mod blobs;
pub mod cluster_file;
pub mod cluster_source;
pub mod installed;
pub mod inventory;
mod lock;
mod materials;
mod network_manifest;
pub mod opened;
pub mod packages;
pub mod plan_file;
pub mod replace;
mod repository;
mod site_key;
pub mod trust;
mod values_files;
mod verified;

pub(crate) use site_key::FILE as SITE_KEY;
