//! A backup that was verified to its end, as something that a cluster is made from.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use kubexm_engine::backup::{ARCHIVE, BackupHeader, BackupKey, verify_archive, verify_contents};
use kubexm_engine::link::BlobSource;
use kubexm_recipes::FromBackup;
use kubexm_spec::Digest;
use tokio::io::AsyncRead;
use zeroize::Zeroizing;

use crate::bundle::blobs::BundleBlobs;
use crate::bundle::opened::Opened;
use crate::confirm::RestoredBackup;
use crate::error::SessionError;
use crate::events;
use crate::restore::BackupBlob;
use crate::session::Session;

/// A verified backup. Only [`Session::open_backup`] creates one.
#[derive(Debug)]
pub struct OpenedBackup {
    pub(crate) folder: PathBuf,
    pub(crate) header: BackupHeader,
    pub(crate) key: BackupKey,
    /// Why it is not known who made it.
    pub(crate) unauthenticated: Option<String>,
}

impl Session<'_> {
    /// Verifies a backup to its end: also that this home or one of these operators made it, unless another one is allowed.
    ///
    /// # Errors
    /// It was cut off or altered, is sealed for others, was made by somebody else, or is no backup.
    pub(crate) fn open_backup(
        &self,
        folder: &Path,
        operators: &[String],
        allow_unauthenticated: bool,
    ) -> Result<OpenedBackup, SessionError> {
        let header = BackupHeader::read(folder)?;
        events::phase(self.events, "verify");
        verify_archive(folder, &header.about)?;
        let identity = self.home.operator(self.credentials)?;
        let key = header.open(folder, &identity)?;
        let unauthenticated = match header.authenticate(folder, &identity, operators) {
            Err(error) if allow_unauthenticated => Some(error.to_string()),
            checked => checked.map(|()| None)?,
        };
        verify_contents(folder, &header.about, &key)?;
        Ok(OpenedBackup { folder: folder.to_owned(), header, key, unauthenticated })
    }

    /// The same bundle, for the cluster of a backup. The backup is verified to its end, before any host is contacted.
    ///
    /// # Errors
    /// As of a restore; the bundle's cluster.yaml names operators only if it is proven.
    pub fn from_backup(
        &self,
        opened: Opened,
        folder: &Path,
        allow_unauthenticated: bool,
    ) -> Result<Opened, SessionError> {
        let backup = self.open_backup(folder, &opened.cluster().proven_operators(), allow_unauthenticated)?;
        Ok(opened.of_backup(backup))
    }
}

impl OpenedBackup {
    /// As recipes see it.
    pub(crate) fn described(&self) -> FromBackup<'_> {
        let about = &self.header.about;
        FromBackup {
            archive: about.archive,
            snapshot: about.etcd.size,
            cluster: &about.cluster,
            id: about.cluster_id,
            kubernetes: about.kubernetes.as_deref(),
            nodes: &about.nodes,
        }
    }

    pub(crate) fn secret(&self) -> Zeroizing<Vec<u8>> {
        self.key.secret()
    }

    pub(crate) fn shown(&self) -> RestoredBackup<'_> {
        RestoredBackup { about: &self.header.about, unauthenticated: self.unauthenticated.as_deref() }
    }

    /// The archive, beside the blobs of a bundle.
    pub(crate) fn beside(&self, bundle: BundleBlobs) -> Box<dyn BlobSource> {
        let archive = BackupBlob::of(self.folder.join(ARCHIVE), self.header.about.archive.sha256);
        Box::new(Both { digest: self.header.about.archive.sha256, archive, bundle })
    }
}

struct Both {
    digest: Digest,
    archive: BackupBlob,
    bundle: BundleBlobs,
}

#[async_trait]
impl BlobSource for Both {
    async fn open(&self, digest: Digest, offset: u64) -> std::io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        match digest == self.digest {
            true => self.archive.open(digest, offset).await,
            false => self.bundle.open(digest, offset).await,
        }
    }
}
