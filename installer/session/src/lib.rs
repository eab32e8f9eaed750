//! The installer as a library for programs, servers and tests: creates a cluster from a bundle, resumes a run or rolls
//! it back, and removes a cluster from its hosts ([decision
//! 0025](../../../../docs/decisions/0025-the-installer-is-a-library-with-stages.md)).
//!
//! A [`Session`] consists of values and traits: folders, an event sink, answers to questions, sources of secrets,
//! connections to hosts, a clock. Nothing in it is process-wide, so several sessions can run in one process. Each stage
//! is a type that only the previous stage creates:
//!
//! ```text
//! Session::open → Opened ─verify→ Verified ─Session::observe→ Observed ─plan→ Planned ─check→ Checked ─start→ Running ─finish→ Ended
//! Session::cluster → ClusterSource ──────────Session::observe→ …                                (a reset needs no bundle)
//! Session::run_to_resume → Loaded<Opened> ─verify→ Loaded<Verified> ─resume→ Running
//! Session::{run_to_roll_back, ledger_run_to_roll_back} → Loaded ─roll_back→ Ended
//! ```
//!
//! A plan from an [`Opened`] bundle can be inspected, but only one from a [`Verified`] bundle can be started:
//!
//! ```compile_fail,E0599
//! # async fn f(planned: kubexm_session::Checked<'_, kubexm_session::Opened>, options: kubexm_session::RunOptions<'_>) {
//! let _ = planned.start(options).await;
//! # }
//! ```
//!
//! Nothing here reads arguments or the environment, writes to a terminal, or ends the process. The caller installs
//! rustls' provider (`rustls::crypto::ring::default_provider().install_default()`) and provides the async runtime.

mod access;
mod addons;
mod addons_diff;
mod adoption;
mod authorities;
mod backup;
mod backup_limit;
mod backup_place;
mod bundle;
mod certificate_requests;
mod cluster_facts;
mod comparison;
mod confirm;
mod connected_cluster;
mod credentials;
mod diff;
mod drift;
mod error;
mod escaped;
pub mod events;
mod fields;
mod file_system;
mod files;
mod fleet;
mod from_backup;
mod home;
mod identity;
mod link;
mod medium;
mod observe;
mod operator;
mod options;
mod plan;
mod registry;
mod reset_etcd;
mod restore;
mod retention;
mod run;
mod session;
mod site_certificates;
mod snapshot;
pub mod support_bundle;

pub use access::Access;
pub use addons::AddonsView;
pub use addons_diff::{AddonDiff, AddonsDiff, Change as AddonChange, Changed, ObjectDiff};
pub use adoption::AdoptionView;
pub use authorities::AuthoritiesError;
pub use backup::{BackedUp, BackupOptions, VerifiedBackup};
pub use backup_place::{BackupPlace, LocalBackup};
pub use bundle::cluster_file::{ClusterFile, Origin};
pub use bundle::cluster_source::{ClusterSource, check_hosts};
pub use bundle::installed::installed_bundle;
pub use bundle::inventory::inventory;
pub use bundle::opened::{Opened, Verified};
pub use bundle::plan_file;
pub use bundle::replace::{RefusedReason, ReplaceRefused};
pub use bundle::trust::Provenance;
pub use certificate_requests::{RequestOptions, RequestState, Requested, RequestsMade};
pub use cluster_facts::ClusterView;
pub use comparison::Comparison;
pub use confirm::{Answer, Change, Confirm, OutOfReach, Question, RestoredBackup, UnsignedCluster, WithoutThem};
pub use credentials::Credentials;
pub use error::SessionError;
pub use escaped::escaped;
pub use fields::ChangedField;
pub use file_system::{FileSystems, Mounted};
pub use fleet::Unreachable;
pub use from_backup::FromBackup;
pub use home::{ClusterHome, Home};
pub use kubexm_engine::LostHost;
pub use kubexm_engine::drift::Drift;
pub use kubexm_recipes::adoption::Origin as AdoptedFrom;
pub use kubexm_recipes::{
    Adoption, AdoptionItem, Bundle as RegistryBundle, Drain, Keep, PauseAfter, Recipe, Renew, UpgradeOptions, Verdict,
};
pub use link::{Connector, HostLink, Ssh};
pub use medium::Medium;
pub use observe::Observed;
pub use observe::findings::Findings;
pub use observe::subject::{BundleSurvey, LedgerSurvey, Startable, Subject};
pub use options::{BundleOptions, ClusterOptions, Commands, HostOptions, ReplaceOptions, RunOptions, TrustOptions};
pub use plan::{Checked, Planned};
pub use registry::{RegistryView, bundle_manifest};
pub use reset_etcd::{EtcdBackup, ResetData};
pub use restore::RestoreSource;
pub use run::{
    ClusterStatus, CreateFromBackup, Direction, Ended, EndedRun, Loaded, RecordedCommand, RecordedRun, Restore,
    RunReport, Running, status_document,
};
pub use session::{Clock, Controller, Session, SystemClock};
