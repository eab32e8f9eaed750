//! Packages of operating systems: what is needed for some of them, and repositories of the user's own.

pub mod key;
pub mod query;
pub mod repo;
pub mod resolve;
pub mod why;
