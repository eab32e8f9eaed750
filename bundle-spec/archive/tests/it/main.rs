//! Bundles: written, read, damaged, forged, split, signed and read by stock tools. `memory` is a program of its own: it measures
//! the peak memory of a process that does nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod damage;
mod delta;
mod groups;
mod hostile;
mod interrupted;
mod media;
mod named;
mod references;
mod round_trip;
mod signing;
mod sources;
mod stock_tools;
mod stream;
#[path = "../support/mod.rs"]
mod support;
mod tricks;
mod vectors;
mod volumes;
