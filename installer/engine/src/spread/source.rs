//! Where blobs come from.

use std::net::SocketAddr;

/// Who sends blobs to a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// Another host of the run.
    Host(SocketAddr),
    /// The URL of one.
    Depot(String),
    Controller,
}

impl Source {
    pub(super) const fn is_host(&self) -> bool {
        matches!(self, Self::Host(_))
    }
}
