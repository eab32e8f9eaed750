//! Resumable, verified transfer into a content-addressed store that survives a kill at any moment and is shared by
//! concurrent programs.
//!
//! Three doors: [`HttpClient`] for files, [`Registry`] for images in registries, [`Layout`] for images in a folder. Each
//! takes candidates in order and ends in the [`Store`] or in a [`TransportError`] that says what every candidate did.
//!
//! The crate installs no global state, and reads of the environment what `reqwest` does, the proxies (`HTTPS_PROXY` and its
//! kin, the operator's choice): it uses them, and we name them where they refuse. A program that fetches over https installs
//! rustls' provider first: `rustls::crypto::ring::default_provider().install_default()`.

mod address;
mod attempt;
mod basic_login;
mod bearer;
mod bounded;
mod candidate;
pub mod checksum;
mod classify_error;
mod clients;
mod conditional;
mod error;
pub mod gc;
pub mod http;
mod identity;
pub mod layout;
mod lease;
mod medium;
pub mod oci;
mod options;
pub mod partial;
mod pem;
mod proxy;
pub mod range;
mod response;
mod retries;
mod schedule;
mod sniff;
mod source;
pub mod store;
mod transfer;
mod watch;
pub mod web_volumes;

pub use basic_login::BasicLogin;
pub use bearer::Bearer;
pub use candidate::{Fetched, FileCandidate, Head, Want};
pub use conditional::{Answer, Validators};
pub use error::TransportError;
pub use http::HttpClient;
pub use identity::Identity;
pub use layout::Layout;
pub use lease::Lease;
pub use medium::SCHEME as LOCAL_SCHEME;
pub use oci::{
    Credentials, ImageCandidate, OciRegistry, Quota, RawManifest, RegistriesConf, Registry, Repository, ResolvedImage,
};
pub use options::{HttpOptions, MutualTls};
pub use range::HttpFile;
pub use sniff::{by_content_type as page_by_content_type, by_first_bytes as page_by_first_bytes};
pub use store::{LOCAL_FOLDER, Store};
pub use watch::Watch;

/// Reported as bytes arrive: bytes so far, and in all when known. Called often; it must be quick.
pub type Progress<'a> = dyn Fn(u64, Option<u64>) + Send + Sync + 'a;
