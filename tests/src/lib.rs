//! Tests of the whole: laws, golden plans, arrows between crates, whole programs.

pub mod laws;
pub mod samples;
pub mod synthetic;
pub mod tree;
