//! What a controller remembers of the bundle that a cluster was made of: `clusters/NAME/installed.json`.

use std::path::PathBuf;

use kubexm_plan::Vouched;
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
    /// The run that installed it; empty when a later run was rolled back.
    run: String,
    bundle: Vouched,
    /// What was installed before, for the rollback of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Vouched>,
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

/// What the controller remembers; none where it has installed nothing, or programs did that which did not write it down.
///
/// # Errors
/// The record cannot be read.
pub fn installed_bundle(cluster: &ClusterHome) -> Result<Option<Vouched>, SessionError> {
    Ok(read(cluster)?.map(|record| record.bundle))
}

/// Remembers what a run has installed.
pub(crate) fn remember(cluster: &ClusterHome, run: &str, bundle: &Vouched) -> Result<(), SessionError> {
    let before = read(cluster)?.map(|record| record.bundle);
    let bundle = before.iter().fold(bundle.clone(), Vouched::in_place_of);
    if before.as_ref() == Some(&bundle) {
        return Ok(());
    }
    write(cluster, &Record { schema: SCHEMA.to_owned(), run: run.to_owned(), bundle, before })
}

/// What a run installed is rolled back: what was installed before counts again.
pub(crate) fn rolled_back(cluster: &ClusterHome, run: &str) -> Result<(), SessionError> {
    match read(cluster)? {
        Some(Record { schema, run: of, before: Some(bundle), .. }) if of == run => {
            write(cluster, &Record { schema, run: String::new(), bundle, before: None })
        }
        Some(record) if record.run == run => forget(cluster),
        _ => Ok(()),
    }
}

/// The cluster is gone.
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

    fn vouched(content: &str, signers: &[&str], date: Option<i64>) -> Vouched {
        let signers = signers.iter().map(|key| (*key).to_owned()).collect();
        Vouched { manifest: Digest::of(content), signers, date, sequence: None }
    }

    fn refused(known: &Vouched, offered: &Vouched) -> bool {
        replace::check(known, offered, ReplaceOptions::default(), "node1").is_err()
    }

    #[test]
    fn a_key_that_signed_once_vouches_when_the_other_is_lost_and_is_no_rollback_to_the_bundle_that_it_signed() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = ClusterHome { folder: folder.path().join("c"), name: "c".to_owned() };
        remember(&cluster, "r1", &vouched("1", &["backup", "release"], Some(1))).unwrap();
        remember(&cluster, "r2", &vouched("2", &["release"], Some(2))).unwrap();
        let known = installed_bundle(&cluster).unwrap().unwrap();
        // Who takes the other signatures out of the first bundle leaves its date.
        assert!(refused(&known, &vouched("1", &["backup"], Some(1))));
        let next = vouched("3", &["backup", "new"], Some(3));
        assert!(!refused(&known, &next));
        remember(&cluster, "r3", &next).unwrap();
        let known = installed_bundle(&cluster).unwrap().unwrap();
        assert!(!refused(&known, &vouched("4", &["new"], Some(4))));
        assert!(refused(&known, &vouched("4", &["stranger"], Some(4))));
    }

    #[test]
    fn a_rollback_brings_back_what_was_remembered_before_and_only_that_of_its_own_run() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = ClusterHome { folder: folder.path().join("c"), name: "c".to_owned() };
        let [one, two] = [1, 2].map(|date| vouched(&date.to_string(), &["ours"], Some(date)));
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
