//! The OpenPGP key of a site, which signs repositories of packages.

use std::fs;
use std::path::{Path, PathBuf};

use kubexm_files::{Access, Kind, NoOption, OutputError, TEXT_LIMIT};
use kubexm_packages::trust::SiteKey;
use kubexm_signing::files;
use kubexm_spec::{ExitCode, ExitError as _, error_chain};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::session::SessionError;

/// A key that was written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenKey {
    schema: &'static str,
    pub fingerprint: String,
    pub secret_key: PathBuf,
    pub public_key: PathBuf,
}

/// Where a secret key is.
#[derive(Clone, Debug)]
pub struct SiteKeySource {
    pub file: Option<PathBuf>,
    /// A variable of the environment that holds it.
    pub variable: Option<String>,
    pub password_file: Option<PathBuf>,
}

impl SiteKeySource {
    /// Opens the key: before any work, so that a wrong password is reported at once.
    pub fn open(&self) -> Result<SiteKey, SessionError> {
        let (name, bytes) = match (&self.file, &self.variable) {
            (Some(path), _) => (path.display().to_string(), read(path)?),
            (None, Some(variable)) => {
                let text = format!("there is no variable {variable} in the environment");
                let value = files::variable(variable).ok_or_else(|| SessionError::refused(ExitCode::Config, text))?;
                (format!("${variable}"), value)
            }
            (None, None) => {
                return Err(SessionError::refused(ExitCode::Usage, "name the key that signs with --sign-key"));
            }
        };
        let password = match &self.password_file {
            Some(path) => Some(read(path)?),
            None => files::variable(files::PASSWORD_ENV),
        };
        let password = password.map(|bytes| Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned()));
        let password = password.as_ref().map(|text| text.strip_suffix('\n').unwrap_or(text));
        SiteKey::read(&bytes, password)
            .map_err(|error| SessionError::refused(error.exit_code(), format!("the key {name}: {error}")))
    }
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, SessionError> {
    Ok(Zeroizing::new(kubexm_files::read(path, TEXT_LIMIT)?))
}

/// Makes a key: FILE and FILE.pub, both or none; nothing is overwritten.
pub fn generate(file: &Path, owner: &str, bits: u32) -> Result<WrittenKey, SessionError> {
    let mut public = file.to_owned().into_os_string();
    public.push(".pub");
    let public = PathBuf::from(public);
    for path in [file, &public] {
        if path.symlink_metadata().is_ok() {
            let text = format!("{} is there, and keys are not replaced; name another file", path.display());
            return Err(SessionError::refused(ExitCode::Usage, text));
        }
    }
    kubexm_files::check_folder(file).map_err(unwritten)?;
    let key = SiteKey::generate(owner, bits)?;
    write(file, key.secret()?.as_bytes(), Access::Private)?;
    write(&public, key.public()?.as_bytes(), Access::Umask).inspect_err(|_| {
        // A pair or nothing. What the second failure says is enough.
        let _ = fs::remove_file(file);
    })?;
    let (schema, fingerprint) = ("kubexm.io/packages-key/v1", key.fingerprint().to_string());
    Ok(WrittenKey { schema, fingerprint, secret_key: file.to_owned(), public_key: public })
}

fn write(path: &Path, content: &[u8], access: Access) -> Result<(), SessionError> {
    let kind = Kind { name: "a key", recognise: None, access };
    kubexm_files::write(path, &kind, false, content).map_err(unwritten)
}

/// The file is named without an option.
fn unwritten(error: OutputError) -> SessionError {
    let error = NoOption(error);
    SessionError::refused(error.exit_code(), error_chain(&error))
}
