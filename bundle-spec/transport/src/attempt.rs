//! How one try at an address failed, and whether another may help.

use std::time::Duration;

use crate::TransportError;

/// How one try failed.
pub(crate) enum Attempt {
    /// Another try may help.
    Again { error: TransportError, why: Why },
    /// The answer is final.
    Fatal(TransportError),
}

/// Why a try failed that others may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The connection broke, or the answer was that it cannot be done now.
    Failed,
    /// Nothing came for as long as is waited.
    Silent,
    /// It said when to come back (`Retry-After`).
    Reported(Duration),
}

impl From<TransportError> for Attempt {
    fn from(error: TransportError) -> Self {
        Self::Fatal(error)
    }
}
