//! Signatures of images, as cosign makes them: who must have signed an image, and whether they did.
//!
//! ```text
//! rules of cluster.yaml, keys and trusted roots ─ImagePolicy::of→ ImagePolicy
//! ImagePolicy, Image, its referrers ─check→ SignatureCheck (which the lock keeps), or Unsigned
//! ```
//!
//! Two forms: simple signing (a layer with what is signed, the signature in its annotations; found by the tag `sha256-….sig` or as a
//! referrer), and Sigstore's bundle v0.3 (a referrer). Signers are public keys, or identities in certificates of a Fulcio
//! whose roots and logs a trusted_root.json names. Nothing here uses a network or a clock: a certificate must have been valid
//! when the transparency log took the signature in.

mod certificate;
mod certificate_log;
mod check;
mod identity;
mod key;
mod log_entry;
mod policy;
mod referrer;
mod signed;
mod sigstore_bundle;
mod simple_signing;
mod trusted_root;

pub use check::{Image, Unsigned, check};
pub use key::ImageKey;
pub use policy::{BadPolicy, ImagePolicy};
pub use referrer::{SIGNATURE_LIMIT, is_signature};
pub use trusted_root::TrustedRoot;
