//! One file for each pipeline: its phases in their order.

pub mod add_node;
pub mod certs_renew;
pub mod create;
pub mod delete_node;
mod host_removal;
pub mod reset;
pub mod restore;
pub mod upgrade;
