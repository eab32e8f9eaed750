//! Closures of small pools, held against rules of both families, against a search that tries everything, and against reason.

mod common;
mod deb;
mod installed;
mod node_plan;
mod property;
mod rpm;
