//! What is read, written and refused, as the programs see it.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod input;
mod output;
