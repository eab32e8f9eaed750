//! What can go wrong with keys and signers.

use std::io;
use std::path::PathBuf;

use kubexm_spec::ExitCode;

/// Why a key or a signature is not available. Never holds a byte of a private key or a password.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    /// The operating system refused something.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried: `read`, `write` …
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no key where one was to be.
    #[error("{name} holds no {wanted}: {problem}")]
    NoKey {
        /// File or variable.
        name: String,
        /// `public key` or `private key`.
        wanted: &'static str,
        /// What is there instead, and what to do.
        problem: String,
    },
    /// A key of a kind that bundles are not signed with.
    #[error("{name} is {kind}: bundles are signed with ECDSA P-256 or Ed25519 keys; `kubexm-bundle keygen` makes one")]
    KindMismatch {
        /// File or variable.
        name: String,
        kind: String,
    },
    /// The private key is encrypted, and no password is at hand.
    #[error("the key in {name} is encrypted: set KUBEXM_KEY_PASSWORD, or give --password-file")]
    PasswordNeeded {
        /// File or variable.
        name: String,
    },
    /// It does not open with this password.
    #[error("the key in {name} does not open with this password")]
    WrongPassword {
        /// File or variable.
        name: String,
    },
    /// A new key is not to be protected by nothing.
    #[error("the password is empty: put one into {from}, or omit it for a key without a password")]
    EmptyPassword {
        /// Where it came from.
        from: &'static str,
    },
    /// Nothing is overwritten.
    #[error("{} exists already: choose another name; a lost key cannot be restored", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file of a key cannot be written.
    #[error(transparent)]
    Output(#[from] kubexm_files::OutputError),
    /// The environment has no such variable.
    #[error("the environment has no variable {name}")]
    NoVariable {
        /// Its name.
        name: String,
    },
    /// The machine gives no random numbers.
    #[error("this machine provides no random numbers: {problem}")]
    NoRandomness {
        /// Its answer.
        problem: String,
    },
    /// A file that was to hold signatures does not.
    #[error("{} {problem}; expected the array of signatures that `kubexm-bundle sign --detached` writes", path.display())]
    NoSignatures {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The external signer did not do it.
    #[error("the signer {program} {problem}")]
    Signer {
        /// The program, without its arguments.
        program: String,
        /// What happened, and what it said.
        problem: String,
    },
    /// What the external signer gave is no signature by the key.
    #[error(
        "the signer {program} gave {length} bytes that are not an {algorithm} signature of manifest.json by the key {key_id}; \
         nothing was stored. Wanted is the signature over the bytes on standard input (SHA-256 for ECDSA), by the key of \
         --public-key"
    )]
    ForeignResult {
        /// The program.
        program: String,
        /// How many bytes it gave.
        length: usize,
        /// What the key makes.
        algorithm: &'static str,
        /// The key of `--public-key`.
        key_id: String,
    },
}

/// Whether it is about what was named, and not about the disk.
fn is_of_input(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{FileTooLarge, IsADirectory, NotADirectory, NotFound, PermissionDenied};
    matches!(kind, NotFound | PermissionDenied | IsADirectory | NotADirectory | FileTooLarge)
}

impl SigningError {
    /// How a program ends on it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Io { source, .. } if is_of_input(source.kind()) => ExitCode::Config,
            Self::Io { .. } | Self::NoRandomness { .. } => ExitCode::Disk,
            Self::Exists { .. } => ExitCode::Usage,
            Self::Output(error) => error.exit_code(),
            Self::ForeignResult { .. } | Self::NoSignatures { .. } => ExitCode::BundleUntrusted,
            Self::NoKey { .. }
            | Self::KindMismatch { .. }
            | Self::PasswordNeeded { .. }
            | Self::WrongPassword { .. }
            | Self::EmptyPassword { .. }
            | Self::NoVariable { .. }
            | Self::Signer { .. } => ExitCode::Config,
        }
    }
}
