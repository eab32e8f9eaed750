//! Why something is not trusted.

use kubexm_spec::ExitCode;

use crate::deb::release::format_date;

/// Why something is not trusted. Keys are named by their fingerprint or, where a signature has nothing better, their
/// key id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// What should be public keys is something else.
    #[error("these are not OpenPGP public keys: {why}; export them with gpg --export --armor")]
    NotKeys {
        /// What the reader says.
        why: String,
    },
    /// Keys that are pinned are not among the given ones.
    #[error("no public key with the pinned fingerprint {}; the keys given are {}", list(.wanted), list(.has))]
    MissingKeys {
        /// Fingerprints.
        wanted: Vec<String>,
        /// Fingerprints.
        has: Vec<String>,
    },
    /// There is no clear-signed text, or not only one.
    #[error("it is not clear-signed text: {why}; is it what a proxy or a login page sends instead?")]
    NotClearsigned {
        /// What is wrong with it.
        why: String,
    },
    /// What should be a signature is something else.
    #[error("it is not an OpenPGP signature: {why}")]
    NotASignature {
        /// What the reader says.
        why: String,
    },
    /// It is signed by an unknown key.
    #[error(
        "it is signed by {}, not by a key that is trusted here ({}); if the vendor has changed keys, add the new one", list(.found), list(.known)
    )]
    NoSignatureOfAKnownKey {
        /// Key ids or fingerprints that the signatures name.
        found: Vec<String>,
        /// Fingerprints of the primary keys that are trusted.
        known: Vec<String>,
    },
    /// The signature of a trusted key does not fit: the content was changed after it was signed.
    #[error(
        "the signature by {key} does not fit: the content was changed, or cut off, after it was signed; try again, or another mirror"
    )]
    BadSignature {
        /// Key of the signer.
        key: String,
    },
    /// The key has expired.
    #[error("the key {key} expired on {}; a newer keyring of the distribution may extend it", format_date(*.at))]
    Expired {
        key: String,
        /// When, in seconds of Unix time.
        at: i64,
    },
    /// The signature itself was limited in time.
    #[error("the signature by {key} expired on {}", format_date(*.at))]
    SignatureExpired {
        /// Key of the signer.
        key: String,
        /// When, in seconds of Unix time.
        at: i64,
    },
    /// The key's owner has revoked it.
    #[error("the key {key} was revoked by its owner; nothing that it signed is trusted")]
    Revoked { key: String },
    /// The digest can be forged.
    #[error("the signature by {key} is over {digest}, which can be forged; nothing weaker than SHA-224 is accepted")]
    WeakDigest {
        /// Key of the signer.
        key: String,
        /// `SHA1`, `MD5`.
        digest: String,
    },
    /// The key can be broken.
    #[error("the key {key} is too weak: {what}")]
    WeakKey {
        key: String,
        /// `RSA of 1024 bits`.
        what: String,
    },
    /// The key is for something else.
    #[error("the key {key} is not one for signing content: its owner made it for something else")]
    NotForSigning { key: String },
    /// Nothing says that the key belongs to the certificate it is in.
    #[error("nothing valid binds the key {key} to its owner's primary key")]
    NotBound { key: String },
    /// It says it was made later than now, or before its key was.
    #[error(
        "the signature by {key} states that it was made on {}, which cannot be; is this machine's clock right?", format_date(*.made)
    )]
    ImpossibleTime {
        /// Key of the signer.
        key: String,
        /// When, in seconds of Unix time.
        made: i64,
    },
    /// Nothing signs it, or not all of it.
    #[error("it carries no signature over all that is in it")]
    NotSigned,
    /// The payload of an .rpm has another digest than its header says.
    #[error(
        "its payload is not the one that its header names: it was changed, or cut off; try again, or another mirror"
    )]
    PayloadDiffers,
    /// It cannot be read to its end.
    #[error("it cannot be read: {why}")]
    Unreadable {
        /// What the system says.
        why: String,
    },
    /// More than anybody makes.
    #[error("it has more than {limit} signatures, which nobody makes of one content")]
    TooManySignatures { limit: usize },
    /// More than any repository sends.
    #[error("it has {size} bytes, more than the {limit} that are read of such a file")]
    TooLarge {
        /// In bytes.
        size: usize,
        /// In bytes.
        limit: usize,
    },
}

impl TrustError {
    /// The exit code of a program that ends with it.
    pub const fn exit_code(&self) -> ExitCode {
        match self {
            Self::NotKeys { .. } | Self::MissingKeys { .. } => ExitCode::Config,
            _ => ExitCode::OriginMismatch,
        }
    }

    /// Of several signatures none was good: the one with the highest number says most about what happened.
    pub(super) const fn weight(&self) -> u8 {
        match self {
            Self::BadSignature { .. } => 9,
            Self::Revoked { .. } => 8,
            Self::Expired { .. } => 7,
            Self::SignatureExpired { .. } => 6,
            Self::WeakDigest { .. } | Self::WeakKey { .. } => 5,
            Self::NotForSigning { .. } | Self::NotBound { .. } => 4,
            Self::ImpossibleTime { .. } => 3,
            Self::NotSigned => 0,
            _ => 1,
        }
    }
}

fn list(all: &[String]) -> String {
    if all.is_empty() { "nobody".to_owned() } else { all.join(", ") }
}
