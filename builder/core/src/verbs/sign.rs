//! A signature in a bundle, or beside it.

use std::path::{Path, PathBuf};

use kubexm_archive::{Bundle, Signature, Signing, detached_path_of, signature_slot, write_detached};
use kubexm_files::{is_stdout, put};
use kubexm_signing::{files, sign_bundle, with_added};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ExitCode, SignedAt};
use serde::Serialize;

use super::kinds;
use super::outputs::apart;
use super::signing_key::{Key, KeySource};
use crate::session::{Session, SessionError};

/// What was signed, and where it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Signed {
    schema: &'static str,
    /// The bundle, or the file of detached signatures.
    pub file: PathBuf,
    pub key_id: String,
    pub algorithm: String,
    /// In seconds of Unix time; none without a statement.
    pub date: Option<i64>,
    pub sequence: Option<u64>,
    /// In all.
    pub signatures: usize,
    pub detached: bool,
    /// The list of sums that has the new one.
    pub sums: Option<PathBuf>,
}

/// Puts a signature into the room that the bundle keeps for it.
pub fn in_place(session: &Session, bundle: &Path, source: &KeySource) -> Result<Signed, SessionError> {
    let at = source.signed_at(session)?;
    let key = key(source)?;
    let open = Signing::open(bundle)?;
    if let Some(problem) = open.torn() {
        let file = bundle.display();
        let text =
            format!("{file}: the signatures that were in it cannot be read ({problem}); only the new one is kept");
        session.report(EventKind::Warning { text });
    }
    let signature = signature(&key, open.bundle(), at)?;
    let all = with_added(open.bundle().signatures().to_vec(), signature.clone());
    let progress = |done, total| session.progress("sum", (done, Some(total)), "bytes");
    let signed = open.replace(&all, &progress)?;
    if let Some((sums, problem)) = &signed.left {
        let text = format!(
            "{} is no list of sums as sha256sum writes it ({problem}); it stays as it is, and does not hold the new sum",
            sums.display()
        );
        session.report(EventKind::Warning { text });
    }
    Ok(answer(&signature, all.len(), signed.file, signed.sums, false))
}

/// Writes a signature into `output`, or `NAME.sig` beside the bundle, which stays as it is.
pub fn detached(
    session: &Session,
    bundle: &Path,
    source: &KeySource,
    (output, force): (Option<&Path>, bool),
    stdout: &dyn Fn(&[u8]),
) -> Result<Signed, SessionError> {
    let at = source.signed_at(session)?;
    let key = key(source)?;
    let bundle = session.bundle(bundle)?;
    let file = output.map_or_else(|| detached_path_of(bundle.path()), Path::to_owned);
    apart(&file, &bundle.files())?;
    kubexm_files::check(&file, &kinds::SIGNATURES, force)?;
    let there = !is_stdout(&file) && file.metadata().is_ok_and(|there| there.len() > 0);
    // What is replaced with --force may be anything.
    let old = match there.then(|| files::signatures(&file)) {
        Some(Err(error)) if !force => return Err(error.into()),
        old => old.and_then(Result::ok).unwrap_or_default(),
    };
    let signature = signature(&key, &bundle, at)?;
    let all = with_added(old, signature.clone());
    if is_stdout(&file) {
        let content = [signature_slot::to_json(&all), b"\n".to_vec()].concat();
        put(&file, &kinds::SIGNATURES, force, &content, stdout)?;
    } else {
        write_detached(&file, &all)?;
    }
    Ok(answer(&signature, all.len(), file, None, true))
}

/// What is to sign: opened before anything else, so that a wrong password is reported at once.
fn key(source: &KeySource) -> Result<Key, SessionError> {
    source
        .open()?
        .ok_or_else(|| SessionError::refused(ExitCode::Usage, "give --key, --key-env, or --signer with --public-key"))
}

fn signature(key: &Key, bundle: &Bundle, at: SignedAt) -> Result<Signature, SessionError> {
    sign_bundle(bundle, at, |bytes| key.sign(bytes))
}

fn answer(signature: &Signature, count: usize, file: PathBuf, sums: Option<PathBuf>, detached: bool) -> Signed {
    let stated = signature.stated();
    Signed {
        schema: "kubexm.io/sign/v1",
        file,
        key_id: signature.key_id.clone(),
        algorithm: signature.alg.clone(),
        date: stated.as_ref().map(|statement| statement.date),
        sequence: stated.and_then(|statement| statement.sequence),
        signatures: count,
        detached,
        sums,
    }
}
