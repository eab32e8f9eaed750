//! The key that signs a cluster's package repositories: OpenPGP, RSA, in the cluster's pki folder.

use std::io::ErrorKind;

use kubexm_packages::trust::{SignError, SiteKey};

use crate::error::SessionError;
use crate::files;
use crate::home::ClusterHome;

/// Sufficient beyond 2030 (NIST SP 800-57), and generated in a second or two.
const BITS: u32 = 3072;

/// Its file.
pub const FILE: &str = "packages-key.asc";

/// Reads the key, or generates and stores it, readable by its owner only.
pub fn open(home: &ClusterHome) -> Result<SiteKey, SessionError> {
    let path = home.pki().join(FILE);
    let failed = |error: SignError| SessionError::SiteKey { path: path.clone(), error };
    match std::fs::read(&path) {
        Ok(bytes) => SiteKey::read(&zeroize::Zeroizing::new(bytes), None).map_err(failed),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = SiteKey::generate(&format!("KubeXM, packages of cluster {}", home.name), BITS).map_err(failed)?;
            files::write_private(&path, key.secret().map_err(failed)?.as_bytes())?;
            Ok(key)
        }
        Err(error) => Err(SessionError::disk("read", &path, &error)),
    }
}
