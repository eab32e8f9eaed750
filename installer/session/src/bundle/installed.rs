//! The controller's record of the bundle that a cluster was installed from: `clusters/NAME/installed.json`.

use std::path::PathBuf;

use kubexm_plan::BundleRecord;
use serde::{Deserialize, Serialize};

use crate::error::SessionError;
use crate::files;
use crate::home::ClusterHome;

const SCHEMA: &str = "kubexm.io/installed/v1";

/// The controller's record of one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Record {
    schema: String,
    /// The run that installed it; empty after a later run was rolled back.
    run: String,
    bundle: BundleRecord,
    /// The bundle that was installed before, for the rollback of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<BundleRecord>,
}

fn path(cluster: &ClusterHome) -> PathBuf {
    cluster.folder.join("installed.json")
}

fn read(cluster: &ClusterHome) -> Result<Option<Record>, SessionError> {
    let path = path(cluster);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SessionError::disk("read", &path, &error)),
    };
    let wrong = |problem: String| SessionError::Installed { path: path.clone(), problem };
    let record: Record = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    if record.schema == SCHEMA { Ok(Some(record)) } else { Err(wrong(format!("it is of schema {:?}", record.schema))) }
}

fn write(cluster: &ClusterHome, record: &Record) -> Result<(), SessionError> {
    let path = path(cluster);
    let bytes = serde_json::to_vec_pretty(record).map_err(|error| SessionError::disk("write", &path, &error))?;
    files::write_private(&path, &bytes)
}

/// The recorded bundle; none if this controller has installed nothing, or an earlier version did so without a record.
///
/// # Errors
/// The record cannot be read.
pub fn installed_bundle(cluster: &ClusterHome) -> Result<Option<BundleRecord>, SessionError> {
    Ok(read(cluster)?.map(|record| record.bundle))
}

/// Records what a run has installed.
pub(crate) fn remember(cluster: &ClusterHome, run: &str, bundle: &BundleRecord) -> Result<(), SessionError> {
    let before = read(cluster)?.map(|record| record.bundle);
    let bundle = before.iter().fold(bundle.clone(), BundleRecord::in_place_of);
    if before.as_ref() == Some(&bundle) {
        return Ok(());
    }
    write(cluster, &Record { schema: SCHEMA.to_owned(), run: run.to_owned(), bundle, before })
}

/// After a rollback: the bundle that was installed before is recorded again.
pub(crate) fn rolled_back(cluster: &ClusterHome, run: &str) -> Result<(), SessionError> {
    match read(cluster)? {
        Some(Record { schema, run: of, before: Some(bundle), .. }) if of == run => {
            write(cluster, &Record { schema, run: String::new(), bundle, before: None })
        }
        Some(record) if record.run == run => forget(cluster),
        _ => Ok(()),
    }
}

/// Deletes the record when the cluster was removed.
pub(crate) fn forget(cluster: &ClusterHome) -> Result<(), SessionError> {
    let path = path(cluster);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(SessionError::disk("remove", &path, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use kubexm_spec::{Digest, ExitCode, ExitError as _};

    use super::*;
    use crate::bundle::replace;
    use crate::options::ReplaceOptions;

    fn record(content: &str, signers: &[&str], date: Option<i64>) -> BundleRecord {
        let signers = signers.iter().map(|key| (*key).to_owned()).collect();
        BundleRecord { manifest: Digest::of(content), signers, date, sequence: None }
    }

    fn refused(known: &BundleRecord, offered: &BundleRecord) -> bool {
        replace::check(known, offered, ReplaceOptions::default(), "node1").is_err()
    }

    #[test]
    fn an_earlier_signer_is_accepted_for_newer_bundles_and_not_for_older_ones() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = ClusterHome { folder: folder.path().join("c"), name: "c".to_owned() };
        remember(&cluster, "r1", &record("1", &["backup", "release"], Some(1))).unwrap();
        remember(&cluster, "r2", &record("2", &["release"], Some(2))).unwrap();
        let known = installed_bundle(&cluster).unwrap().unwrap();
        // Somebody may remove the other signatures from the first bundle, but its date remains.
        assert!(refused(&known, &record("1", &["backup"], Some(1))));
        let next = record("3", &["backup", "new"], Some(3));
        assert!(!refused(&known, &next));
        remember(&cluster, "r3", &next).unwrap();
        let known = installed_bundle(&cluster).unwrap().unwrap();
        assert!(!refused(&known, &record("4", &["new"], Some(4))));
        assert!(refused(&known, &record("4", &["stranger"], Some(4))));
    }

    #[test]
    fn a_rollback_restores_the_record_from_before_its_own_run_only() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = ClusterHome { folder: folder.path().join("c"), name: "c".to_owned() };
        let [one, two] = [1, 2].map(|date| record(&date.to_string(), &["ours"], Some(date)));
        assert_eq!(installed_bundle(&cluster).unwrap(), None);
        remember(&cluster, "r1", &one).unwrap();
        remember(&cluster, "r2", &two).unwrap();
        remember(&cluster, "r3", &two).unwrap();
        rolled_back(&cluster, "r3").unwrap();
        assert_eq!(installed_bundle(&cluster).unwrap(), Some(two), "it has changed nothing");
        rolled_back(&cluster, "r2").unwrap();
        assert_eq!(installed_bundle(&cluster).unwrap(), Some(one.clone()));
        remember(&cluster, "r4", &one).unwrap();
        forget(&cluster).unwrap();
        assert_eq!(installed_bundle(&cluster).unwrap(), None);
        remember(&cluster, "r5", &one).unwrap();
        rolled_back(&cluster, "r5").unwrap();
        assert_eq!(installed_bundle(&cluster).unwrap(), None);
        std::fs::write(path(&cluster), "{}").unwrap();
        assert_eq!(installed_bundle(&cluster).unwrap_err().exit_code(), ExitCode::Config);
    }
}
