//! The engine carries a plan out: DAG, journal, resume, and the links to the machines.
//!
//! ```text
//! CheckedPlan ─Run::create→ run folder ─execute(links)→ journal.jsonl ─fold→ Replay ─┬─ Status (JSON)
//!                                          └ crash, Ctrl-C or failure: Run::load ─┘   └─ report.md
//! ```

mod carry;
pub mod clock;
pub mod error;
pub mod events;
pub mod execute;
mod files;
pub mod journal;
pub mod link;
pub mod local;
pub mod lock;
mod pem;
pub mod pki;
pub mod replay;
pub mod report;
pub mod resume;
pub mod run;
mod schedule;
pub mod sim;
pub mod slots;
pub mod status;

pub use error::EngineError;
pub use events::{EventSink, FanOut};
pub use execute::{ExecuteOptions, Links, OnFailure, Outcome, execute};
pub use local::LocalLink;
pub use lock::ClusterLock;
pub use pki::ClusterPki;
pub use resume::resume;
pub use run::{Belongs, Run, RunId};
pub use slots::SlotSource;
pub use status::Status;
