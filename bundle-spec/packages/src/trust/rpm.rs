//! The signature that an .rpm carries itself.

use std::io::Read;

use kubexm_spec::digest::Hasher;

use super::error::TrustError;
use super::keyring::Keyring;
use super::policy::Policy;
use super::verify::{Checker, MOST, Signer};
use crate::rpm::file::{Covers, Rpm};

/// Who has signed a package: header and payload together (as EL7's are), or the header, whose digest of the payload must then be
/// that of what `payload` gives. `payload` is read to its end, from where [`Rpm::read`] left off.
pub fn signed_rpm(rpm: &Rpm, mut payload: impl Read, keyring: &Keyring, policy: &Policy) -> Result<Signer, TrustError> {
    let (mut checkers, mut left) = (Vec::new(), MOST);
    for signature in &rpm.signatures {
        let mut checker = Checker::new(&signature.packet)?;
        left = left.checked_sub(checker.len()).ok_or(TrustError::TooManySignatures { limit: MOST })?;
        checker.update(rpm.main.bytes());
        checkers.push((signature.covers, checker));
    }
    let mut hasher = Hasher::default();
    let mut piece = vec![0; 64 << 10];
    loop {
        let count = match payload.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(TrustError::Unreadable { why: error.to_string() }),
        };
        hasher.update(&piece[..count]);
        for (_, checker) in checkers.iter_mut().filter(|(covers, _)| *covers == Covers::HeaderAndPayload) {
            checker.update(&piece[..count]);
        }
    }
    let reported = rpm.payload();
    if reported.is_some_and(|reported| reported != hasher.finish()) {
        return Err(TrustError::PayloadDiffers);
    }
    let mut good = None;
    let mut worst = TrustError::NotSigned;
    for (covers, checker) in checkers {
        match checker.finish(keyring, policy) {
            Ok(signer) if covers == Covers::HeaderAndPayload || reported.is_some() => good = good.or(Some(signer)),
            // The header alone, and nothing in it says what the payload is.
            Ok(_) => {}
            Err(error @ TrustError::BadSignature { .. }) => return Err(error),
            Err(error) if error.weight() > worst.weight() => worst = error,
            Err(_) => {}
        }
    }
    good.ok_or(worst)
}
