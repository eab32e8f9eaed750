//! A cluster that is made from a backup on fresh hosts: what of the backup becomes the cluster's, and what may not differ.

mod hosts;
mod misfits;

pub use hosts::{dials, live};
pub(crate) use hosts::{only_fresh, refuse_without};
pub use misfits::{Compared, compare};

pub use crate::backup_source::{BackupSource, PAIRS, READ};
