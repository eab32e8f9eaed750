//! Versions, trust and solving of packages, compared with what rpm, dnf and gpg say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod deb_versions;
mod dnf_referee;
mod solve;
mod trust;
