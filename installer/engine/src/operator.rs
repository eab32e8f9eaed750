//! The operator's identity: the secret key by which this home opens a cluster's authorities. It never leaves the controller.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use age::scrypt;
use age::secrecy::{ExposeSecret, SecretString};
use age::x25519::Identity;
use zeroize::Zeroizing;

use crate::EngineError;
use crate::files::{make_dir, sync_dir, write_whole};

/// How an age file begins, armored or not.
const ENCRYPTED: [&[u8]; 2] = [b"age-encryption.org/v1", b"-----BEGIN AGE ENCRYPTED FILE-----"];

/// Largest work factor of scrypt that is accepted: 4 GiB of memory.
const WORK_FACTOR: u8 = 22;

/// Gives the passphrase of an identity file; the error is a sentence for the operator.
pub type Passphrase<'a> = &'a dyn Fn(&Path) -> Result<Zeroizing<String>, String>;

/// The identities of a file in age's format, as `age-keygen` writes it, or as `age -p` encrypts that.
pub struct OperatorIdentity {
    identities: Vec<Identity>,
}

impl OperatorIdentity {
    /// Reads the file, or makes it with a new identity. The passphrase is only asked for if the file is encrypted.
    ///
    /// # Errors
    /// It cannot be read or written, others may read it, it holds something else, or the passphrase is missing or wrong. No
    /// error shows what is in it.
    pub fn read_or_make(path: &Path, passphrase: Passphrase<'_>) -> Result<Self, EngineError> {
        if !path.exists() {
            make(path)?;
        }
        Self::of(path, &plain(path, passphrase)?)
    }

    /// Encrypts the file with a passphrase.
    ///
    /// # Errors
    /// It is encrypted already, holds something else, or cannot be read or written.
    pub fn encrypt(path: &Path, passphrase: Zeroizing<String>) -> Result<Self, EngineError> {
        let wrong = |reason: String| EngineError::Identity { path: path.to_owned(), reason };
        let found = fs::symlink_metadata(path).map_err(EngineError::file("read", path))?;
        if found.is_symlink() || found.nlink() > 1 {
            let text = "it is a link, and what it points at would stay as it is; put the file itself there, or encrypt that with `age -p`";
            return Err(wrong(text.to_owned()));
        }
        let already = |_: &Path| Err("it is encrypted already; `age -d` decrypts it".to_owned());
        let text = plain(path, &already)?;
        let identity = Self::of(path, &text)?;
        let recipient = scrypt::Recipient::new(SecretString::from(passphrase.to_string()));
        let encrypted = age::encrypt_and_armor(&recipient, text.as_bytes())
            .map_err(|error| wrong(format!("it cannot be encrypted: {error}")))?;
        write_whole(path, encrypted.as_bytes(), 0o600)?;
        Ok(identity)
    }

    fn of(path: &Path, text: &str) -> Result<Self, EngineError> {
        let wrong = |reason: &str| EngineError::Identity { path: path.to_owned(), reason: reason.to_owned() };
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

    /// The first one, which is the operator's own.
    pub(crate) fn own(&self) -> Option<&Identity> {
        self.identities.first()
    }

    /// All of them.
    pub(crate) fn identities(&self) -> &[Identity] {
        &self.identities
    }

    /// All of them, to open with.
    pub(crate) fn all(&self) -> impl Iterator<Item = &dyn age::Identity> {
        self.identities.iter().map(|identity| identity as &dyn age::Identity)
    }
}

/// The text of the file, decrypted if it is encrypted.
fn plain(path: &Path, passphrase: Passphrase<'_>) -> Result<Zeroizing<String>, EngineError> {
    let wrong = |reason: &str| EngineError::Identity { path: path.to_owned(), reason: reason.to_owned() };
    let mode = fs::metadata(path).map_err(EngineError::file("read", path))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(wrong("others may read it; make it yours alone with `chmod 600`"));
    }
    let bytes = Zeroizing::new(fs::read(path).map_err(EngineError::file("read", path))?);
    let bytes = match ENCRYPTED.iter().any(|begin| bytes.starts_with(begin)) {
        false => bytes,
        true => {
            let passphrase = passphrase(path).map_err(|reason| wrong(&reason))?;
            let mut identity = scrypt::Identity::new(SecretString::from(passphrase.to_string()));
            // The file is the operator's own; the default depends on how busy this machine is now.
            identity.set_max_work_factor(WORK_FACTOR);
            let decrypted = age::decrypt(&identity, &bytes);
            Zeroizing::new(decrypted.map_err(|_| wrong("the passphrase is wrong, or the file is damaged: give the right one, or put the file back from a copy"))?)
        }
    };
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(_) => Err(wrong("it is no text; restore it from a backup, or move it aside")),
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

    fn none(_: &Path) -> Result<Zeroizing<String>, String> {
        Err("nobody knows it".to_owned())
    }

    #[test]
    fn a_passphrase_protects_the_identity_and_errors_show_neither() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let recipient = OperatorIdentity::read_or_make(&path, &none).unwrap().recipient();
        let words = |words: &'static str| move |_: &Path| Ok(Zeroizing::new(words.to_owned()));
        OperatorIdentity::encrypt(&path, Zeroizing::new("correct horse".to_owned())).unwrap();
        let stored = fs::read_to_string(&path).unwrap();
        assert!(stored.starts_with("-----BEGIN AGE ENCRYPTED FILE-----") && !stored.contains("SECRET-KEY"), "{stored}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(OperatorIdentity::read_or_make(&path, &words("correct horse")).unwrap().recipient(), recipient);
        let error =
            |passphrase: Passphrase<'_>| OperatorIdentity::read_or_make(&path, passphrase).err().unwrap().to_string();
        assert!(
            error(&words("battery staple")).contains("the passphrase is wrong"),
            "{}",
            error(&words("battery staple"))
        );
        assert!(error(&none).contains("nobody knows it"), "{}", error(&none));
        assert!(!error(&words("battery staple")).contains("battery"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let linked = OperatorIdentity::encrypt(&link, Zeroizing::new("x".to_owned())).err().unwrap().to_string();
        assert!(linked.contains("it is a link"), "{linked}");
        let again = OperatorIdentity::encrypt(&path, Zeroizing::new("x".to_owned())).err().unwrap().to_string();
        assert!(again.contains("encrypted already"), "{again}");
    }

    #[test]
    fn an_identity_is_made_once_for_its_owner_alone_and_errors_do_not_show_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home/identity");
        let recipient = OperatorIdentity::read_or_make(&path, &none).unwrap().recipient();
        assert!(recipient.starts_with("age1"), "{recipient}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(OperatorIdentity::read_or_make(&path, &none).unwrap().recipient(), recipient);
        assert_eq!(fs::read_dir(folder.path().join("home")).unwrap().count(), 1, "nothing else is left");

        let text = fs::read_to_string(&path).unwrap();
        for (damaged, mode, said) in
            [(text.replace("KEY-1", "KEY-1X"), 0o600, "no identity"), (text, 0o640, "chmod 600")]
        {
            fs::write(&path, &damaged).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let Err(error) = OperatorIdentity::read_or_make(&path, &none) else { unreachable!("{said}") };
            assert!(error.to_string().contains(said) && !error.to_string().contains("SECRET-KEY-1X"), "{error}");
        }
    }
}
