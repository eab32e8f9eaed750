//! A restore: a backup that was verified, and the cluster whose etcd gets its data.

use std::io::{Seek as _, SeekFrom};
use std::path::PathBuf;

use async_trait::async_trait;
use kubexm_engine::backup::{ARCHIVE, BackupError, SnapshotName};
use kubexm_engine::link::BlobSource;
use kubexm_plan::Pipeline;
use kubexm_plan::backup::Archive;
use kubexm_recipes::{RestoreContext, restored_cluster};
use kubexm_spec::Digest;
use tokio::io::AsyncRead;
use zeroize::Zeroizing;

use crate::authorities::Authorities;
use crate::backup::OpenedBackup;
use crate::backup_place::LocalBackup;
use crate::bundle::cluster_file::ClusterFile;
use crate::bundle::cluster_source::ClusterSource;
use crate::bundle::opened::Opened;
use crate::confirm::RestoredBackup;
use crate::error::SessionError;
use crate::events;
use crate::fleet::Fleet;
use crate::observe::Observed;
use crate::observe::subject::{LedgerSurvey, Startable, Subject, sealed};
use crate::plan::{Planned, refuse_adopted};
use crate::session::Session;

/// A verified backup, and the cluster that gets it. Only [`Session::restore_source`] creates one.
pub struct RestoreSource {
    source: ClusterSource,
    backup: OpenedBackup,
    /// What the name of the snapshot says that the backup was made of.
    snapshot: Option<SnapshotName>,
}

impl Session<'_> {
    /// Verifies a backup to its end, before any host is contacted: that this home or an operator of a proven cluster.yaml made it, too,
    /// unless another one is allowed. Whoever made a bundle without a trusted signature may have named himself an operator.
    ///
    /// # Errors
    /// It was cut off or altered, is sealed for others, was made by somebody else, or is no backup.
    pub fn restore_source(
        &self,
        source: ClusterSource,
        backup: LocalBackup,
        allow_unauthenticated: bool,
    ) -> Result<RestoreSource, SessionError> {
        let operators = source.cluster().proven_operators();
        let backup = self.open_backup(backup, &operators, allow_unauthenticated, &|_| false)?;
        Ok(RestoreSource { source, backup, snapshot: None })
    }
}

impl RestoreSource {
    pub(crate) const fn of_snapshot(source: ClusterSource, backup: OpenedBackup, name: SnapshotName) -> Self {
        Self { source, backup, snapshot: Some(name) }
    }

    pub(crate) const fn archive(&self) -> Archive {
        self.backup.header.about.archive
    }
}

impl Subject for RestoreSource {
    type Survey = LedgerSurvey;
    const CHANGES: bool = true;

    fn cluster(&self) -> &ClusterFile {
        self.source.cluster()
    }

    fn bundle(&self) -> Option<&Opened> {
        self.source.bundle()
    }

    /// It replaces no bundle.
    fn check_remembered(&self, _: &Session<'_>) -> Result<(), SessionError> {
        Ok(())
    }

    async fn survey(&self, session: &Session<'_>, fleet: &Fleet) -> Result<LedgerSurvey, SessionError> {
        self.source.survey(session, fleet).await
    }
}

impl sealed::Sealed for RestoreSource {}

impl Startable for RestoreSource {
    fn blobs(&self) -> Box<dyn BlobSource> {
        Box::new(BackupBlob::of(&self.backup))
    }

    fn backup_key(&self) -> Option<Zeroizing<Vec<u8>>> {
        Some(self.backup.key.secret())
    }

    fn restores(&self) -> Option<RestoredBackup<'_>> {
        let unauthenticated = self.backup.unauthenticated.as_deref();
        Some(RestoredBackup { about: &self.backup.header.about, unauthenticated, snapshot: self.snapshot.as_ref() })
    }
}

impl<'s> Observed<'s, RestoreSource> {
    /// Plans the restore on the hosts of the cluster.
    ///
    /// # Errors
    /// The backup is of another cluster, or a control plane is missing.
    pub async fn plan_restore(self) -> Result<Planned<'s, RestoreSource>, SessionError> {
        let (site, survey) = self.into_parts();
        refuse_adopted(&site, Pipeline::Restore, &survey).await?;
        let planned = (|| {
            let RestoreSource { source, backup: OpenedBackup { local, header, .. }, snapshot } = &site.subject;
            let cluster = source.cluster();
            let id = restored_cluster(cluster, &survey.facts).ok_or_else(|| {
                let text = "the hosts have no cluster id, so it is not known whether the backup is of this cluster; a restore \
                            is for the hosts that the cluster runs on";
                BackupError::CannotMake(text.to_owned())
            })?;
            // A file that was not called by `spec.etcd.backup` does not say: the question does.
            if snapshot.as_ref().is_none_or(|name| name.of.is_some()) {
                local.named(header.check_cluster(local.folder(), &cluster.name, id))?;
            }
            events::phase(site.session.events, "plan");
            let cx = RestoreContext {
                cluster,
                cluster_digest: cluster.digest(),
                facts: &survey.facts,
                archive: header.about.archive,
                snapshot: header.about.etcd.size,
                id: &site.session.unix_time().to_string(),
            };
            Ok::<_, SessionError>(kubexm_recipes::restore(&cx)?)
        })();
        let plan = site.unless_refused(planned).await?;
        Ok(Planned::of(site, plan, Authorities::default()))
    }
}

/// The archive as the only blob.
pub(crate) struct BackupBlob {
    path: PathBuf,
    digest: Digest,
}

impl BackupBlob {
    pub(crate) fn of(backup: &OpenedBackup) -> Self {
        Self { path: backup.local.folder().join(ARCHIVE), digest: backup.header.about.archive.sha256 }
    }

    /// Whether it is this one.
    pub(crate) fn is(&self, digest: &Digest) -> bool {
        self.digest == *digest
    }
}

#[async_trait]
impl BlobSource for BackupBlob {
    async fn open(&self, digest: Digest, offset: u64) -> std::io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        if digest != self.digest {
            let text = format!("{digest} is not the archive of the backup");
            return Err(std::io::Error::new(std::io::ErrorKind::NotFound, text));
        }
        let mut file = std::fs::File::open(&self.path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(tokio::fs::File::from_std(file)))
    }
}
