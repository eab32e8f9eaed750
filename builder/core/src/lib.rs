//! The builder's stages, each taking the type that the one before it made:
//! `Requirements` → [`Resolution`] → `Lock` → [`Fetched`] → a bundle.
//!
//! Nothing here prints, asks or reads the environment: the program gives paths and takes reports.

pub mod build;
pub mod complete;
mod error;
pub mod fetch;
pub mod lock;
pub mod origins;
pub mod pack;
mod progress;
pub mod resolve;

pub use error::BuildError;
pub use fetch::Fetched;
pub use resolve::Resolution;

use kubexm_spec::event::EventKind;

/// Takes what happens; the program shows it.
pub type Report<'a> = &'a (dyn Fn(EventKind) + Send + Sync);
