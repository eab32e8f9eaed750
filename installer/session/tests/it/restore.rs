//! Who vouches for a backup that is restored: this home, and the operators of a cluster.yaml that not just anybody may have written.

use std::fs;
use std::path::PathBuf;

use kubexm_engine::OperatorIdentity;
use kubexm_engine::backup::{ARCHIVE, BackupAbout, BackupHeader, BackupKey, HEADER};
use kubexm_plan::backup::{Archive, SnapshotFacts};
use kubexm_plan::{ClusterId, Recipient};
use kubexm_s3::fake::{ACCESS_KEY, REGION, S3Server, SECRET_KEY};
use kubexm_s3::{Addressing, Endpoint, S3Address, S3Credentials, S3Options};
use kubexm_session::{Access, BackupPlace, ClusterOptions, HostOptions, LocalBackup};
use kubexm_spec::{Digest, ExitCode, ExitError as _};

use crate::bundle::{cluster_yaml, write_bundle};
use crate::sessions::{NoSecrets, Site};

/// A backup for this home by somebody else, whom cluster.yaml names as an operator. Its archive is none, which is found last.
pub fn site() -> (Site, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let other = OperatorIdentity::read_or_make(&folder.path().join("identity"), &|_| Err(String::new())).unwrap();
    let operators = format!("spec:\n  operators: [{{name: ops2, recipient: {}}}]\n", other.recipient());
    let yaml = cluster_yaml("red", &["red1"]).replace("spec:\n", &operators);
    let site = Site::of("red", &["red1"], &yaml, write_bundle);
    let own = site.home.recipient(&NoSecrets(None)).unwrap();
    let about = BackupAbout {
        cluster: "red".to_owned(),
        cluster_id: ClusterId::from_random([1; 16]),
        created: 1,
        kubernetes: None,
        host: "red1".to_owned(),
        program: "test".to_owned(),
        recipients: vec![Recipient { key: own, name: None }],
        archive: Archive { sha256: Digest::of("archive"), size: 7 },
        etcd: SnapshotFacts { revision: 1, keys: 1, size: 1 },
        had: None,
    };
    let header = BackupHeader::seal(about, &BackupKey::generate(), &other).unwrap();
    let backup = site.folder.path().join("backup");
    fs::create_dir(&backup).unwrap();
    fs::write(backup.join(HEADER), header.to_json().unwrap()).unwrap();
    fs::write(backup.join(ARCHIVE), "archive").unwrap();
    (site, backup, other.recipient())
}

/// What a restore of it says.
fn refusal(site: &Site, backup: &std::path::Path, cluster: &ClusterOptions) -> String {
    let session = site.session();
    let source = session.cluster(cluster).unwrap();
    let options = (&cluster.trust, &HostOptions::default());
    Access::obtain_with_backup(&session, source.cluster(), options, backup).map(drop).unwrap();
    let error = session.restore_source(source, LocalBackup::of_folder(backup.to_owned()), false).err().unwrap();
    assert_eq!(error.exit_code(), ExitCode::BackupUnusable, "{error}");
    error.to_string()
}

#[test]
fn an_operator_whom_only_an_unsigned_bundle_names_vouches_for_no_backup() {
    let (site, backup, key) = site();
    let bundle = ClusterOptions { bundle: Some(site.bundle.clone()), ..ClusterOptions::default() };
    let said = refusal(&site, &backup, &bundle);
    assert!(said.contains("NOT AUTHENTICATED") && said.contains(&key) && said.contains("-f"), "{said}");
    // The question names him before anything is sealed for him.
    let asked = site.answers.asked.lock().unwrap().join("\n");
    assert!(asked.contains(&format!("ops2 ({key})")) && asked.contains("to seal backups"), "{asked}");
    // And to which addresses everything in the backup would go.
    let goes = format!("from {}: kept on ", backup.display());
    let line = asked.lines().find(|line| line.contains(&goes)).unwrap_or_else(|| panic!("{asked}"));
    assert!(line.contains("every Secret of the cluster") && line.contains('@'), "{line}");
}

#[test]
fn an_operator_of_ones_own_cluster_yaml_vouches_for_a_backup() {
    let (site, backup, _) = site();
    let own = ClusterOptions { file: Some(site.folder.path().join("cluster.yaml")), ..ClusterOptions::default() };
    let said = refusal(&site, &backup, &own);
    assert!(!said.contains("NOT AUTHENTICATED") && said.contains("archive.age"), "{said}");
}

#[tokio::test]
async fn a_backup_of_a_bucket_is_refused_like_one_of_a_folder_by_the_name_that_it_has_there() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (site, backup, key) = site();
    let server = S3Server::start();
    for file in [HEADER, ARCHIVE] {
        let bytes = fs::read(backup.join(file)).unwrap();
        server.state().objects.insert(format!("sites/a/red-1/{file}"), bytes);
    }
    let endpoint = Endpoint::parse(&server.endpoint(), Addressing::Path, true).unwrap();
    let credentials = S3Credentials::new(ACCESS_KEY.to_owned(), SECRET_KEY.to_owned().into(), None).unwrap();
    let options = Box::new(S3Options::new(endpoint, REGION, credentials).unwrap());
    let place = BackupPlace::S3 { address: S3Address::parse("s3://backups/sites/a/red-1").unwrap(), options };
    let session = site.session();
    // By its header alone: the archive of somebody else would be up to 20 GiB on this disk.
    let said = session.local_backup(&place, Some(&[])).await.unwrap_err().to_string();
    assert!(said.starts_with("s3://backups/sites/a/red-1 is NOT AUTHENTICATED"), "{said}");
    assert_eq!((server.asked(HEADER), server.asked(ARCHIVE)), (1, 0));
    session.local_backup(&place, Some(std::slice::from_ref(&key))).await.unwrap();
    let fetched = session.local_backup(&place, None).await.unwrap();
    let folder = fetched.folder().to_owned();
    let said = session.verify_backup(&fetched, &[]).unwrap_err().to_string();
    assert!(said.starts_with("s3://backups/sites/a/red-1 is NOT AUTHENTICATED"), "{said}");
    let said = session.verify_backup(&fetched, &[key]).unwrap_err().to_string();
    assert!(said.starts_with("s3://backups/sites/a/red-1/archive.age is damaged"), "{said}");
    let own = ClusterOptions { file: Some(site.folder.path().join("cluster.yaml")), ..ClusterOptions::default() };
    let source = session.cluster(&own).unwrap();
    let said = session.restore_source(source, fetched, false).err().unwrap().to_string();
    assert!(said.starts_with("s3://backups/sites/a/red-1/archive.age is damaged"), "{said}");
    assert!(!folder.exists(), "what was fetched goes with the value");
}
