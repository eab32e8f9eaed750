//! What both programs share: types and pure functions over them. No IO, no clock, no environment.
//!
//! The stages of a bundle are types (`Cluster` → `Lock` → `Manifest`); each names things by digest.

#![warn(missing_docs)]

pub mod artifact;
mod by_artifact;
pub mod cluster;
mod count;
pub mod credential;
pub mod depot;
pub mod digest;
mod encoding;
mod error_chain;
pub mod event;
pub mod exit;
mod family;
pub mod inventory;
pub mod json;
pub mod keywords;
pub mod lock;
pub mod manifest;
pub mod names;
pub mod platform;
mod printable;
pub mod reference;
pub mod rendering;
pub mod sources;
pub mod statement;
pub mod tar_headers;
pub mod unsupported;
mod version;
pub mod yaml;

pub use artifact::{ArtifactKey, ClusterImage, Kind, Program, Trust};
pub use by_artifact::ByArtifact;
pub use cluster::Cluster;
pub use count::{amount, amount_needed, counted, counted_of};
pub use digest::Digest;
pub use encoding::{from_utf16, not_utf8};
pub use error_chain::error_chain;
pub use exit::{ExitCode, ExitError};
pub use family::Family;
pub use lock::{Lock, PackageRole};
pub use manifest::Manifest;
pub use platform::{Arch, Platform};
pub use printable::{on_one_line, one_line, printable};
pub use reference::Reference;
pub use rendering::Rendering;
pub use sources::Sources;
pub use statement::{SignedAt, Statement};
pub use version::{KubernetesVersion, NotAVersion, Version};
