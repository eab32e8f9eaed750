//! The phases of `create`, in the order in which a host goes through them. Each takes the handles of the phases before it and
//! gives its own: what comes later waits for these, and never looks for a step by its name.

mod clocks;
mod control_plane;
mod hosts;
mod joins;
mod site;

pub use clocks::set_clocks;
pub use control_plane::{ControlPlane, start};
pub use hosts::{Prepared, prepare};
pub use joins::{Joined, join};
pub use site::Site;
