//! A host that is out of reach.

use std::time::Duration;

/// A host that is out of reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostHost {
    /// Its name.
    pub host: String,
    /// For how long, as far as is known.
    pub gone: Duration,
}
