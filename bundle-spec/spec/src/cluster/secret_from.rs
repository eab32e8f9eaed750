//! What secrets are read from on the controller.

use std::borrow::Cow;
use std::path::Path;

use super::SecretSource;

/// What a secret is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretFrom<'a> {
    /// A variable or a file that holds it.
    Source(Cow<'a, SecretSource>),
    /// A file of docker's or podman's.
    Docker(DockerLogin<'a>),
}

/// A login in a file of docker's or podman's, of which the password is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DockerLogin<'a> {
    /// The file on the controller, as cluster.yaml writes it.
    pub path: &'a Path,
    /// The key of `spec.registry.auths`.
    pub registry: &'a str,
    /// Whose password it must be.
    pub username: &'a str,
}
