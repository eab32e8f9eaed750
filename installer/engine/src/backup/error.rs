//! Why a backup cannot be used.

use std::path::Path;

use kubexm_plan::ClusterId;
use kubexm_spec::{ExitCode, ExitError};

pub(super) const SCHEMA: &str = "kubexm.io/backup/v1";
/// The file that says what a backup is.
pub const HEADER: &str = "backup.json";
/// The encrypted archive.
pub const ARCHIVE: &str = "archive.age";

/// Why a backup cannot be used. No text shows a key.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is none.
    #[error("{path} is no backup: {reason}; name the folder (or s3://BUCKET/PREFIX) with {HEADER} and {ARCHIVE}")]
    NotThere { path: String, reason: String },
    /// A newer program wrote it.
    #[error(
        "{path}: its schema is {schema}, and this program reads {SCHEMA}: use the kubexm-install that made it, or a newer one"
    )]
    Newer { path: String, schema: String },
    /// It is not what was written.
    #[error("{path} is damaged: {reason}; use another backup")]
    Damaged { path: String, reason: String },
    /// The archive was cut off.
    #[error("{path} was cut off: it has {found} bytes of {wanted}; copy it again, or use another backup")]
    Cut { path: String, found: u64, wanted: u64 },
    /// What is written outside is not what was sealed.
    #[error("{path}: somebody changed it: what it says is not what was sealed; use another backup")]
    Changed { path: String },
    /// Nobody who is trusted has made it.
    #[error(
        "{path} is NOT AUTHENTICATED: {why}. Whoever can write to its folder may have made it, and what is in it would be the \
         cluster's. Use another backup; if you are certain where it comes from, name whoever made it (in spec.operators of \
         cluster.yaml, which counts if it is given with -f or a trusted key signed its bundle; for `backup verify` with --sender), or take it with --allow-unauthenticated"
    )]
    NotAuthenticated { path: String, why: String },
    /// It is of another cluster.
    #[error(
        "{path} is a backup of cluster {found} (id {found_id}), and not of {wanted} (id {wanted_id}): use a backup of this cluster; one \
         that was made anew gets the data of the earlier one only on fresh hosts, with `kubexm-install create --from-backup`"
    )]
    ClusterMismatch { path: String, found: String, found_id: ClusterId, wanted: String, wanted_id: ClusterId },
    /// It is sealed for others.
    #[error(
        "{path} is sealed for {for_whom}, and not for the identity of this home ({own}): use the home of one of them, or add the \
         line of an identity that was kept elsewhere to this home's identity file"
    )]
    ForOthers { path: String, for_whom: String, own: String },
    /// A file is no snapshot of etcd.
    #[error(
        "{path} is no snapshot of etcd: {reason}; name a file of spec.etcd.backup (etcd-….db, etcd-….db.age), of an upgrade (before-….db) or of \
         `etcdctl snapshot save`"
    )]
    NoSnapshot { path: String, reason: String },
    /// A snapshot is encrypted for others.
    #[error(
        "{path} is encrypted, and not for the identity of this home ({own}): use the home of one of spec.etcd.backup.recipients, or add \
         the line of an identity that was kept elsewhere to this home's identity file"
    )]
    SnapshotForOthers { path: String, own: String },
    /// A snapshot is of another cluster.
    #[error("{path} is a snapshot of cluster {found} by its name, and not of {wanted}")]
    OtherCluster { path: String, found: String, wanted: String },
    /// A snapshot says not who made it.
    #[error(
        "{path} is NOT AUTHENTICATED: a snapshot of etcd does not say who made it, also an encrypted one, and only its name says of which \
         cluster it is and when it was made. Whoever could write to its folders, here and on the host, may have made it, and what is in it \
         would be the cluster's. If you are certain where it comes from, take it with --allow-unauthenticated; a backup of \
         `kubexm-install backup` does say who made it"
    )]
    Unproven { path: String },
    /// What is in it is to go to a folder that is there.
    #[error(
        "{path} is there already; name a folder that does not exist: what is in the backup is written to it in clear"
    )]
    Taken { path: String },
    /// What an extraction that was killed has left.
    #[error(
        "{path} is what an extraction that was cut off has left, with keys of a cluster in clear: remove it, then run again"
    )]
    Left { path: String },
    /// It cannot be made.
    #[error("no backup can be made: {0}")]
    CannotMake(String),
    /// It cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    Disk { action: &'static str, path: String, source: std::io::Error },
}

impl BackupError {
    /// Of a backup that was read in a folder, and is kept at another place.
    #[must_use]
    pub fn kept_at(mut self, folder: &Path, place: &str) -> Self {
        let path = match &mut self {
            Self::NotThere { path, .. }
            | Self::Newer { path, .. }
            | Self::Damaged { path, .. }
            | Self::Cut { path, .. }
            | Self::Changed { path }
            | Self::NotAuthenticated { path, .. }
            | Self::ClusterMismatch { path, .. }
            | Self::NoSnapshot { path, .. }
            | Self::SnapshotForOthers { path, .. }
            | Self::OtherCluster { path, .. }
            | Self::Unproven { path }
            | Self::ForOthers { path, .. } => path,
            // That is about the folder.
            Self::CannotMake(_) | Self::Taken { .. } | Self::Left { .. } | Self::Disk { .. } => return self,
        };
        if let Some(rest) = path.strip_prefix(&shown(folder)) {
            *path = format!("{place}{rest}");
        }
        self
    }
}

impl ExitError for BackupError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Disk { .. } => ExitCode::Disk,
            Self::CannotMake(_) | Self::Taken { .. } | Self::Left { .. } => ExitCode::Preflight,
            _ => ExitCode::BackupUnusable,
        }
    }
}

pub(super) fn disk<'p>(action: &'static str, path: &'p Path) -> impl Fn(std::io::Error) -> BackupError + 'p {
    move |source| BackupError::Disk { action, path: shown(path), source }
}

pub(super) fn shown(path: &Path) -> String {
    path.display().to_string().escape_default().collect()
}
