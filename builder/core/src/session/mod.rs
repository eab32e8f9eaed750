//! The builder as a library: what a program, a server or a test calls to read what a bundle needs, lock it and build it
//! ([decision 0022](../../../../docs/decisions/0022-the-builder-is-a-library-with-a-session.md)).
//!
//! A [`Session`] is made of values: an [`Environment`], a [`Network`], credentials, a clock and an event sink. Nothing in it is
//! process-wide, so several sessions run in one process at the same time. Then each stage takes what the one before made:
//!
//! ```text
//! Selection ─Session::needed→ Needed ─Session::origins→ Origins ─lock→ Lock ─build→ Built
//! ```
//!
//! Nothing here reads arguments or the environment, writes to a terminal, or ends the process. The caller installs rustls' provider
//! (`rustls::crypto::ring::default_provider().install_default()`) and brings the runtime.

mod address;
mod build;
mod bundles;
mod cluster;
mod distribution;
mod environment;
mod error;
mod fetching;
pub(crate) mod local_files;
mod lock;
pub mod lockfile;
mod needed;
mod network;
mod zone;

use std::sync::{Arc, Mutex};

use kubexm_spec::event::EventKind;
use kubexm_transport::{Credentials, HttpFile};

use crate::clock;
pub use crate::clock::{Clock, SystemClock};
pub use address::{Network, is_address};
pub use build::Building;
pub use distribution::{Answered, Query};
pub use environment::Environment;
pub use error::SessionError;
pub use fetching::Fetching;
pub use lock::Locking;
pub use needed::{Needed, Selection};
pub use zone::Choice;

/// Takes every event of a session, from any thread; it must be quick.
pub type Events = Arc<dyn Fn(EventKind) + Send + Sync>;

/// Where credentials of registries are from. Asked once for every set of clients, so that a server can give each of its users
/// their own; what it gives is never written to events or errors.
pub trait CredentialSource: Send + Sync {
    /// For all registries.
    fn credentials(&self) -> Credentials;
}

impl CredentialSource for Credentials {
    fn credentials(&self) -> Credentials {
        self.clone()
    }
}

/// What one use of the builder knows of its surroundings.
pub struct Session {
    environment: Environment,
    network: Network,
    credentials: Arc<dyn CredentialSource>,
    clock: Arc<dyn Clock>,
    events: Events,
    /// Bundles that are read over the network.
    open: Mutex<Vec<Arc<HttpFile>>>,
}

impl Session {
    /// A session whose clients log in with `credentials`, and report to `events`.
    pub fn new(
        environment: Environment,
        network: Network,
        credentials: Arc<dyn CredentialSource>,
        clock: Arc<dyn Clock>,
        events: Events,
    ) -> Self {
        Self { environment, network, credentials, clock, events, open: Mutex::default() }
    }

    /// What it was made with.
    pub const fn environment(&self) -> &Environment {
        &self.environment
    }

    /// How bundles at an address are reached.
    pub const fn network(&self) -> &Network {
        &self.network
    }

    /// The time, in seconds of Unix time.
    pub fn now(&self) -> i64 {
        clock::unix_seconds(&*self.clock)
    }

    /// The day in UTC, `2026-11-23`: of `source_date` (seconds of Unix time), or of the clock.
    pub fn today(&self, source_date: Option<i64>) -> String {
        clock::day(source_date.unwrap_or_else(|| self.now()))
    }

    /// Reports an event.
    pub fn report(&self, event: EventKind) {
        (self.events)(event);
    }

    /// Reports an event of work whose only answer is a document: not where nothing else is read ([`Network::quiet`]).
    pub fn report_to_people(&self, event: EventKind) {
        if !self.network.quiet {
            self.report(event);
        }
    }

    /// The same of how far it is.
    pub fn progress(&self, what: &str, (done, total): (u64, Option<u64>), unit: &str) {
        self.report_to_people(EventKind::Progress { what: what.to_owned(), done, total, unit: unit.to_owned() });
    }
}
