//! Laws over every sample and pipeline, hostile starts, rooted preflight, the list of acts, which crate may know which, and what scripts decide. `aarch64` is a program
//! of its own: it runs what another build made.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod acts;
mod adding;
mod advice;
mod arrows;
mod golden;
mod homes;
mod hostile;
mod laws;
mod nginx_check;
mod preflight_rooted;
mod recorded;
mod samples;
mod scripts;
