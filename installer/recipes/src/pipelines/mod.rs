//! One file for each pipeline; each reads as a table of contents.

pub mod add_node;
pub mod create;
pub mod reset;
