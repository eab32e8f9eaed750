//! The key that signs the repositories of packages of a cluster: OpenPGP, RSA, in the cluster's pki folder.

use std::io::ErrorKind;

use kubexm_packages::trust::{SignError, SiteKey};
use kubexm_terminal::Failure;

use crate::support::home::ClusterHome;
use crate::support::{failures, files};

/// Enough until 2030 and beyond (NIST SP 800-57), and made in a second or two.
const BITS: u32 = 3072;

/// Reads the key, or makes it and keeps it, readable by its owner only.
pub fn open(home: &ClusterHome) -> Result<SiteKey, Failure> {
    let path = home.pki().join("packages-key.asc");
    let failed = |error: SignError| Failure::new(error.exit_code(), format!("{}: {error}", path.display()));
    match std::fs::read(&path) {
        Ok(bytes) => SiteKey::read(&zeroize::Zeroizing::new(bytes), None).map_err(failed),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = SiteKey::generate(&format!("KubeXM, packages of cluster {}", home.name), BITS).map_err(failed)?;
            files::write_private(&path, key.secret().map_err(failed)?.as_bytes())?;
            Ok(key)
        }
        Err(error) => Err(failures::disk("read", &path, &error)),
    }
}
