//! A restore: a backup that was verified, and the cluster whose etcd gets its data.

use std::io::{Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use kubexm_engine::backup::{ARCHIVE, BackupError, BackupHeader, BackupKey, verify_archive, verify_contents};
use kubexm_engine::link::BlobSource;
use kubexm_plan::backup::Archive;
use kubexm_recipes::{RestoreContext, restored_cluster};
use kubexm_spec::Digest;
use tokio::io::AsyncRead;
use zeroize::Zeroizing;

use crate::authorities::Authorities;
use crate::bundle::cluster_file::ClusterFile;
use crate::bundle::cluster_source::ClusterSource;
use crate::bundle::opened::Opened;
use crate::confirm::RestoredBackup;
use crate::error::SessionError;
use crate::events;
use crate::fleet::Fleet;
use crate::observe::Observed;
use crate::observe::subject::{LedgerSurvey, Startable, Subject, sealed};
use crate::plan::Planned;
use crate::session::Session;

/// A verified backup, and the cluster that gets it. Only [`Session::restore_source`] creates one.
pub struct RestoreSource {
    source: ClusterSource,
    folder: PathBuf,
    header: BackupHeader,
    key: BackupKey,
    /// Why it is not known who made it.
    unauthenticated: Option<String>,
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
        folder: &Path,
        allow_unauthenticated: bool,
    ) -> Result<RestoreSource, SessionError> {
        let header = BackupHeader::read(folder)?;
        events::phase(self.events, "verify");
        verify_archive(folder, &header.about)?;
        let identity = self.home.operator(self.credentials)?;
        let key = header.open(folder, &identity)?;
        let operators = source.cluster().proven_operators();
        let unauthenticated = match header.authenticate(folder, &identity, &operators) {
            Err(error) if allow_unauthenticated => Some(error.to_string()),
            checked => checked.map(|()| None)?,
        };
        verify_contents(folder, &header.about, &key)?;
        Ok(RestoreSource { source, folder: folder.to_owned(), header, key, unauthenticated })
    }
}

impl RestoreSource {
    pub(crate) const fn archive(&self) -> Archive {
        self.header.about.archive
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
        Box::new(BackupBlob { path: self.folder.join(ARCHIVE), digest: self.header.about.archive.sha256 })
    }

    fn backup_key(&self) -> Option<Zeroizing<Vec<u8>>> {
        Some(self.key.secret())
    }

    fn restores(&self) -> Option<RestoredBackup<'_>> {
        Some(RestoredBackup { about: &self.header.about, unauthenticated: self.unauthenticated.as_deref() })
    }
}

impl<'s> Observed<'s, RestoreSource> {
    /// Plans the restore on the hosts of the cluster.
    ///
    /// # Errors
    /// The backup is of another cluster, or a control plane is missing.
    pub async fn plan_restore(self) -> Result<Planned<'s, RestoreSource>, SessionError> {
        let (site, survey) = self.into_parts();
        let planned = (|| {
            let RestoreSource { source, folder, header, .. } = &site.subject;
            let cluster = source.cluster();
            let id = restored_cluster(cluster, &survey.facts).ok_or_else(|| {
                let text = "the hosts have no cluster id, so it cannot be told whether the backup is of this cluster; a restore \
                            is for the hosts that the cluster runs on";
                BackupError::CannotMake(text.to_owned())
            })?;
            header.check_cluster(folder, &cluster.name, id)?;
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
struct BackupBlob {
    path: PathBuf,
    digest: Digest,
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
