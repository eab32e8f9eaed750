//! Keys, signatures and trust: over a statement about a bundle: its manifest.json, its sources, a date.
//!
//! ```text
//! PrivateKey ─sign→ Signature ─with_added→ the array in manifest.json.sig, or in NAME.sig
//! Signatures, Subject, Policy ─judge→ Trust, or Untrusted
//! ```
//!
//! ECDSA over P-256 with SHA-256 (RFC 6979, so that signing twice gives the same bytes) and Ed25519 (RFC 8032). Only
//! [`files`] and [`external`] touch the machine: key files, and the program that signs where the key cannot be read.

mod algorithm;
mod armor;
mod cosign;
mod error;
pub mod external;
pub mod files;
pub mod image;
mod password;
mod private;
mod public;
mod trust;

pub use algorithm::Algorithm;
pub use error::SigningError;
pub use password::Password;
pub use private::PrivateKey;
pub use public::{KeyId, PublicKey};
pub use trust::{Broken, Policy, Signer, Subject, Trust, Untrusted, check, sign_bundle, with_added};
