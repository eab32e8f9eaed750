//! What is asked of signatures.

use pgp::crypto::hash::HashAlgorithm;

/// Clocks may differ by this many seconds.
const SKEW: i64 = 600;

/// What is asked of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The time, in seconds of Unix time.
    pub now: i64,
    /// Signatures over SHA-1 are taken. MD5 never is.
    pub sha1: bool,
    /// A key that has expired since it made the signature is taken: what is signed once and never again (packages) outlives keys.
    pub expired_keys: bool,
}

impl Policy {
    /// What holds of repositories of today, at a time in seconds of Unix time.
    pub const fn at(now: i64) -> Self {
        Self { now, sha1: false, expired_keys: false }
    }

    /// What holds of packages: signed once, and taken for as long as there are.
    #[must_use]
    pub const fn of_packages(self) -> Self {
        Self { expired_keys: true, ..self }
    }

    /// The latest that something can have been made, in seconds of Unix time.
    pub(super) const fn latest(&self) -> i64 {
        self.now.saturating_add(SKEW)
    }
}

/// Whether a digest cannot be forged.
pub(super) fn strong(digest: HashAlgorithm, policy: &Policy) -> bool {
    use HashAlgorithm as H;
    match digest {
        H::Sha224 | H::Sha256 | H::Sha384 | H::Sha512 | H::Sha3_256 | H::Sha3_512 => true,
        H::Sha1 => policy.sha1,
        _ => false,
    }
}
