//! The engine executes a plan: DAG, journal, resume, and the links to the machines.
//!
//! ```text
//! CheckedPlan ─Run::create→ run folder ─execute(links)→ journal.jsonl ─fold→ Replay ─┬─ Status (JSON)
//!                                          └ crash, Ctrl-C or failure: Run::load ─┘   └─ report.md
//! ```

pub mod backup;
pub mod clock;
mod controller;
mod delivery;
pub mod drift;
pub mod error;
pub mod events;
pub mod execute;
mod failure_domain;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod hold;
pub mod host_timer;
pub mod journal;
pub mod kubeconfig;
pub mod link;
pub mod local;
pub mod lock;
mod lost_host;
mod one_holder;
pub mod operator;
pub mod options;
mod pem;
pub mod pki;
mod pki_files;
mod pki_folder;
mod reach;
mod record;
pub mod registry_check;
pub mod replay;
pub mod report;
pub mod requests;
pub mod resume;
pub mod run;
mod run_context;
mod schedule;
pub mod sealed;
mod sender;
pub mod signed;
#[cfg(any(test, feature = "testing"))]
pub mod sim;
pub mod site_ca;
pub mod slots;
mod spread;
pub mod status;
mod step_runner;
mod survey_cache;
mod transitions;
mod undo;
mod undo_order;
mod undo_scope;
pub mod waits;

pub use controller::controller_link;
pub use error::EngineError;
pub use events::{EventSink, FanOut};
pub use execute::{Drill, ExecuteOptions, Links, OnFailure, Outcome, execute, roll_back};
pub use hold::lock_hosts;
pub use local::LocalLink;
pub use lock::ClusterLock;
pub use lost_host::LostHost;
pub use operator::{OperatorIdentity, Passphrase};
pub use pki::ClusterPki;
pub use pki_files::PkiFiles;
pub use resume::{resume, rollback};
pub use run::{Belongs, Run, RunId};
pub use sealed::{Maker, SealedAuthorities, SealedError};
pub use slots::SlotSource;
pub use status::Status;
