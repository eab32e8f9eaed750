//! Packages as the builder resolves them (repositories served on loopback, apt as the referee), and the builder as a library.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod apt_referee;
mod network_charts;
mod operator;
mod packages;
mod session;
mod verbs;
