//! What a lock says of the signature of an image.

use serde::{Deserialize, Serialize};

use crate::Digest;

/// How an image satisfies `spec.bundle.imageSignatures`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignatureCheck {
    /// The name in the rule that decided: `registry.k8s.io`, `*`.
    pub rule: String,
    /// The signature that satisfies it; none where the rule accepts any image, and nothing was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<ImageSignature>,
}

/// A signature that was verified.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageSignature {
    /// What it signs: what the tag points at. If that is an index, every manifest in it is meant.
    pub subject: Digest,
    /// The manifest that carries it, one of the image's referrers.
    pub manifest: Digest,
    /// The layer of that manifest with what was signed.
    pub layer: Digest,
    /// Whose it is.
    pub signer: ImageSigner,
}

/// Who signed an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum ImageSigner {
    /// Whoever has this key.
    Key {
        /// The file, as cluster.yaml names it.
        file: String,
        /// sha256 of the key (SubjectPublicKeyInfo in DER).
        key: Digest,
    },
    /// Whom a certificate of Sigstore is for.
    Identity {
        /// The OpenID Connect issuer.
        issuer: String,
        /// Mail address or URL.
        subject: String,
        /// When the transparency log took it in, in seconds of Unix time.
        logged: i64,
    },
}

impl std::fmt::Display for ImageSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key { file, key } => write!(f, "key {file} ({})", key.short()),
            Self::Identity { issuer, subject, .. } => write!(f, "{subject} ({issuer})"),
        }
    }
}

impl std::fmt::Display for SignatureCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.signature {
            Some(signature) => write!(f, "signed by {}", signature.signer),
            None => write!(f, "signature not checked: the rule for {} accepts any image", self.rule),
        }
    }
}
