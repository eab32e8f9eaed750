//! The request for a flat repository, and its content.

use kubexm_packages::rpm::file::Rpm;
use kubexm_packages::trust::{Keyring, Policy, SiteKey};
use kubexm_spec::{Digest, Family};

/// What is asked of a repository.
pub struct Options<'a> {
    /// Signs the metadata.
    pub key: &'a SiteKey,
    /// What the metadata is dated, in seconds of Unix time.
    pub date: i64,
    /// The family that the packages must be of; any when none.
    pub family: Option<Family>,
    /// Whose signatures each .rpm must carry; with none any signer is accepted, and what dnf would not trust is
    /// reported.
    pub vendor: Option<Vendor>,
    /// Today, in seconds of Unix time: keys may have expired.
    pub now: i64,
}

/// Who signs packages.
pub struct Vendor {
    /// The public keys.
    pub keys: Keyring,
    /// The same, ASCII-armored.
    pub armored: String,
    /// What is asked of signatures.
    pub policy: Policy,
}

/// A package file of the folder.
#[derive(Debug)]
pub struct Listed {
    /// Its name in the folder.
    pub file: String,
    /// In bytes.
    pub size: u64,
    /// Of the file.
    pub digest: Digest,
    /// Fingerprint of the key that signed it: the vendor's, where that was asked, or our own.
    pub signer: Option<String>,
    /// Why dnf would refuse it with its checks on: it carries no signature of a key that is beside the metadata.
    pub doubt: Option<String>,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// The control paragraph.
    Deb(String),
    Rpm(Box<Rpm>),
}
