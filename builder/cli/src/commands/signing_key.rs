//! `--key`, `--key-env` or `--signer` where a signature may be asked for and need not be.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use kubexm_archive::Signature;
use kubexm_builder::hand_over::Signer;
use kubexm_builder::session::Session;
use kubexm_signing::external::Signer as Program;
use kubexm_signing::{PrivateKey, PublicKey, files};
use kubexm_spec::statement::MAX_SEQUENCE;
use kubexm_spec::{ExitCode, SignedAt};
use kubexm_terminal::Failure;

use super::trust::failure;

/// What signs, if anything.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct KeyArgs {
    /// File with the private key that signs: PKCS#8 (also encrypted), "EC PRIVATE KEY", or a key of cosign
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_env", "signer"])]
    key: Option<PathBuf>,
    /// Variable of the environment that holds the private key
    #[arg(long, value_name = "VARIABLE", conflicts_with = "signer")]
    key_env: Option<String>,
    /// Program that signs: the bytes of the statement on standard input, the signature on standard output
    #[arg(long, value_name = "PROGRAM", requires = "public_key")]
    signer: Option<PathBuf>,
    /// Argument of the program of --signer; may be given several times
    #[arg(long, value_name = "ARGUMENT", requires = "signer", conflicts_with_all = ["key", "key_env"], allow_hyphen_values = true)]
    signer_arg: Vec<OsString>,
    /// The public key of what --signer signs with
    #[arg(long, value_name = "FILE", requires = "signer", conflicts_with_all = ["key", "key_env"])]
    public_key: Option<PathBuf>,
    /// File with the password of the key [default: KUBEXM_KEY_PASSWORD of the environment]
    #[arg(long, value_name = "FILE", conflicts_with = "signer")]
    password_file: Option<PathBuf>,
    /// Number that all who sign for a site count up, such as that of a CI run: the larger one is the newer bundle, whatever the
    /// dates say. A cluster that has a bundle with one takes none without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=MAX_SEQUENCE))]
    sequence: Option<u64>,
}

/// Seconds that a program may take to sign.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A key that was opened.
pub enum Key {
    /// In memory.
    Private(Box<PrivateKey>),
    /// A program has it.
    Program(Program, Box<PublicKey>),
}

impl KeyArgs {
    /// Opens it, if one is named: before any work, so that a wrong password is reported at once.
    pub fn open(&self) -> Result<Option<Key>, Failure> {
        self.open_with(&[], TIMEOUT)
    }

    /// What a signature by it says of when. Where nothing is to be signed it is not used.
    pub fn signed_at(&self, session: &Session) -> Result<SignedAt, Failure> {
        let keys = [self.key.is_some(), self.key_env.is_some(), self.signer.is_some()];
        if self.sequence.is_some() && !keys.contains(&true) {
            return Err(Failure::new(
                ExitCode::Usage,
                "--sequence is part of a signature: give --key, --key-env or --signer",
            ));
        }
        Ok(SignedAt { date: date(session)?, sequence: self.sequence })
    }

    /// The same, with more arguments for the program, and the time that it may take.
    pub fn open_with(&self, more: &[OsString], timeout: Duration) -> Result<Option<Key>, Failure> {
        let password = self.password_file.as_deref();
        let private = |key| Some(Key::Private(Box::new(key)));
        match (&self.key, &self.key_env, &self.signer, &self.public_key) {
            (Some(path), ..) => files::private_key(path, password).map(private),
            (None, Some(variable), ..) => files::private_key_from_env(variable, password).map(private),
            (None, None, Some(program), Some(public)) => files::public_key(public).and_then(|public| {
                let arguments = [&self.signer_arg, more].concat();
                let program = Program { program: program.clone(), arguments, timeout };
                program.check()?;
                Ok(Some(Key::Program(program, Box::new(public))))
            }),
            _ => Ok(None),
        }
        .map_err(failure)
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
        kubexm_spec::Digest::of(self.public().to_spki()).hex()
    }

    /// Signs, with the exit code of what goes wrong.
    pub fn sign(&self, bytes: &[u8]) -> Result<Signature, (ExitCode, String)> {
        let signed = match self {
            Self::Private(key) => Ok(key.sign(bytes)),
            Self::Program(program, public) => program.sign(bytes, public),
        };
        signed.map_err(|error| {
            let failure = failure(error);
            (failure.code, failure.text)
        })
    }

    /// For [`kubexm_builder::hand_over`].
    pub fn signer<'a>(&self, sign: &'a kubexm_builder::hand_over::Sign<'a>) -> Signer<'a> {
        Signer { key_id: self.id(), public_pem: self.public().to_pem(), sign }
    }
}

/// When something is signed, in seconds of Unix time: now, or as SOURCE_DATE_EPOCH says
/// (reproducible-builds.org, "SOURCE_DATE_EPOCH").
fn date(session: &Session) -> Result<i64, Failure> {
    const VARIABLE: &str = "SOURCE_DATE_EPOCH";
    match std::env::var(VARIABLE) {
        Ok(text) if !text.is_empty() => text.parse().ok().filter(|date| *date >= 0).ok_or_else(|| {
            Failure::new(ExitCode::Usage, format!("{VARIABLE} is {text:?}; it must be seconds since 1970"))
        }),
        _ => Ok(session.now()),
    }
}
