//! Texts about a plan and about the end of a run.

pub mod addons;
pub mod adoption;
pub mod certificates;
pub mod cluster_facts;
pub mod drift;
pub mod ended;
pub mod out_of_reach;
pub mod pipelines;
pub mod registry;
pub mod requests;
pub mod summary;
mod table;
