//! A signature of an image, whatever form it came in.

use kubexm_spec::Digest;

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

/// An entry of a transparency log that comes with it.
pub(super) struct LogEntry {
    /// What the log keeps: JSON in its canonical form (RFC 8785).
    pub body: Vec<u8>,
    /// Seconds of Unix time.
    pub integrated_time: i64,
    /// sha256 of the log's public key.
    pub log: Digest,
    pub index: i64,
    /// The log's signature of all this.
    pub promise: Vec<u8>,
}
