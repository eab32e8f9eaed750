//! A key pair that bundles are signed with.

use std::path::{Path, PathBuf};

use kubexm_signing::{Algorithm, PrivateKey, files};
use serde::Serialize;

use crate::session::SessionError;

/// A pair that was written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyPair {
    schema: &'static str,
    pub key_id: String,
    pub algorithm: &'static str,
    pub private_key: PathBuf,
    pub public_key: PathBuf,
    pub encrypted: bool,
}

/// Makes `NAME.key` and `NAME.pub`; nothing is overwritten.
pub fn keygen(name: &Path, algorithm: Algorithm, password_file: Option<&Path>) -> Result<KeyPair, SessionError> {
    let password = files::new_password(password_file)?;
    let key = PrivateKey::generate(algorithm)?;
    let (private_key, public_key) = files::write_pair(name, &key, password.as_ref())?;
    Ok(KeyPair {
        schema: "kubexm.io/keygen/v1",
        key_id: key.public().id().to_string(),
        algorithm: key.algorithm().name(),
        private_key,
        public_key,
        encrypted: password.is_some(),
    })
}
