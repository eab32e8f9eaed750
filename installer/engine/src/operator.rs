//! The operator's identity: the secret key by which this home opens a cluster's authorities. It never leaves the controller.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use age::secrecy::ExposeSecret;
use age::x25519::Identity;
use zeroize::Zeroizing;

use crate::EngineError;
use crate::files::{make_dir, sync_dir, write_whole};

/// The identities of a file in age's format, as `age-keygen` writes it.
pub struct OperatorIdentity {
    identities: Vec<Identity>,
}

impl OperatorIdentity {
    /// Reads the file, or makes it with a new identity.
    ///
    /// # Errors
    /// It cannot be read or written, others may read it, or it holds something else. No error shows what is in it.
    pub fn read_or_make(path: &Path) -> Result<Self, EngineError> {
        if !path.exists() {
            make(path)?;
        }
        Self::read(path)
    }

    fn read(path: &Path) -> Result<Self, EngineError> {
        let wrong = |reason: &str| EngineError::Identity { path: path.to_owned(), reason: reason.to_owned() };
        let mode = fs::metadata(path).map_err(EngineError::file("read", path))?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(wrong("others may read it; make it yours alone with `chmod 600`"));
        }
        let text = Zeroizing::new(fs::read_to_string(path).map_err(EngineError::file("read", path))?);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let identities: Option<Vec<Identity>> = lines.map(|line| line.parse().ok()).collect();
        match identities {
            Some(identities) if !identities.is_empty() => Ok(Self { identities }),
            _ => Err(wrong(
                "a line of it is no identity of age (AGE-SECRET-KEY-1…); restore it from a backup, or move it aside",
            )),
        }
    }

    /// The operator's own public key: that of the first identity.
    pub fn recipient(&self) -> String {
        self.identities.first().map(|identity| identity.to_public().to_string()).unwrap_or_default()
    }

    /// All of them, to open with.
    pub(crate) fn all(&self) -> impl Iterator<Item = &dyn age::Identity> {
        self.identities.iter().map(|identity| identity as &dyn age::Identity)
    }
}

/// Two processes that make it at the same time end with the same one.
fn make(path: &Path) -> Result<(), EngineError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    make_dir(folder)?;
    let identity = Identity::generate();
    let secret = identity.to_string();
    let text = Zeroizing::new(format!("# public key: {}\n{}\n", identity.to_public(), secret.expose_secret()));
    let new = folder.join(format!(".identity.{}.new", std::process::id()));
    write_whole(&new, text.as_bytes(), 0o600)?;
    let linked = fs::hard_link(&new, path);
    let _ = fs::remove_file(&new);
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(EngineError::File { action: "write", path: path.to_owned(), source: error })
        }
        _ => sync_dir(folder),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once_for_its_owner_alone_and_errors_do_not_show_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home/identity");
        let recipient = OperatorIdentity::read_or_make(&path).unwrap().recipient();
        assert!(recipient.starts_with("age1"), "{recipient}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(OperatorIdentity::read_or_make(&path).unwrap().recipient(), recipient);
        assert_eq!(fs::read_dir(folder.path().join("home")).unwrap().count(), 1, "nothing else is left");

        let text = fs::read_to_string(&path).unwrap();
        for (damaged, mode, said) in
            [(text.replace("KEY-1", "KEY-1X"), 0o600, "no identity"), (text, 0o640, "chmod 600")]
        {
            fs::write(&path, &damaged).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let Err(error) = OperatorIdentity::read_or_make(&path) else { unreachable!("{said}") };
            assert!(error.to_string().contains(said) && !error.to_string().contains("SECRET-KEY-1X"), "{error}");
        }
    }
}
