//! Files of keys and signatures on this machine: read within a limit; keys are written once and never over another.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use kubexm_archive::{Signature, signature_slot};
use kubexm_files::{Access, Kind, OutputError};
use zeroize::Zeroizing;

use crate::{Password, PrivateKey, PublicKey, SigningError};

/// The most bytes of a key or password file.
const LIMIT: u64 = 64 << 10;
/// The most bytes of a file of signatures: some thousands of them.
const SIGNATURES_LIMIT: u64 = 1 << 20;

/// The variable that holds the password of a private key.
pub const PASSWORD_ENV: &str = "KUBEXM_KEY_PASSWORD";

/// A public key file.
pub fn public_key(path: &Path) -> Result<PublicKey, SigningError> {
    PublicKey::from_pem(&path.display().to_string(), &read(path)?)
}

/// A private key file. The password is read only when the key is encrypted.
pub fn private_key(path: &Path, password_file: Option<&Path>) -> Result<PrivateKey, SigningError> {
    PrivateKey::from_pem(&path.display().to_string(), &read(path)?, || password(password_file))
}

/// A private key in a variable of the environment, as CI hands secrets over.
pub fn private_key_from_env(variable: &str, password_file: Option<&Path>) -> Result<PrivateKey, SigningError> {
    let text = self::variable(variable).ok_or_else(|| SigningError::NoVariable { name: variable.to_owned() })?;
    PrivateKey::from_pem(&format!("${variable}"), &text, || password(password_file))
}

/// The password of a private key: of the file, or of [`PASSWORD_ENV`].
pub fn password(file: Option<&Path>) -> Result<Option<Password>, SigningError> {
    match file {
        Some(path) => Ok(Some(Password::from_file_content(read(path)?))),
        None => Ok(std::env::var_os(PASSWORD_ENV).map(|value| Password::new(value.into_encoded_bytes()))),
    }
}

/// A secret in a variable of the environment.
pub fn variable(name: &str) -> Option<Zeroizing<Vec<u8>>> {
    std::env::var_os(name).map(|value| Zeroizing::new(value.into_encoded_bytes()))
}

/// The password for a new key: the same, but not an empty one.
pub fn new_password(file: Option<&Path>) -> Result<Option<Password>, SigningError> {
    match password(file)? {
        Some(password) if password.is_empty() => {
            Err(SigningError::EmptyPassword { from: if file.is_some() { "the password file" } else { PASSWORD_ENV } })
        }
        other => Ok(other),
    }
}

/// Every public key (`*.pub`) of a folder with its file, by name; none when there is no such folder. One that cannot be
/// read is an error: to leave it out would be to trust fewer keys than the operator put there, without a word.
pub fn public_keys_in(folder: &Path) -> Result<Vec<(PathBuf, PublicKey)>, SigningError> {
    let failed = |source| SigningError::Io { action: "list", path: folder.to_owned(), source };
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "pub") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.into_iter().map(|path| public_key(&path).map(|key| (path, key))).collect()
}

/// The signatures of a file of their own (`NAME.sig`).
pub fn signatures(path: &Path) -> Result<Vec<Signature>, SigningError> {
    let json = read_at_most(path, SIGNATURES_LIMIT)?;
    signature_slot::from_json(json.trim_ascii_end())
        .map_err(|problem| SigningError::NoSignatures { path: path.to_owned(), problem })
}

/// Writes a key pair as `NAME.key` (mode 0600) and `NAME.pub`. Neither may be there; when one cannot be written, none is.
pub fn write_pair(
    name: &Path,
    key: &PrivateKey,
    password: Option<&Password>,
) -> Result<(PathBuf, PathBuf), SigningError> {
    let (private, public) = (with_suffix(name, ".key"), with_suffix(name, ".pub"));
    if let Some(path) = [&private, &public].into_iter().find(|path| path.symlink_metadata().is_ok()) {
        return Err(SigningError::Exists { path: path.clone() });
    }
    let text = key.to_pem(password)?;
    write_new(&private, Access::Private, text.as_bytes())?;
    if let Err(error) = write_new(&public, Access::Umask, key.public().to_pem().as_bytes()) {
        // A private key without its public half is of no use, and would stand in the way of the next try.
        let _ = std::fs::remove_file(&private);
        return Err(error);
    }
    Ok((private, public))
}

fn with_suffix(name: &Path, suffix: &str) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn write_new(path: &Path, access: Access, content: &[u8]) -> Result<(), SigningError> {
    let kind = Kind { name: "a key", recognise: None, access };
    kubexm_files::write(path, &kind, false, content).map_err(|error| match error {
        OutputError::Exists { path } => SigningError::Exists { path },
        error => SigningError::Output(error),
    })
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, SigningError> {
    read_at_most(path, LIMIT)
}

fn read_at_most(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, SigningError> {
    let failed = |source| SigningError::Io { action: "read", path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().is_ok_and(|there| there.is_dir()) {
        return Err(failed(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder; name the file in it")));
    }
    // Room for all of it from the start: a vector that grows leaves copies behind.
    let mut content = Zeroizing::new(Vec::with_capacity(limit as usize + 1));
    file.take(limit + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > limit {
        let problem = format!("it has more than {limit} bytes, more than such a file has");
        return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, problem)));
    }
    Ok(content)
}
