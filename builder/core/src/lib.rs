//! The builder's stages, each taking the type that the one before it made:
//! `Requirements` → [`Resolution`] → `Lock` → [`pack::Packing`] → a bundle; blobs are fetched and packed side by side.
//!
//! Nothing here prints, asks or reads the environment: [`session`] is the entry point.

pub mod ahead;
pub mod arrivals;
pub mod base;
pub mod build;
pub mod by_cause;
pub mod charts;
mod clock;
pub mod complete;
pub mod copy;
pub mod credentials;
pub mod diff;
mod difference;
pub mod disk;
pub mod drift;
mod error;
pub mod explain;
pub mod extract;
pub mod fetch;
pub mod flat_repo;
pub mod hand_over;
pub mod harbor;
pub mod image_signatures;
pub mod images_list;
pub mod import;
pub mod lock;
pub mod locked;
pub mod oci;
pub mod origins;
pub mod pack;
pub mod packages;
mod page;
mod places;
pub mod probe;
mod progress;
pub mod provenance;
pub mod refresh;
mod remote_size;
pub mod resolve;
mod room;
mod runtime_package;
pub mod sbom;
pub mod session;
mod shares;
pub mod sizes;
pub mod sources;
pub mod summary;
pub mod update;
pub mod verbs;

pub use difference::{Difference, What};
pub use error::BuildError;
pub use resolve::Resolution;

use kubexm_spec::event::EventKind;

/// Takes what happens; the program shows it.
pub type Report<'a> = &'a (dyn Fn(EventKind) + Send + Sync);
