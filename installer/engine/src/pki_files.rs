//! Certificates with their keys, as they are sealed.

use std::collections::BTreeMap;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

/// The CA of the registry, which every cluster has.
pub(crate) const REGISTRY_CA: &str = "registry-ca.pem";

/// Certificates with their keys (PEM), by the name of their file in the pki folder.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PkiFiles(pub(crate) BTreeMap<String, String>);

/// What is wrong with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// The CA of the registry is not among them.
    NoCa,
    /// The key in this file is not the one of its certificate.
    Key(String),
}

impl Drop for PkiFiles {
    fn drop(&mut self) {
        self.0.values_mut().for_each(Zeroize::zeroize);
    }
}

impl PkiFiles {
    /// Digests of the certificates, without their keys.
    pub fn certificates(&self) -> BTreeMap<String, Digest> {
        let certificates = |text: &String| Digest::of(crate::pem::certificates(text));
        self.0.iter().map(|(name, text)| (name.clone(), certificates(text))).collect()
    }

    /// Refuses a file whose key is not the one of its certificate, and files without the CA of the registry. Certificates are
    /// public: whoever seals them with the key that belongs to the CA's has had what was sealed.
    pub(crate) fn check_keys(&self) -> Result<(), Misfit> {
        if !self.0.contains_key(REGISTRY_CA) {
            return Err(Misfit::NoCa);
        }
        match self.0.iter().find(|(_, text)| !crate::pem::fits(text)) {
            Some((name, _)) => Err(Misfit::Key(name.clone())),
            None => Ok(()),
        }
    }
}

/// A file of the pki folder that is sealed: certificates of an authority, with their key. The name may come from a host.
pub(crate) fn is_pki_file(name: &str) -> bool {
    let authority = ["registry-", "etcd-"].iter().any(|prefix| name.starts_with(prefix));
    authority && name.ends_with(".pem") && crate::files::plain_name(name) == name
}

#[cfg(test)]
mod tests {
    use super::is_pki_file;

    #[test]
    fn a_file_from_a_host_stays_in_the_folder() {
        for name in
            ["../registry-ca.pem", "registry-/../../x.pem", "registry-ca", "authorities.json", "known_hosts", ""]
        {
            assert!(!is_pki_file(name), "{name}");
        }
        assert!(is_pki_file("registry-ca.pem") && is_pki_file("registry-server-registry-cert.pem"));
    }
}
