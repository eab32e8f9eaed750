//! The program as its users call it, without hosts: what it says, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod arguments;
mod backup_s3;
mod bundle;
mod help;
mod home;
mod hosts;
mod output;
mod seed;
mod site;
mod support;
mod trust;
mod unsigned;
mod version;
mod walk;
