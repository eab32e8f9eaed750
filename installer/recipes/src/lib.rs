//! Recipes: pure functions from a cluster, a bundle's manifest and facts about hosts to a plan or to findings.
//!
//! Nothing here does IO: no files, network, clock, randomness or environment. A recipe can only refer to artifacts in
//! the bundle.

pub mod adoption;
mod backup_source;
pub mod balancer;
pub mod bundle;
pub mod charts;
mod clocks;
pub mod config;
pub mod context;
pub mod draft;
pub mod error;
mod fan_out;
pub mod from_backup;
mod identity;
mod image_registry;
pub mod mesh;
pub mod minors;
pub mod modules;
pub mod network;
pub mod packages;
pub mod paths;
pub mod phases;
mod pipelines;
pub mod preflight;
mod registries;
pub mod requests;
pub mod runtime;
#[cfg(any(test, feature = "testing"))]
pub mod sample;
#[cfg(any(test, feature = "testing"))]
pub mod sample_adoption;
#[cfg(any(test, feature = "testing"))]
pub mod sample_backup;
mod selinux;
mod signed;
pub mod support;
pub mod templates;
pub mod time_servers;
pub mod unsupported;
pub mod yaml;

pub use adoption::{Adoption, AdoptionInput, AdoptionItem, BundleVersions, Verdict};
pub use context::{Materials, PlanContext, PlannedHost, Sealing};
pub use error::RecipeError;
pub use identity::{Identity, NonMember};
pub use mesh::{Mesh, mesh};
pub use modules::drain::Drain;
pub use pipelines::*;
pub use preflight::{Finding, preflight, preflight_before_join, preflight_before_upgrade};
pub use signed::{SignedCertificate, SignedCertificates};
