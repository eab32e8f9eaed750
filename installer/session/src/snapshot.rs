//! A snapshot of etcd in a file of the controller, restored as a backup is: it is made one in the home, sealed for it, so that everything
//! that is true of a backup on its way to the hosts is true of it, and the same command continues a restore that was begun.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use kubexm_engine::ClusterLock;
use kubexm_engine::backup::{BackupAbout, BackupError, BackupHeader, BackupKey, HEADER, SnapshotFile, SnapshotName};
use kubexm_files::DiskRoom;
use kubexm_plan::backup::SnapshotFacts;
use kubexm_plan::{ClusterId, Pipeline, Recipient};

use crate::backup_place::{LocalBackup, Partial};
use crate::bundle::cluster_source::ClusterSource;
use crate::error::SessionError;
use crate::events;
use crate::files;
use crate::home::ClusterHome;
use crate::restore::RestoreSource;
use crate::run::{of_another, to_continue};
use crate::session::Session;

/// The folder of snapshots that are restored, below that of the cluster. Each is encrypted for a key that this home alone can open.
const BELOW: &str = "snapshots";

impl Session<'_> {
    /// Reads a snapshot of etcd to its end, before any host is contacted, and makes a backup of it in the home. Who made it cannot be
    /// known, so nobody's is taken unless that is allowed.
    ///
    /// # Errors
    /// It is none, was cut off or altered, is encrypted for others or by its name of another cluster, or it is not allowed.
    pub fn snapshot_source(
        &self,
        source: ClusterSource,
        file: &Path,
        allow_unauthenticated: bool,
    ) -> Result<RestoreSource, SessionError> {
        let (cluster, path) = (source.cluster().name.clone(), file.display().to_string().escape_default().to_string());
        let name = SnapshotName::of(file);
        if let Some((found, ..)) = name.of.as_ref().filter(|(found, ..)| *found != cluster) {
            let found = found.escape_default().collect();
            return Err(BackupError::OtherCluster { path, found, wanted: cluster }.into());
        }
        SnapshotFile::look(file)?;
        let unproven = BackupError::Unproven { path: path.clone() };
        if !allow_unauthenticated {
            return Err(unproven.into());
        }
        events::phase(self.events, "verify");
        let (snapshot, identity) =
            SnapshotFile::verify(file, || -> Result<_, SessionError> { self.home.operator(self.credentials) })?;
        let identity = identity.map_or_else(|| self.home.operator(self.credentials), Ok)?;
        let home = self.home.cluster(&cluster);
        let lock = ClusterLock::take(&home.folder, &home.name, &self.holder("restore", &home.name))?;
        let below = home.folder.join(BELOW);
        let made = below.join(snapshot.sha256.hex());
        // Of a restore that has not ended hosts have this one archive.
        let begun = to_continue(&home, Pipeline::Restore)?;
        if let Some(id) = begun.as_ref().filter(|_| !made.is_dir()) {
            return Err(of_another(id, &home));
        }
        if begun.is_none() {
            clear(&below)?;
            let (id, host) = match &name.of {
                Some((_, id, host)) => (*id, host.clone()),
                None => (ClusterId::from_random([0; 16]), "an unknown host".to_owned()),
            };
            let partial = Partial::create(&below, &snapshot.sha256.hex())?;
            let (key, mut room) = (BackupKey::generate(), DiskRoom::of(&partial.folder));
            let archive = snapshot.pack(Some(&identity), &key, &partial.folder, &mut |count| room.wrote(count))?;
            let about = BackupAbout {
                cluster,
                cluster_id: id,
                created: name.taken.unwrap_or_default(),
                kubernetes: None,
                host,
                program: self.controller.tool.clone(),
                recipients: vec![Recipient { key: identity.recipient(), name: None }],
                archive,
                // Only etcd's own tool reads them; each member does, before it gets the data.
                etcd: SnapshotFacts { revision: 0, keys: 0, size: snapshot.size },
                had: None,
            };
            let header = BackupHeader::seal(about, &key, &identity)?;
            files::write_private(&partial.folder.join(HEADER), header.to_json()?.as_bytes())?;
            partial.finish()?;
        }
        drop(lock);
        let mut backup = self.open_backup(LocalBackup::kept_at(made, path), &[], false, &|_| false)?;
        backup.unauthenticated = Some(unproven.to_string());
        Ok(RestoreSource::of_snapshot(source, backup, name))
    }
}

/// Removes what was made of snapshots, once no restore needs it any more.
pub(crate) fn forget(home: &ClusterHome) -> Result<(), SessionError> {
    remove(&home.folder.join(BELOW))
}

/// Removes what was made of snapshots, or was left half made: no restore goes on with it.
fn clear(below: &Path) -> Result<(), SessionError> {
    let failed = |error: std::io::Error| SessionError::disk("look in", below, &error);
    let entries = match fs::read_dir(below) {
        Ok(entries) => entries.collect::<std::io::Result<Vec<_>>>().map_err(failed)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    entries.iter().try_for_each(|entry| remove(&entry.path()))
}

fn remove(folder: &Path) -> Result<(), SessionError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(SessionError::disk("remove", folder, &error)),
        _ => Ok(()),
    }
}
