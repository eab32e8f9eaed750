//! Where backups are kept: a folder of this machine, or a bucket of S3. Everything else works on a folder: a backup is made and read back
//! in one before it goes to a bucket, and one of a bucket is fetched into one before it is used.

mod bucket;
mod folder;
mod local;
mod partial;
mod staging;
#[cfg(test)]
mod tests;
mod transfers;

use std::fmt;
use std::path::{Path, PathBuf};

use kubexm_engine::backup::BackupHeader;
use kubexm_s3::{S3Address, S3Client, S3Options};

use self::bucket::Bucket;
pub use self::local::LocalBackup;
pub(crate) use self::partial::Partial;
use self::staging::Staging;
use self::transfers::Transfers;
use crate::error::SessionError;
use crate::retention::{Candidates, Kept, Others};
use crate::session::Session;

/// Where backups are kept, or where one of them is.
#[derive(Clone, Debug)]
pub enum BackupPlace {
    /// A folder of this machine.
    Folder(PathBuf),
    /// A part of a bucket, and how its server is asked.
    S3 { address: S3Address, options: Box<S3Options> },
}

impl fmt::Display for BackupPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::S3 { address, .. } => write!(f, "{address}"),
        }
    }
}

impl BackupPlace {
    /// Whether a backup is there, as far as a look at its folder shows; a server is not asked.
    ///
    /// # Errors
    /// There is none, it is damaged, or of a newer program.
    pub fn check_backup(&self) -> Result<(), SessionError> {
        match self {
            Self::Folder(folder) => Ok(BackupHeader::read(folder).map(drop)?),
            Self::S3 { .. } => Ok(()),
        }
    }

    /// Opens it. A server is asked for what it has there, so that what is wrong with it is known before anything else is done.
    pub(crate) async fn open<'s>(&'s self, session: &'s Session<'_>) -> Result<OpenPlace<'s>, SessionError> {
        Ok(match self {
            Self::Folder(folder) => OpenPlace::Folder(folder),
            Self::S3 { address, options } => {
                let client = S3Client::new(S3Options::clone(options), address)?;
                let transfers = Transfers { events: session.events, cancel: &session.cancel };
                let bucket = Bucket { client, address, transfers };
                bucket.look().await?;
                OpenPlace::Bucket(Box::new(bucket))
            }
        })
    }
}

/// A place that answers.
pub(crate) enum OpenPlace<'s> {
    Folder(&'s Path),
    Bucket(Box<Bucket<'s>>),
}

/// A backup while it is made. What there is of it goes if it is never finished.
pub(crate) struct NewBackup {
    partial: Partial,
    name: String,
    /// Where it is made, if it is kept elsewhere.
    staging: Option<Staging>,
}

impl NewBackup {
    /// The folder that it is made in.
    pub fn folder(&self) -> &Path {
        &self.partial.folder
    }
}

/// What became of older backups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Removal {
    pub removed: Vec<String>,
    /// With the reason.
    pub stayed: Vec<String>,
}

impl OpenPlace<'_> {
    /// The name of a new backup. Two homes may make one of a cluster in the same second: a folder has the first alone, and a bucket both.
    pub fn new_name(&self, cluster: &str, time: &str) -> Result<String, SessionError> {
        match self {
            Self::Folder(_) => Ok(format!("{cluster}-{time}")),
            Self::Bucket(_) => bucket::new_name(cluster, time),
        }
    }

    /// Begins a backup.
    pub async fn begin(&self, session: &Session<'_>, name: &str) -> Result<NewBackup, SessionError> {
        let (staging, partial) = match self {
            Self::Folder(folder) => (None, Partial::create(folder, name)?),
            Self::Bucket(bucket) => {
                bucket.check_free(name).await?;
                let staging = Staging::create(&session.home.staging())?;
                let partial = Partial::create(staging.folder(), name)?;
                (Some(staging), partial)
            }
        };
        Ok(NewBackup { partial, name: name.to_owned(), staging })
    }

    /// Gives a backup that is complete in its folder its name, and says where it is then.
    pub async fn finish(&self, new: NewBackup, header: &BackupHeader) -> Result<String, SessionError> {
        let NewBackup { partial, name, staging } = new;
        let at = match self {
            Self::Folder(_) => partial.finish()?.display().to_string(),
            Self::Bucket(bucket) => bucket.keep(&partial.folder, &name, header).await?,
        };
        drop(staging);
        Ok(at)
    }

    /// The whole backups of a cluster that are there besides the one that was made at `made`.
    pub async fn others(&self, made: &str, candidates: &Candidates<'_>) -> Result<Others, SessionError> {
        match self {
            Self::Folder(folder) => {
                folder::others(folder, made, candidates).map(|whole| Others { whole, not_looked_at: None })
            }
            Self::Bucket(bucket) => bucket.others(made, candidates).await,
        }
    }

    /// Removes backups. One that a server does not remove stays, since the new one is there.
    pub async fn remove(&self, all: Vec<Kept>) -> Result<Removal, SessionError> {
        let mut removal = Removal::default();
        for kept in all {
            match self {
                Self::Folder(folder) => folder::remove(&folder.join(&kept.name))?,
                Self::Bucket(bucket) => {
                    if let Err(error) = bucket.remove(&kept.name).await {
                        removal.stayed.push(format!("{}: {error}", kept.at));
                        continue;
                    }
                }
            }
            removal.removed.push(kept.at);
        }
        Ok(removal)
    }

    /// Whether an older backup that cannot be removed, or not be looked at, is no reason to fail.
    pub const fn is_remote(&self) -> bool {
        matches!(self, Self::Bucket(_))
    }

    /// Removes what earlier backups of a cluster have left half done, where that is old enough.
    pub async fn tidy(&self, cluster: &str, now: i64) {
        if let Self::Bucket(bucket) = self {
            bucket.tidy(cluster, now).await;
        }
    }
}

impl Session<'_> {
    /// A backup as a folder of this machine: fetched into one, if it is kept elsewhere, which goes with the value. It is fetched
    /// only if its header is sealed for this home, and was made by it or by one of `senders` (public keys); by anybody, where
    /// there is no list.
    ///
    /// # Errors
    /// The server refuses it or does not answer, or there is no backup; it is sealed for others, or somebody else made it.
    pub async fn local_backup(
        &self,
        place: &BackupPlace,
        senders: Option<&[String]>,
    ) -> Result<LocalBackup, SessionError> {
        match place {
            BackupPlace::Folder(folder) => Ok(LocalBackup::of_folder(folder.clone())),
            BackupPlace::S3 { address, options } => {
                let client = S3Client::new(S3Options::clone(options), address)?;
                let transfers = Transfers { events: self.events, cancel: &self.cancel };
                let identity = self.home.operator(self.credentials)?;
                let is_known = |folder: &Path, header: &BackupHeader| {
                    header.open(folder, &identity)?;
                    senders.map_or(Ok(()), |senders| header.authenticate(folder, &identity, senders))
                };
                let staging = Staging::create(&self.home.staging())?;
                Bucket { client, address, transfers }.fetch(staging.folder(), &is_known).await?;
                Ok(LocalBackup::fetched(staging, address.to_string()))
            }
        }
    }
}
