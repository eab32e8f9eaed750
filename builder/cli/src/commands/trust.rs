//! Whom a bundle is from: what `verify` asks about its signatures, in a part of its own.

use std::path::{Path, PathBuf};

use kubexm_archive::Signature;
use kubexm_signing::{Policy, SigningError, Subject, Trust, files};
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;
use serde_json::{Value, json};

/// Keys and signatures given on the command line.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TrustArgs {
    /// Public key of somebody who is trusted; may be given several times. A valid signature by one of them is then demanded,
    /// and one of theirs that does not hold is refused (exit 34)
    #[arg(long = "key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// Signatures in a file of their own (NAME.sig), beside those in the bundle
    #[arg(long = "signature", value_name = "FILE")]
    signatures: Vec<PathBuf>,
    /// Demand a valid signature even when no --key is given: then nothing is good enough (exit 34)
    #[arg(long)]
    require_signature: bool,
}

/// What is known about who made the bundle, and whether that is enough.
#[derive(Debug)]
pub struct Answer {
    trust: Trust,
    /// What was demanded and is not there.
    problem: Option<String>,
    signatures: Vec<Signature>,
}

/// What was given, read: before a bundle is, which may take long.
#[derive(Debug)]
pub struct Given {
    policy: Policy,
    detached: Vec<Signature>,
}

impl TrustArgs {
    /// Reads the keys and the signatures of `--signature`. An error is about these files.
    pub fn read(&self) -> Result<Given, Failure> {
        let keys = self.keys.iter().map(|path| files::public_key(path)).collect::<Result<_, _>>().map_err(failure)?;
        let mut detached = Vec::new();
        for path in &self.signatures {
            detached.extend(files::signatures(path).map_err(failure)?);
        }
        Ok(Given { policy: Policy { keys, required: self.require_signature }, detached })
    }
}

impl Given {
    /// Checks the signatures that a bundle carries and those that were given. `name` is what messages call the bundle;
    /// `subject` is what they are about.
    pub fn answer(&self, name: &Path, carried: &[Signature], subject: &Subject<'_>) -> Answer {
        let signatures = [carried, &self.detached].concat();
        let judged = self.policy.judge(&name.display().to_string(), &signatures, subject);
        let (trust, problem) = match judged {
            Ok(trust) => (trust, None),
            Err(untrusted) => (untrusted.trust, Some(untrusted.problem)),
        };
        Answer { trust, problem, signatures }
    }
}

impl Answer {
    /// The program's, as far as signatures go.
    pub const fn code(&self) -> ExitCode {
        match self.problem {
            None => ExitCode::Ok,
            Some(_) => ExitCode::BundleUntrusted,
        }
    }

    /// One line: `unsigned`, `signed by …, not checked`, `signature valid, by …`, or what is demanded and missing.
    pub fn text(&self) -> String {
        self.problem.clone().unwrap_or_else(|| self.trust.to_string())
    }

    /// For `--json`. `ok` is null when nothing was demanded and nothing could be checked: never to be read as verified.
    pub fn document(&self) -> Value {
        let ok = match (&self.problem, &self.trust) {
            (Some(_), _) => Value::Bool(false),
            (None, Trust::Valid { .. }) => Value::Bool(true),
            (None, _) => Value::Null,
        };
        json!({
            "ok": ok,
            "state": self.trust.state(),
            "validBy": self.trust.valid_by(),
            "signatures": listed(&self.signatures),
            "problem": self.problem,
        })
    }
}

/// Signatures as machines see them, without the bytes.
pub fn listed(signatures: &[Signature]) -> Vec<Value> {
    let one = |signature: &Signature| {
        let stated = signature.stated();
        let date = stated.as_ref().map(|statement| statement.date);
        let mut document = json!({ "keyId": signature.key_id, "alg": signature.alg, "date": date });
        if let Some(sequence) = stated.and_then(|statement| statement.sequence) {
            document["sequence"] = sequence.into();
        }
        document
    };
    signatures.iter().map(one).collect()
}

/// A key or a signature that cannot be had.
pub fn failure(error: SigningError) -> Failure {
    Failure::from_error(error.exit_code(), &error)
}
