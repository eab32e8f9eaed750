//! From a bundle and a cluster.yaml to a plan that was checked: each stage takes what the one before it gives.
//!
//! ```text
//! Opened::open ─check_closed_world→ Access ─verify→ Fleet::connect ─facts→ preflight ─→ planning ─→ CheckedPlan
//! ```

pub mod access;
pub mod blobs;
pub mod cluster_file;
pub mod findings;
pub mod fleet;
pub mod mesh;
pub mod named;
pub mod opened;
pub mod packages;
pub mod plan_file;
pub mod planning;
mod repository;
mod site_key;
pub mod summary;
pub mod trust;
mod verified;
