//! The operator's private key, and which algorithms are offered.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PrivateKey};
use russh::{Preferred, cipher};

/// Reads a key in OpenSSH's, PEM or PKCS#8 form. The error is a sentence that names the file and the way to mend it.
pub fn load(path: &Path) -> Result<Arc<PrivateKey>, String> {
    let shown = path.display();
    let encrypted = || {
        format!(
            "the key {shown} is protected by a passphrase, which is not supported yet; give a key without one \
             (`ssh-keygen -p -N '' -f COPY` on a copy that is deleted afterwards)"
        )
    };
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read the key {shown}: {error}"))?;
    match russh::keys::decode_secret_key(&text, None) {
        Ok(key) if key.is_encrypted() => Err(encrypted()),
        Ok(key) if matches!(key.algorithm(), Algorithm::Dsa) => {
            Err(format!("the key {shown} is a DSA key, which no current sshd accepts; make an ed25519 one"))
        }
        Ok(key) => Ok(Arc::new(key)),
        Err(russh::keys::Error::KeyIsEncrypted) => Err(encrypted()),
        Err(_) if text.contains("ENCRYPTED") => Err(encrypted()),
        Err(_) if text.starts_with("ssh-") || text.starts_with("ecdsa-") => {
            Err(format!("{shown} is the public half of a key; give the private one"))
        }
        Err(error) => Err(format!("{shown} is not a private key that can be used: {error}")),
    }
}

/// What we offer: aes256-gcm first (the fastest measured on machines with AES instructions), the types of recorded host
/// keys before the others, no SHA-1 and no DSA.
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

    /// The reference is OpenSSH's own key maker.
    #[test]
    fn keys_of_every_kind_that_ssh_keygen_makes_are_read_and_a_passphrase_is_named() {
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
            load(&make(name, args)).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        for (name, args) in [
            ("locked", &["-t", "ed25519", "-N", "secret"][..]),
            ("locked-pem", &["-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "secret"]),
        ] {
            let refused = load(&make(name, args)).unwrap_err();
            assert!(refused.contains("passphrase"), "{name}: {refused}");
        }
        assert!(load(&folder.path().join("ed25519.pub")).unwrap_err().contains("private"));
        assert!(load(&folder.path().join("absent")).unwrap_err().contains("absent"));
    }
}
