//! Observation of the hosts, before anything is planned.

mod external_etcd;
mod external_registry;
pub mod findings;
mod mesh;
mod observed;
pub mod subject;

pub use observed::Observed;
