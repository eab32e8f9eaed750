//! The depot as a client sees it: over TLS, by a real HTTP client that trusts only the cluster's registry CA.

#![allow(clippy::unwrap_used, reason = "a test: what cannot be made ready fails it")]

mod conditions;
mod login;
mod packages;
mod serve;
mod site;
