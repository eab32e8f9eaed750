//! A host that is out of reach.

use std::time::Duration;

/// A host that is or was out of reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostHost {
    /// Its name.
    pub host: String,
    /// For how long, as far as is known; none if it answers again.
    pub gone: Option<Duration>,
}
