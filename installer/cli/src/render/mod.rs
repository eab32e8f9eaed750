//! What is shown of a plan and of how a run ended.

pub mod ended;
pub mod summary;
