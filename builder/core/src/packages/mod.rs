//! Packages of operating systems in locks and bundles: from where a release's repositories are read ([`Mirrors`]), what is needed of
//! them ([`Distribution::solve`]), and what a lock says of that ([`complete`]).
//!
//! A lock is trusted without asking an index: it has each package by digest, what the set was solved for, and from what.

mod address;
mod complete;
mod distribution;
mod held;
mod locked;
mod medium;
mod mirrors;
mod probe;

pub(crate) use address::own;
pub use complete::{Work, complete};
pub use distribution::{Distribution, Solved};
pub(crate) use held::Held;
pub(crate) use locked::{chain, drift, needed, roots, unsigned};
pub(crate) use medium::places_of;
pub use mirrors::{Mirrors, WrongMirror};
pub use probe::{ProbedRepository, Repositories, probe_repositories};
