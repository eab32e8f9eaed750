//! A fresh host in a directory, and trees to compare: those of the crate's fakes.
#![allow(unused_imports, reason = "each test file uses its part")]

pub use kubexm_ops::fake::host::{Host, archive, same};
