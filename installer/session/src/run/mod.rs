//! Execution of a plan, from the confirmation to the end: executed, resumed, rolled back; one driver for every
//! pipeline.

mod adopted;
mod agents;
mod driver;
mod ended;
mod kubeconfig;
mod loaded;
pub(crate) mod login;
mod out_of_reach;
mod recorded;
mod report;
mod running;
pub(crate) mod secrets;
mod select;
mod status;

pub use ended::{Direction, Ended, EndedRun};
pub(crate) use loaded::of_another;
pub(crate) use select::to_continue;

pub use loaded::{CreateFromBackup, Loaded, Restore};
pub use recorded::RecordedCommand;
pub use report::RunReport;
pub use running::Running;
pub use status::{ClusterStatus, RecordedRun, status_document};
