//! Packages of operating systems: metadata of deb and rpm repositories, trusted keys, and which packages a node needs.
//!
//! No IO: bytes come in, values go out. Fetching belongs to the builder, installing to the ops. One model and one solver
//! serve both families; what differs between them is in [`deb`] and [`rpm`].

pub mod compression;
pub mod deb;
pub mod family;
mod location;
pub mod model;
mod name;
pub mod rpm;
pub mod solve;
pub mod trust;
