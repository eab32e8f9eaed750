//! A bundle in an OCI registry: one artifact whose layers are the members, with signature and bill of materials as
//! referrers (SPEC.md, "In a registry").
//!
//! ```text
//! push()  Bundle ─► blobs (members) ─► manifest by digest ─► referrers ─► tag
//! pull()  tag or digest ─► manifest ─► blobs in the store ─► the same file, byte for byte
//! ```

mod address;
pub mod artifact;
mod error;
mod pull;
mod push;
pub mod referrer;

pub use address::{Address, Wanted};
pub use error::OciError;
pub use pull::{Pull, Pulled, pull};
pub use push::{Push, Pushed, push};
