//! The phases of `create`, in the order in which a host goes through them. Each takes the handles of the phases before it and
//! returns its own: later phases depend on these handles, and never search for a step by its name.

mod balancers;
mod clocks;
mod cluster_hosts;
mod control_plane;
mod etcd;
mod hosts;
mod joins;
mod store;

pub use balancers::start_balancers;
pub use clocks::set_clocks;
pub use cluster_hosts::ClusterHosts;
pub use control_plane::{ControlPlane, start};
pub use etcd::{list_members, start_etcd};
pub use hosts::{Prepared, prepare};
pub use joins::{Joined, join};
pub(crate) use store::Serves;
