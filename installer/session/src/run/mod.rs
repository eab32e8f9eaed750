//! A plan from the question to its end: executed, resumed, rolled back; one driver for every pipeline.

mod agents;
mod driver;
mod ended;
mod kubeconfig;
mod loaded;
mod running;
mod secrets;
mod select;

pub use ended::{Direction, Ended, EndedRun};
pub use loaded::Loaded;
pub use running::Running;
