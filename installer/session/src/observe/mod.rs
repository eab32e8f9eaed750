//! Observation of the hosts, before anything is planned.

mod external_etcd;
mod external_registry;
pub mod findings;
pub(crate) mod mesh;
mod nfs;
mod observed;
mod outside;
mod site_ca;
pub mod subject;

pub use observed::Observed;
