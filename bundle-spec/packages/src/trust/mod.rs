//! Trust: keys by fingerprint, and the signatures they made.
//!
//! OpenPGP (RFC 9580) as distributions use it: a clear-signed `InRelease`, a detached `Release.gpg` or `repomd.xml.asc`, the
//! signatures in an .rpm. The cryptography is rPGP's; which key may sign, until when, and over which digest is decided here.
//!
//! ```
//! # fn see(certificates: &[u8], in_release: &[u8], now: i64) -> Result<String, kubexm_packages::trust::TrustError> {
//! use kubexm_packages::trust::{Keyring, Policy, clearsigned};
//! let keys = Keyring::read(certificates)?.pinned(&["B8B80B5B623EAB6AD8775C45B7C5D7D6350947F8".to_owned()])?;
//! let (text, signer) = clearsigned(in_release, &keys, &Policy::at(now))?;
//! # let _ = signer;
//! # Ok(text) }
//! ```

mod armor;
mod cleartext;
mod error;
mod keyring;
mod policy;
mod rpm;
mod sign;
mod sign_error;
mod signing;
mod statement;
mod verify;

pub use error::TrustError;
pub use keyring::{Certificate, Keyring};
pub use policy::Policy;
pub use rpm::signed_rpm;
pub use sign::SiteKey;
pub use sign_error::SignError;
pub use verify::{Checker, Signer, clearsigned, detached};
