//! Closures of small pools, compared with rules of both families, against a search that tries everything, and against reason.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test dies of what it did not expect")]

mod common;
mod deb;
mod installed;
mod node_plan;
mod property;
mod rpm;
