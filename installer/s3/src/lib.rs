//! A client of S3 with what backups need of it: objects are written whole or not at all, read in pieces, listed and deleted.
//!
//! What a server answers is somebody else's: its documents, texts, sizes and redirects have limits, and no error shows a key, a signature
//! or the query of an address. A signed request goes to the named server and to no other.
//!
//! ```text
//! S3Address, Endpoint, S3Credentials, S3Options (values) → S3Client → put, upload (in parts), download, list, delete
//! ```
//!
//! The caller installs rustls' provider, as for other clients of ours.

mod address;
mod call;
mod classify;
mod client;
mod credentials;
mod download;
mod encode;
mod error;
#[cfg(feature = "testing")]
pub mod fake;
pub mod fuzzing;
mod objects;
mod options;
mod sign;
mod upload;
mod watch;
mod xml;

pub use address::{AddressError, S3Address, SCHEME};
pub use client::S3Client;
pub use credentials::{CredentialsError, S3Credentials};
pub use download::Sink;
pub use error::S3Error;
pub use objects::{Listed, OpenUpload};
pub use options::{Addressing, Endpoint, Patience, S3Options};
pub use upload::PART;
pub use watch::{Moved, Unwatched, Watch};
