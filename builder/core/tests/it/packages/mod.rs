//! Repositories of Debian's family, as vendors and attackers serve them, on a server of our own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test dies of what it did not expect")]

mod loaded;
mod refused;
mod repository;
mod rpm;
pub mod server;
