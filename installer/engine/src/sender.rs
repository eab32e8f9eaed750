//! Who sealed a backup, or a cluster's authorities. age tells for whom something is, and not from whom: everybody can seal for a
//! public key.
//!
//! The sender's identity and a recipient's agree on a secret (X25519, both keys static) that nobody else knows, and what is sealed
//! has an authentication code by it, one for each recipient. Whoever can check one could also have made it, but only for himself.

use age::secrecy::ExposeSecret as _;
use age::x25519::Identity;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bech32::FromBase32 as _;
use ring::hmac;
use serde::{Deserialize, Serialize};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::operator::OperatorIdentity;

/// For what a code is: one of a backup is of no use for anything else.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sealed {
    Backup,
    Authorities,
}

impl Sealed {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Backup => b"kubexm.io/backup/v1 sender",
            Self::Authorities => b"kubexm.io/sealed-authorities/v1 sender",
        }
    }
}

const PUBLIC: &str = "age";
const SECRET: &str = "age-secret-key-";

/// In the document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Sender {
    /// His public key.
    key: String,
    codes: Vec<Code>,
}

/// For one recipient.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Code {
    recipient: String,
    /// HMAC-SHA256, in base64.
    hmac: String,
}

/// Why it is not known who sealed something: a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unproven {
    /// Somebody who is not known.
    Stranger(String),
    /// Not the one that it names.
    Untrue(String),
}

impl std::fmt::Display for Unproven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stranger(text) | Self::Untrue(text) => f.write_str(text),
        }
    }
}

impl Sender {
    /// The codes of `sealed`; none if a key is none.
    pub fn of<'r>(
        what: Sealed,
        own: &OperatorIdentity,
        recipients: impl Iterator<Item = &'r str>,
        sealed: &[u8],
    ) -> Option<Self> {
        let own = own.own()?;
        let key = own.to_public().to_string();
        let code = |recipient: &str| {
            let tag = hmac::sign(&between(what, own, recipient, (&key, recipient))?, sealed);
            Some(Code { recipient: recipient.to_owned(), hmac: STANDARD.encode(tag) })
        };
        let codes = recipients.map(code).collect::<Option<Vec<_>>>()?;
        Some(Self { key, codes })
    }

    /// Whether somebody who is trusted made it: an identity of this home, or one of `operators`. The error says why not.
    pub fn check(
        &self,
        what: Sealed,
        identity: &OperatorIdentity,
        operators: &[String],
        sealed: &[u8],
    ) -> Result<(), Unproven> {
        let shown: String = self.key.escape_default().take(80).collect();
        let is_own = identity.identities().iter().any(|one| one.to_public().to_string() == self.key);
        if !is_own && !operators.contains(&self.key) {
            let text = format!("it says that {shown} made it, who is neither this home nor one of the operators");
            return Err(Unproven::Stranger(text));
        }
        let holds = |one: &Identity| {
            let recipient = one.to_public().to_string();
            let code = self.codes.iter().find(|code| code.recipient == recipient)?;
            let tag = STANDARD.decode(&code.hmac).ok()?;
            hmac::verify(&between(what, one, &self.key, (&self.key, &recipient))?, sealed, &tag).ok()
        };
        match identity.identities().iter().any(|one| holds(one).is_some()) {
            true => Ok(()),
            false => Err(Unproven::Untrue(format!("it says that {shown} made it, and that is not true"))),
        }
    }
}

/// The key of codes between two, in the order from whom and for whom.
fn between(what: Sealed, own: &Identity, other: &str, (from, to): (&str, &str)) -> Option<hmac::Key> {
    let secret = StaticSecret::from(*secret_bytes(own)?);
    let shared = secret.diffie_hellman(&PublicKey::from(*bytes(other, PUBLIC)?));
    if !shared.was_contributory() {
        return None;
    }
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, shared.as_bytes()));
    for part in [what.label(), from.as_bytes(), to.as_bytes()] {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    Some(hmac::Key::new(hmac::HMAC_SHA256, context.sign().as_ref()))
}

fn secret_bytes(own: &Identity) -> Option<Zeroizing<[u8; 32]>> {
    bytes(own.to_string().expose_secret(), SECRET)
}

/// Of a key in age's notation.
fn bytes(text: &str, prefix: &str) -> Option<Zeroizing<[u8; 32]>> {
    let (found, data, variant) = bech32::decode(text).ok()?;
    if found.to_lowercase() != prefix || variant != bech32::Variant::Bech32 {
        return None;
    }
    let bytes = Zeroizing::new(Vec::<u8>::from_base32(&data).ok()?);
    Some(Zeroizing::new(bytes.as_slice().try_into().ok()?))
}
