//! The operator's private key, and the offered algorithms.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PrivateKey};
use russh::{Preferred, cipher};
use zeroize::Zeroizing;

/// A key file's content.
pub enum Stored {
    /// Without a passphrase.
    Open(Arc<PrivateKey>),
    /// Its text; a passphrase is needed.
    Locked(Zeroizing<String>),
}

/// Reads a key in OpenSSH, PEM or PKCS#8 format. The error is a sentence that names the file and the fix.
pub fn load(path: &Path) -> Result<Stored, String> {
    let shown = path.display();
    let read = std::fs::read_to_string(path).map_err(|error| format!("cannot read the key {shown}: {error}"));
    let text = Zeroizing::new(read?);
    match russh::keys::decode_secret_key(&text, None) {
        Ok(key) if key.is_encrypted() => Ok(Stored::Locked(text)),
        Ok(key) => usable(path, key).map(Stored::Open),
        Err(russh::keys::Error::KeyIsEncrypted) => Ok(Stored::Locked(text)),
        Err(_) if text.contains("ENCRYPTED") => Ok(Stored::Locked(text)),
        Err(_) if text.starts_with("ssh-") || text.starts_with("ecdsa-") => {
            Err(format!("{shown} is the public half of a key; give the private one"))
        }
        Err(error) => Err(format!("{shown} is not a private key that can be used: {error}")),
    }
}

/// Decrypts a key; none if the passphrase is wrong.
pub fn unlock(path: &Path, text: &str, passphrase: &str) -> Result<Option<Arc<PrivateKey>>, String> {
    match russh::keys::decode_secret_key(text, Some(passphrase)) {
        Ok(key) if !key.is_encrypted() => usable(path, key).map(Some),
        // A wrong passphrase decrypts to bytes that are not a key.
        Ok(_) | Err(_) => Ok(None),
    }
}

fn usable(path: &Path, key: PrivateKey) -> Result<Arc<PrivateKey>, String> {
    if matches!(key.algorithm(), Algorithm::Dsa) {
        return Err(format!(
            "the key {} is a DSA key, which no current sshd accepts; make an ed25519 one",
            path.display()
        ));
    }
    Ok(Arc::new(key))
}

/// The offered algorithms: aes256-gcm first (the fastest one measured on machines with AES instructions), types of
/// recorded host keys before others, no SHA-1 and no DSA.
pub fn preferred(recorded: &[Algorithm]) -> Preferred {
    const CIPHERS: &[cipher::Name] = &[
        cipher::AES_256_GCM,
        cipher::AES_128_GCM,
        cipher::CHACHA20_POLY1305,
        cipher::AES_256_CTR,
        cipher::AES_192_CTR,
        cipher::AES_128_CTR,
    ];
    let all = [
        Algorithm::Ed25519,
        Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
        Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
        Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
        Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
        Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
    ];
    let is_recorded =
        |offered: &Algorithm| recorded.iter().any(|known| known == offered || (is_rsa(known) && is_rsa(offered)));
    let (mut first, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(is_recorded);
    first.extend(rest);
    Preferred { key: Cow::Owned(first), cipher: Cow::Borrowed(CIPHERS), ..Preferred::DEFAULT }
}

fn is_rsa(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::Rsa { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_type_is_asked_for_first() {
        let offered = preferred(&[Algorithm::Rsa { hash: None }]).key;
        assert!(is_rsa(&offered[0]) && is_rsa(&offered[1]) && !is_rsa(&offered[2]), "{offered:?}");
        assert_eq!(preferred(&[]).key[0], Algorithm::Ed25519);
        assert!(!offered.contains(&Algorithm::Rsa { hash: None }), "SHA-1 must not be offered");
    }

    /// Compared with keys made by OpenSSH.
    #[test]
    fn keys_of_every_kind_that_ssh_keygen_makes_are_read_and_those_with_a_passphrase_unlocked() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, args: &[&str]| {
            let path = folder.path().join(name);
            let made = std::process::Command::new("ssh-keygen").args(["-q", "-f"]).arg(&path).args(args).output();
            assert!(made.as_ref().is_ok_and(|made| made.status.success()), "{made:?}");
            path
        };
        for (name, args) in [
            ("ed25519", &["-t", "ed25519", "-N", ""][..]),
            ("ecdsa", &["-t", "ecdsa", "-N", ""]),
            ("p521", &["-t", "ecdsa", "-b", "521", "-N", ""]),
            ("rsa", &["-t", "rsa", "-b", "2048", "-N", ""]),
            ("pem", &["-t", "rsa", "-b", "2048", "-m", "PEM", "-N", ""]),
            ("pkcs8", &["-t", "ecdsa", "-m", "PKCS8", "-N", ""]),
        ] {
            match load(&make(name, args)) {
                Ok(Stored::Open(_)) => {}
                Ok(Stored::Locked(_)) => panic!("{name} has no passphrase"),
                Err(error) => panic!("{name}: {error}"),
            }
        }
        for (name, args) in [
            ("locked", &["-t", "ed25519", "-N", "secret"][..]),
            ("locked-pem", &["-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "secret"]),
        ] {
            let path = make(name, args);
            let Ok(Stored::Locked(text)) = load(&path) else { panic!("{name} has a passphrase") };
            assert!(unlock(&path, &text, "another").unwrap().is_none(), "{name}");
            assert!(unlock(&path, &text, "secret").unwrap().is_some(), "{name}");
        }
        assert!(load(&folder.path().join("ed25519.pub")).err().unwrap().contains("private"));
        assert!(load(&folder.path().join("absent")).err().unwrap().contains("absent"));
    }
}
