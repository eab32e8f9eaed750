//! A backup of a cluster in a folder of the controller: `backup.json`, which says of which cluster it is and for whom, and
//! `archive.age`, which a control plane has encrypted.
//!
//! Each archive has a key of its own, which is in `backup.json`, sealed (age) for the operators. So no host has what opens it,
//! and for a restore the archive goes to the hosts as it is, with its key and not the operator's.
//! Who made it is authenticated: a restore gives the cluster to whoever wrote what is in the archive.

mod archive;
mod error;
mod extract;
mod header;
mod snapshot;

pub use archive::{Contents, read_contents, verify_archive, verify_contents};
pub use error::{ARCHIVE, BackupError, HEADER};
pub use extract::extract_contents;
pub use header::{BackupAbout, BackupHeader, BackupKey, HEADER_LIMIT};
pub use snapshot::{SnapshotFile, SnapshotName};
