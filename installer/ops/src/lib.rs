//! Ops: observe and converge one thing, on the machine on which this code runs.
//!
//! [`dispatch`] calls the implementation of an op, [`step`] executes a whole step with the node's ledger; [`probe`],
//! [`facts`] and [`evidence`] only observe. [`Machine`] is the real one or one rooted in a directory with
//! [`fake::RootedSystem`]; both run the same code.

mod adopted;
pub mod age_file;
mod api_server_etcd;
mod archived;
pub mod authority;
pub mod backup;
#[cfg(test)]
mod cases;
pub mod cluster_facts;
mod connections;
mod container;
mod containers;
pub mod converge;
mod crictl;
mod ctr;
pub mod depot_content;
mod difference;
mod digest_cache;
mod dirfd;
pub mod dispatch;
mod docker;
mod dpkg_lock;
pub mod drift;
mod environment;
pub mod error;
pub mod etcd_check;
mod etcd_data;
mod etcd_keys;
mod etcd_unit;
pub mod evidence;
pub mod facts;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
pub mod fault;
mod folder;
mod fsio;
mod given;
mod harbor;
mod image_list;
pub mod installed_addons;
mod installed_releases;
mod isulad;
mod kept_image;
mod kube;
pub mod ledger;
pub mod machine;
mod machine_files;
mod managed_edit;
mod node_record;
mod oci_archive;
mod open_vswitch;
mod ops;
mod own_etcd;
mod own_state;
pub mod path_state;
pub mod paths;
pub mod probe;
pub mod provide;
mod push_images;
pub mod real;

pub mod snapshot;
mod started;
pub mod step;
pub mod survey;
mod survey_scope;
pub mod system;
mod systemd;
pub mod teardown;
pub mod timers;
mod transient;
mod write_time;

pub use converge::{Converge, Wave};
pub use error::OpError;
pub use fault::{FaultPoint, Faults};
pub use ledger::Ledger;
pub use machine::Machine;
pub use system::ActContext;
