//! A strict simulated fleet behind the same [`Link`](crate::link::Link) as real hosts: for the laws, and for trying plans without hosts.
//!
//! It is stricter than a real host: it refuses what would only go wrong sometimes (two unordered steps that write one
//! path, a step that builds on what another writes and does not wait for it, a unit started without its files, a file
//! removed from a running unit, a state that contains a secret), and records every invariant that was violated at any
//! point.

mod acts;
mod aside;
mod cluster_facts;
mod depot;
mod facts;
mod failure;
mod faults;
mod fleet;
mod invariants;
mod keys;
mod link;
mod names;
mod nodes;
mod observe;
mod reset;
mod rules;
mod slots;
mod undo;
mod upgrade;
mod world;

pub use facts::facts;
pub use failure::Failure;
pub use fleet::SimFleet;
pub use kubexm_plan::Invariant;
pub use world::Snapshot;
