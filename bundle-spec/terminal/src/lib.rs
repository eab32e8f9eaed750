//! How both programs talk to people and to machines: one stream of events, shown as a progress display on a terminal,
//! as plain lines elsewhere, or as one JSON object a line.
//!
//! People read standard error; standard output holds only answers and `--json`.

mod display;
mod failure;
mod generated;
mod help;
#[cfg(any(test, feature = "testing"))]
mod help_faults;
mod pace;
mod text;
mod usage;
mod waits;

pub use display::{Display, Mode};
pub use failure::{Failure, finish};
pub use generated::{Shell, completions, man_pages};
pub use help::{exit_code_table, reflowed};
#[cfg(any(test, feature = "testing"))]
pub use help_faults::{help_faults, without_json};
pub use text::{bytes, seconds, shown_date};
pub use usage::end_of_arguments;
