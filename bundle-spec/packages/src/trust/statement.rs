//! What a primary key says of itself and of its subkeys: self-signatures (RFC 9580, 5.2.3.10), each compared with the key.

use pgp::composed::{SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType, SubpacketData};
use pgp::types::{KeyDetails, Tag};

/// A valid self-signature, in the parts that matter for signing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// In seconds of Unix time.
    pub(super) made: i64,
    /// When the key is at its end, in seconds of Unix time; never when none.
    pub(super) expires: Option<i64>,
    /// It may sign content.
    pub(super) signs: bool,
    /// Over which digest it was made.
    pub(super) digest: HashAlgorithm,
}

/// What is said of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// In no order.
    pub(super) statements: Vec<Statement>,
    /// When its owner has revoked it first, in seconds of Unix time. Whether it was before or after a signature, and why, does not
    /// matter: a vendor that revokes a key has another.
    pub(super) revoked: Option<i64>,
}

/// What a primary key says of itself: in certifications of its own names and in direct signatures.
pub(super) fn of_primary(certificate: &SignedPublicKey) -> Said {
    let key = &certificate.primary_key;
    let mut said = Said::default();
    for user in &certificate.details.users {
        let own = |signature: &&Signature| signature.verify_certification(key, Tag::UserId, &user.id).is_ok();
        let (revocations, certifications): (Vec<&Signature>, Vec<&Signature>) =
            (user.signatures.iter().filter(own)).partition(|one| one.typ() == Some(SignatureType::CertRevocation));
        let revoked = revocations.iter().filter_map(|one| one.created()).max();
        let valid = certifications.into_iter().filter(|one| one.created() > revoked);
        said.statements.extend(valid.filter_map(|signature| statement(signature, key)));
    }
    let direct = certificate.details.direct_signatures.iter().filter(|signature| signature.verify_key(key).is_ok());
    said.statements.extend(direct.filter_map(|signature| statement(signature, key)));
    let revocations = certificate.details.revocation_signatures.iter().filter(|one| one.verify_key(key).is_ok());
    said.revoked = revocations.map(made).min();
    said
}

/// What the primary key says of a subkey. One that signs must say in turn that it belongs to the primary (RFC 9580, 5.2.1.8): else
/// anybody could put another's subkey under a key of their own.
pub(super) fn of_subkey(certificate: &SignedPublicKey, subkey: &SignedPublicSubKey) -> Said {
    let primary = &certificate.primary_key;
    let mut said = Said::default();
    for signature in &subkey.signatures {
        if signature.verify_subkey_binding(primary, &subkey.key).is_err() {
            continue;
        }
        if signature.typ() == Some(SignatureType::SubkeyRevocation) {
            said.revoked = Some(said.revoked.map_or(made(signature), |first| first.min(made(signature))));
            continue;
        }
        let Some(mut statement) = statement(signature, &subkey.key) else { continue };
        statement.signs &= signature
            .embedded_signature()
            .is_some_and(|back| back.verify_primary_key_binding(&subkey.key, primary).is_ok());
        said.statements.push(statement);
    }
    said
}

/// A revocation that does not say when it was made has been there from the first.
fn made(signature: &Signature) -> i64 {
    signature.created().map_or(0, |at| i64::from(at.as_secs()))
}

fn statement(signature: &Signature, key: &impl KeyDetails) -> Option<Statement> {
    let made = i64::from(signature.created()?.as_secs());
    let created = i64::from(key.created_at().as_secs());
    let expires = signature.key_expiration_time().map(|after| i64::from(after.as_secs())).filter(|after| *after > 0);
    // Old keys say nothing of what they are for: they are for all.
    let flags = signature.config()?.hashed_subpackets().any(|one| matches!(one.data, SubpacketData::KeyFlags(_)));
    Some(Statement {
        made,
        expires: expires.map(|after| created + after),
        signs: !flags || signature.key_flags().sign(),
        digest: signature.hash_alg()?,
    })
}
