//! One file for each pipeline: its phases in their order. The crate exports what is public here.

mod add_node;
mod certs_renew;
mod create;
mod delete_node;
mod host_removal;
mod reset;
mod restore;
mod upgrade;

pub use add_node::{absent, add_node};
pub use certs_renew::{Renew, RenewContext, Renewed, certs_renew};
pub use create::{create, create_unsupported};
pub use delete_node::{DeleteContext, Deletion, delete_node};
pub use reset::{ResetContext, ResetHost, reset};
pub use restore::{RestoreContext, restore, restored_cluster};
pub use upgrade::{PauseAfter, Upgrade, UpgradeOptions, upgrade};
