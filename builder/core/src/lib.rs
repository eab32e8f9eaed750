//! The builder's stages, each taking the type that the one before it made:
//! `Requirements` → [`Resolution`] → `Lock` → [`pack::Packing`] → a bundle; blobs are fetched and packed side by side.
//!
//! Nothing here prints, asks or reads the environment: the program gives paths and takes reports.

mod arrivals;
pub mod base;
pub mod build;
pub mod complete;
pub mod copy;
pub mod diff;
pub mod disk;
mod error;
pub mod extract;
pub mod fetch;
pub mod hand_over;
pub mod lock;
pub mod oci;
pub mod origins;
pub mod pack;
mod progress;
pub mod provenance;
pub mod resolve;
pub mod sbom;

pub use error::BuildError;
pub use resolve::Resolution;

use kubexm_spec::event::EventKind;

/// Takes what happens; the program shows it.
pub type Report<'a> = &'a (dyn Fn(EventKind) + Send + Sync);
