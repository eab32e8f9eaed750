//! Why nothing can be signed.

/// Why something cannot be signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// What should be a secret key is something else.
    #[error("it is not an OpenPGP secret key: {why}; export one with gpg --export-secret-keys --armor FINGERPRINT")]
    NotAKey {
        /// What the reader says.
        why: String,
    },
    /// There are several keys, and nothing says which is meant.
    #[error("it holds {0} secret keys; export the one that is to sign")]
    SeveralKeys(usize),
    /// No part of the key may sign.
    #[error("the key {0} is not one that signs content, or only its public part is here")]
    NotForSigning(String),
    /// All parts of the key that could sign have expired or were revoked.
    #[error("the key {key} may not sign now: {why}")]
    Spent {
        /// The key.
        key: String,
        /// Of each part what is with it, and what can be done.
        why: String,
    },
    /// The key is locked, and no password was given.
    #[error(
        "the key {0} is locked: give its password with --password-file FILE, or in the variable KUBEXM_KEY_PASSWORD"
    )]
    NeedsPassword(String),
    /// The key is locked with another password.
    #[error("the key {0} cannot be unlocked with this password")]
    Locked(String),
    /// The key cannot be made or cannot sign.
    #[error("OpenPGP: {0}")]
    OpenPgp(String),
}

impl SignError {
    /// The exit code of a program that ends with it.
    pub const fn exit_code(&self) -> kubexm_spec::ExitCode {
        match self {
            Self::OpenPgp(_) => kubexm_spec::ExitCode::Internal,
            _ => kubexm_spec::ExitCode::Config,
        }
    }
}
