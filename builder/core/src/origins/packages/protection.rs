//! What protects an rpm repository's metadata on its way: a signature, TLS, a digest that came over TLS, or nothing but the
//! user's word.

use kubexm_transport::FileCandidate;
use serde::{Deserialize, Serialize};

use super::rpm_repository::Repository;

/// What protects metadata against somebody on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Protection {
    /// A key that the repository is trusted by.
    Signature,
    /// A list of mirrors that came over https has its digest.
    Digest,
    /// It comes over https, redirects included, or from a folder of this machine.
    Https,
    /// Nothing: it comes over plain http, and the user accepts that of this address.
    Trusted,
}

impl Protection {
    /// Of the metadata at an address; none where anybody on the network can replace it.
    pub fn of(repository: &Repository, base: &FileCandidate, has_digest: bool) -> Option<Self> {
        if repository.metadata.is_some() {
            Some(Self::Signature)
        } else if has_digest {
            Some(Self::Digest)
        } else if base.is_local() || Self::is_https(base) {
            Some(Self::Https)
        } else {
            repository.trust_unsigned.contains(&base.url).then_some(Self::Trusted)
        }
    }

    /// Whether an address begins with https.
    pub fn is_https(candidate: &FileCandidate) -> bool {
        candidate.url.starts_with("https://")
    }

    /// The same file as it must be fetched: where TLS is all there is, no redirect may lead to plain http.
    pub fn required_of(self, file: FileCandidate) -> FileCandidate {
        FileCandidate { plain_http_allowed: file.plain_http_allowed && self != Self::Https, ..file }
    }
}
