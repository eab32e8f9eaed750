//! A signature of an image, whatever form it came in.

use kubexm_spec::Digest;

use super::log_entry::LogEntry;

/// What was read; nothing of it is verified.
pub(super) struct Signed {
    /// The images that it says it is about.
    pub about: Vec<Digest>,
    /// The repository that it names.
    pub repository: Option<String>,
    /// The bytes that are signed.
    pub message: Vec<u8>,
    /// The payload in them, by which a log names it.
    pub payload: Digest,
    pub signature: Vec<u8>,
    pub form: Form,
    /// In DER.
    pub certificate: Option<Vec<u8>>,
    pub entries: Vec<LogEntry>,
}

/// Which form it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The payload itself is signed.
    SimpleSigning,
    /// The payload is in an envelope (DSSE).
    Envelope,
}
