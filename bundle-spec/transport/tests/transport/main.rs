//! Transfer against real registries, a server that breaks in every way we know, and a disk that fills up.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test dies of what it did not expect")]

mod attached;
mod checksums;
mod concurrent;
mod conditional;
mod disk;
mod fake_registry;
mod faults;
mod gc;
mod identity;
mod images;
mod kill;
mod limits;
mod medium;
mod mirrors;
mod open_uploads;
mod push;
mod range;
mod registries;
mod registry_files;
mod server;
mod store;
mod support;
mod tokens;
mod waiting;
