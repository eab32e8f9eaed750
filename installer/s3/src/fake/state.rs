//! What a server has, and whom it knows.

use std::collections::BTreeMap;

use super::faults::Fault;

/// Whoever asks.
pub const ACCESS_KEY: &str = "AKIDEXAMPLE";
/// By what he signs.
pub const SECRET_KEY: &str = "wJalrXUtnFEMI+K7MDENG/bPxRfiCYEXAMPLEKEY";
/// The bucket that is there.
pub const BUCKET: &str = "backups";
/// Where it is.
pub const REGION: &str = "lab-1";

/// An upload that was not completed.
#[derive(Clone, Debug)]
pub struct Upload {
    /// The object's name.
    pub key: String,
    /// When it began, in seconds of Unix time.
    pub began: i64,
    /// By their numbers.
    pub parts: BTreeMap<u32, Vec<u8>>,
}

/// What a server has.
#[derive(Debug, Default)]
pub struct State {
    /// Objects of [`BUCKET`].
    pub objects: BTreeMap<String, Vec<u8>>,
    /// By their ids.
    pub uploads: BTreeMap<String, Upload>,
    /// `GET /backups/a?b=c`, each request that came, as it came.
    pub asked: Vec<String>,
    /// What goes wrong next.
    pub faults: Vec<Fault>,
    /// By how many seconds its clock is ahead.
    pub ahead: i64,
    /// The session token that it wants.
    pub token: Option<String>,
    /// How many entries a page of a listing has.
    pub page: usize,
    /// Uploads that began.
    pub(super) count: u64,
}
