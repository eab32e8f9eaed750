//! Which part of a secret key signs: the newest subkey that may, else the primary key.

use pgp::composed::SignedSecretKey;
use pgp::types::{KeyDetails, S2kParams, SecretParams, StringToKey};

use super::error::TrustError;
use super::keyring::Certificate;
use super::policy::Policy;
use super::sign_error::SignError;
use crate::deb::release::format_date;

/// The place of the subkey that signs at a time in seconds of Unix time; none where the primary key does. A subkey that signs is there
/// because the primary should not be used for it.
pub(super) fn part(key: &SignedSecretKey, now: i64) -> Result<Option<usize>, SignError> {
    let certificate = Certificate::of(&key.to_public_key());
    let primary = &key.primary_key;
    // A clock that is behind the key is wrong about everything; the key is not what is wrong.
    let now = now.max(i64::from(primary.created_at().as_secs()));
    // Whether its own words are over SHA-1 is for others to judge: old keys' are, and old package managers take them.
    let policy = Policy { sha1: true, ..Policy::at(now) };
    let subkeys = key.secret_subkeys.iter().enumerate();
    let subkeys = subkeys.filter(|(_, subkey)| is_here(subkey.key.secret_params()));
    let mut parts: Vec<(u32, Option<usize>, String)> =
        subkeys.map(|(place, subkey)| (subkey.key.created_at().as_secs(), Some(place), name(&subkey.key))).collect();
    parts.sort_by_key(|(created, ..)| std::cmp::Reverse(*created));
    if is_here(primary.secret_params()) {
        parts.push((0, None, name(primary)));
    }
    let mut why = Vec::new();
    for (_, place, name) in parts {
        let Some(part) = certificate.key(&name).filter(|part| part.is_for_signing()) else { continue };
        match certificate.allows(part, now, &policy) {
            Ok(()) => return Ok(place),
            Err(error) => why.push(rejection(&certificate, &error)),
        }
    }
    why.dedup();
    let key = certificate.fingerprint().to_owned();
    if why.is_empty() {
        return Err(SignError::NotForSigning(key));
    }
    let again = if why.iter().any(|one| one.contains("--quick-set-expire")) { "export it again, or " } else { "" };
    Err(SignError::Spent { key, why: format!("{}; {again}give another key", why.join("; ")) })
}

fn rejection(certificate: &Certificate, error: &TrustError) -> String {
    match error {
        TrustError::Expired { key, at } => {
            let primary = certificate.fingerprint();
            let which = if key == primary { String::new() } else { format!(" {key}") };
            format!("{key} expired on {}, extend it with gpg --quick-set-expire {primary} 2y{which}", format_date(*at))
        }
        TrustError::Revoked { key } => {
            let at = certificate.key(key).and_then(super::keyring::Key::revoked).unwrap_or_default();
            format!("{key} was revoked by its owner on {}", format_date(at))
        }
        other => other.to_string(),
    }
}

fn name(key: &impl KeyDetails) -> String {
    key.fingerprint().to_string().to_uppercase()
}

/// Not one of which gpg has exported a stub only, since the secret is elsewhere (GnuPG's S2K mode 101).
fn is_here(params: &SecretParams) -> bool {
    let SecretParams::Encrypted(locked) = params else { return true };
    !matches!(
        locked.string_to_key_params(),
        S2kParams::Cfb { s2k: StringToKey::Private { .. }, .. }
            | S2kParams::MalleableCfb { s2k: StringToKey::Private { .. }, .. }
    )
}
