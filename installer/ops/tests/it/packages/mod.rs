//! Packages by the real apt, dpkg, dnf and rpm, in roots of their own.

#![allow(clippy::expect_used, clippy::panic, reason = "the arrangement of a test: a fault here is a fault of the test")]

mod deb;
mod debs;
mod private;
mod rpm;
mod rpms;
mod seen;
