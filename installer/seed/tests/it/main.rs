//! Bundles in real registries: Debian's docker-registry and distribution 3 (`scripts/lab build`), read back by skopeo, crane,
//! oras, cosign and helm, and behind a proxy that fails as a test says. Needs the Debian packages docker-registry and skopeo.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod bundles;
mod faults;
mod forms;
mod proxy;
mod readers;
mod refused;
mod registry;
mod resume;
mod seeded;
mod site;
mod stored;
mod web;
