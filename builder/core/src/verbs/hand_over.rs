//! A folder to be carried by hand, made of a bundle that is there or was just built.

use std::path::{Path, PathBuf};

use kubexm_archive::{Bundle, Options};
use kubexm_spec::{ExitCode, Platform, SignedAt, error_chain};
use serde::Serialize;

use super::signing_key::{Key, KeySource};
use crate::hand_over::{HandOver, hand_over as make_folder};
use crate::session::{Session, SessionError};

pub use crate::hand_over::check_ahead;

/// What a hand-over is made of, but for the bundle and the key.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// To be made.
    pub folder: &'a Path,
    /// What file names begin with; the bundle's own when none.
    pub name: Option<&'a str>,
    /// The most bytes of a volume.
    pub split: Option<u64>,
    /// In place of the installers in the bundle.
    pub installers: &'a [PathBuf],
    /// Write into a folder that holds something.
    pub force: bool,
}

/// A folder that is whole.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HandedOver {
    schema: &'static str,
    pub folder: PathBuf,
    pub files: Vec<HandedFile>,
    pub sums: PathBuf,
    pub signature: Option<PathBuf>,
    /// Platforms that an installer is there for.
    pub platforms: Vec<Platform>,
    pub key_id: Option<String>,
    pub public_key_sha256: Option<String>,
}

/// A file of the folder.
#[derive(Debug, Serialize)]
pub struct HandedFile {
    pub path: PathBuf,
    pub sha256: String,
}

/// Makes the folder of a bundle: a file, a volume, a folder of volumes or an address.
pub fn hand_over(
    session: &Session,
    bundle: &Path,
    request: &Request<'_>,
    source: &KeySource,
) -> Result<HandedOver, SessionError> {
    let key = source.open()?;
    let bundle = session.bundle(bundle)?;
    make(session, &bundle, request, key.as_ref(), source.signed_at(session)?)
}

/// The same of a bundle that was just built: it is whole, and an error says so.
pub(super) fn of_built(
    session: &Session,
    files: &[PathBuf],
    request: &Request<'_>,
    key: Option<&Key>,
    at: SignedAt,
) -> Result<HandedOver, SessionError> {
    make(session, &Bundle::open_all(files)?, request, key, at).map_err(|error| {
        let (file, folder) = (files.first().map(|file| file.display().to_string()), request.folder.display());
        let file = file.unwrap_or_default();
        let text = format!(
            "{}\n{file} is complete; when that is fixed, continue with: kubexm-bundle hand-over {file} {folder}",
            error_chain(&error)
        );
        SessionError::refused(error.exit_code(), text)
    })
}

fn make(
    session: &Session,
    bundle: &Bundle,
    request: &Request<'_>,
    key: Option<&Key>,
    signed: SignedAt,
) -> Result<HandedOver, SessionError> {
    let sign = |bytes: &[u8]| match key {
        Some(key) => key.sign_or_code(bytes),
        None => Err((ExitCode::Internal, "there is no key".to_owned())),
    };
    let signer = key.map(|key| key.signer(&sign));
    let Request { folder, name, split, installers, force } = *request;
    let (signer, threads) = (signer.as_ref(), Options::default().threads);
    let request = HandOver { bundle, folder, name, split, installers, signer, signed, force, threads };
    let done = make_folder(&request, &|kind| session.report_to_people(kind))?;
    let files = done.files.into_iter();
    Ok(HandedOver {
        schema: "kubexm.io/hand-over/v1",
        folder: folder.to_owned(),
        files: files.map(|(path, sum)| HandedFile { path, sha256: sum.hex() }).collect(),
        sums: done.sums,
        signature: done.signature,
        platforms: done.platforms,
        key_id: key.map(Key::id),
        public_key_sha256: key.map(Key::fingerprint),
    })
}
