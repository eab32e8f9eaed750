//! The installer as a library: what a program, a server or a test calls to make a cluster of a bundle, to continue a run or roll
//! it back, and to remove a cluster from its hosts
//! ([decision 0025](../../../../docs/decisions/0025-the-installer-is-a-library-with-stages.md)).
//!
//! A [`Session`] is made of values and traits: folders, an event sink, who answers questions, where secrets are from, how hosts are
//! connected to, a clock. Nothing in it is process-wide, so several sessions run in one process at the same time. Each stage
//! is a type that only the stage before makes:
//!
//! ```text
//! Session::open → Opened ─verify→ Verified ─Session::observe→ Observed ─plan→ Planned ─check→ Checked ─start→ Running ─finish→ Ended
//! Session::cluster → ClusterSource ──────────Session::observe→ …                                (a reset needs no bundle)
//! Session::run_to_resume → Loaded ─verify→ ─resume→ Running        Session::run_to_roll_back → Loaded ─roll_back→ Ended
//! ```
//!
//! Plans of an [`Opened`] bundle can be looked at, and only those of a [`Verified`] one be started:
//!
//! ```compile_fail,E0599
//! # async fn f(planned: kubexm_session::Checked<'_, kubexm_session::Opened>, options: kubexm_session::RunOptions<'_>) {
//! let _ = planned.start(options).await;
//! # }
//! ```
//!
//! Nothing here reads arguments or the environment, writes to a terminal, or ends the process. The caller installs rustls' provider
//! (`rustls::crypto::ring::default_provider().install_default()`) and brings the runtime.

mod access;
mod bundle;
mod cluster_facts;
mod confirm;
mod credentials;
mod error;
mod escaped;
pub mod events;
mod files;
mod fleet;
mod home;
mod identity;
mod link;
mod observe;
mod options;
mod plan;
mod run;
mod session;
mod site;
pub mod support_bundle;

pub use access::Access;
pub use bundle::cluster_file::{ClusterFile, Origin};
pub use bundle::cluster_source::ClusterSource;
pub use bundle::installed::installed_bundle;
pub use bundle::opened::{Opened, Verified};
pub use bundle::plan_file;
pub use bundle::replace::{RefusedReason, ReplaceRefused};
pub use bundle::trust::Provenance;
pub use cluster_facts::ClusterView;
pub use confirm::{Answer, Change, Confirm, Question, UnsignedCluster};
pub use credentials::Credentials;
pub use error::SessionError;
pub use escaped::escaped;
pub use fleet::Unreachable;
pub use home::{ClusterHome, Home};
pub use link::{Connector, HostLink, Ssh};
pub use observe::Observed;
pub use observe::findings::Findings;
pub use observe::subject::{BundleSurvey, LedgerSurvey, Startable, Subject};
pub use options::{BundleOptions, ClusterOptions, Commands, HostOptions, ReplaceOptions, RunOptions, TrustOptions};
pub use plan::{Checked, Planned, Recipe};
pub use run::{Direction, Ended, EndedRun, Loaded, Running};
pub use session::{Clock, Controller, Session, SystemClock};
