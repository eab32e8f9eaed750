//! Packages as the builder resolves them: repositories served on loopback, and apt as the referee.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod apt_referee;
mod packages;
