//! The sources of secrets for hosts.

use std::path::Path;
use std::sync::Arc;

use kubexm_engine::link::ssh::{Password, Prompt};
use kubexm_spec::cluster::{DockerLogin, SecretSource};
use zeroize::Zeroizing;

use crate::home::Home;

/// Reads secrets for connecting to hosts. They must never appear in events, errors or files.
pub trait Credentials: Send + Sync {
    /// Reads a password from its source in cluster.yaml.
    ///
    /// # Errors
    /// A sentence for the operator that does not contain the secret.
    fn password(&self, source: &SecretSource, home: &Home) -> Result<Password, String>;

    /// Reads a complete secret of several lines that is stored on hosts.
    ///
    /// # Errors
    /// A sentence for the operator that does not contain the secret.
    fn secret(&self, source: &SecretSource, home: &Home) -> Result<Zeroizing<String>, String>;

    /// Reads the password of a login from a file of docker's or podman's, or from a helper that this names.
    ///
    /// # Errors
    /// A sentence for the operator that shows nothing of the file.
    fn docker_password(&self, login: &DockerLogin<'_>, home: &Home) -> Result<Zeroizing<String>, String>;

    /// The passphrase of an identity file ([`crate::Home::identity`]) that is encrypted.
    ///
    /// # Errors
    /// A sentence for the operator that does not contain the secret.
    fn passphrase(&self, file: &Path) -> Result<Zeroizing<String>, String>;

    /// A passphrase to encrypt it with; a person types it twice.
    ///
    /// # Errors
    /// A sentence for the operator that does not contain the secret.
    fn new_passphrase(&self, file: &Path) -> Result<Zeroizing<String>, String>;

    /// Answers questions of a server during login.
    fn prompt(&self) -> Arc<dyn Prompt>;
}
