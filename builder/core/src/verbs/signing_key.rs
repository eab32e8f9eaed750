//! What signs: a private key, or a program that has one.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use kubexm_archive::Signature;
use kubexm_signing::external::Signer as Program;
use kubexm_signing::{PrivateKey, PublicKey, files};
use kubexm_spec::{Digest, ExitCode, SignedAt, error_chain};

use crate::hand_over::{Sign, Signer};
use crate::session::{Session, SessionError};

/// Seconds that a program may take to sign, unless it is given others.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Where a key is, if anything is to be signed.
#[derive(Clone, Debug)]
pub struct KeySource {
    /// A file of a private key.
    pub key: Option<PathBuf>,
    /// A variable of the environment that holds one.
    pub key_env: Option<String>,
    /// A program that signs, with its arguments, the public key of what it signs with, and the time that it may take.
    pub signer: Option<PathBuf>,
    pub signer_args: Vec<OsString>,
    pub public_key: Option<PathBuf>,
    pub timeout: Duration,
    /// A file with the password of the key.
    pub password_file: Option<PathBuf>,
    /// The number that a site counts up.
    pub sequence: Option<u64>,
    /// When it is signed, in seconds of Unix time; the session's clock when none.
    pub date: Option<i64>,
}

/// A key that was opened.
pub enum Key {
    /// In memory.
    Private(Box<PrivateKey>),
    /// A program has it.
    Program(Program, Box<PublicKey>),
}

impl KeySource {
    /// Opens it, if one is named: before any work, so that a wrong password is reported at once.
    pub fn open(&self) -> Result<Option<Key>, SessionError> {
        let password = self.password_file.as_deref();
        let private = |key| Some(Key::Private(Box::new(key)));
        Ok(match (&self.key, &self.key_env, &self.signer, &self.public_key) {
            (Some(path), ..) => private(files::private_key(path, password)?),
            (None, Some(variable), ..) => private(files::private_key_from_env(variable, password)?),
            (None, None, Some(program), Some(public)) => {
                let public = files::public_key(public)?;
                let (program, arguments) = (program.clone(), self.signer_args.clone());
                let program = Program { program, arguments, timeout: self.timeout };
                program.check()?;
                Some(Key::Program(program, Box::new(public)))
            }
            _ => None,
        })
    }

    /// What a signature by it says of when. Where nothing is to be signed it is not used.
    pub fn signed_at(&self, session: &Session) -> Result<SignedAt, SessionError> {
        let has_key = self.key.is_some() || self.key_env.is_some() || self.signer.is_some();
        if self.sequence.is_some() && !has_key {
            let text = "--sequence is part of a signature: give --key, --key-env or --signer";
            return Err(SessionError::refused(ExitCode::Usage, text));
        }
        Ok(SignedAt { date: self.date.unwrap_or_else(|| session.now()), sequence: self.sequence })
    }
}

impl Key {
    fn public(&self) -> PublicKey {
        match self {
            Self::Private(key) => key.public(),
            Self::Program(_, public) => (**public).clone(),
        }
    }

    /// What signatures by it call it.
    pub fn id(&self) -> String {
        self.public().id().to_string()
    }

    /// sha256 of the public key in DER, as `openssl pkey -pubin -outform DER | sha256sum` prints it.
    pub fn fingerprint(&self) -> String {
        Digest::of(self.public().to_spki()).hex()
    }

    /// Signs.
    pub fn sign(&self, bytes: &[u8]) -> Result<Signature, SessionError> {
        Ok(match self {
            Self::Private(key) => key.sign(bytes),
            Self::Program(program, public) => program.sign(bytes, public)?,
        })
    }

    /// The same, with the exit code of what goes wrong.
    pub(super) fn sign_or_code(&self, bytes: &[u8]) -> Result<Signature, (ExitCode, String)> {
        self.sign(bytes).map_err(|error| (error.exit_code(), error_chain(&error)))
    }

    /// For [`crate::hand_over`].
    pub(super) fn signer<'a>(&self, sign: &'a Sign<'a>) -> Signer<'a> {
        Signer { key_id: self.id(), public_pem: self.public().to_pem(), sign }
    }
}
