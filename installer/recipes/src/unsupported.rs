//! What of a cluster no recipe installs yet: reported before a host is touched, all of it at once.
//!
//! A pipeline asks first, so that nothing that cluster.yaml says is ever left out in silence: a field either changes the plan or
//! is named here (`tests/it/fields.rs` tries every one).

use kubexm_spec::cluster::Cluster;
pub use kubexm_spec::unsupported::{Unsupported, check};

use crate::error::RecipeError;

/// Refuses a cluster of which something would be left out.
pub fn refuse(cluster: &Cluster) -> Result<(), RecipeError> {
    let all = check(cluster);
    if all.is_empty() { Ok(()) } else { Err(RecipeError::NotInstalled { all }) }
}

/// Refuses to look at the hosts of a cluster of which preflight would leave something out.
pub fn refuse_preflight(cluster: &Cluster) -> Result<(), RecipeError> {
    if check(cluster).iter().all(Unsupported::has_preflight) { Ok(()) } else { refuse(cluster) }
}
