//! One file for each pipeline; each reads as a table of contents.

pub mod create;
pub mod join;
pub mod reset;
