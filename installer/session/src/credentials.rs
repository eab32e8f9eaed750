//! Where the secrets of hosts are from.

use std::sync::Arc;

use kubexm_engine::link::ssh::{Password, Prompt};
use kubexm_spec::cluster::SecretSource;
use zeroize::Zeroizing;

use crate::home::Home;

/// Secrets for connecting to hosts. What it gives is never written to events, errors or files.
pub trait Credentials: Send + Sync {
    /// A password, by its source in cluster.yaml.
    ///
    /// # Errors
    /// A sentence for the operator that shows nothing of the secret.
    fn password(&self, source: &SecretSource, home: &Home) -> Result<Password, String>;

    /// A secret of several lines that hosts are given, whole.
    ///
    /// # Errors
    /// A sentence for the operator that shows nothing of the secret.
    fn secret(&self, source: &SecretSource, home: &Home) -> Result<Zeroizing<String>, String>;

    /// Who answers what a server asks while logging in.
    fn prompt(&self) -> Arc<dyn Prompt>;
}
