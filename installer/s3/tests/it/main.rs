//! The client against a server in the process that checks every signature by its own computation, and fails on demand.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;
mod faults;
#[cfg(feature = "minio")]
mod minio;
mod refused;
mod transfers;
