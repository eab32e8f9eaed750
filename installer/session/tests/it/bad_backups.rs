//! Backups that do not fit, as a restore and a `create --from-backup` meet them: refused by name, before a host is changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kubexm_engine::OperatorIdentity;
use kubexm_engine::backup::{ARCHIVE, BackupAbout, BackupHeader, BackupKey, HEADER};
use kubexm_manifests::{Catalogue, require};
use kubexm_plan::backup::{Archive, SNAPSHOT_MEMBER, SnapshotFacts};
use kubexm_plan::{ClusterId, Facts, Recipient};
use kubexm_recipes::from_backup::PAIRS;
use kubexm_recipes::{PlanContext, sample, sample_backup};
use kubexm_session::{
    Access, Answer, BundleOptions, ClusterOptions, CreateFromBackup, Ended, HostOptions, LocalBackup, Recipe, Restore,
    SessionError, TrustOptions, Unreachable,
};
use kubexm_spec::{Digest, ExitCode, ExitError as _, cluster};

use crate::adopt::options;
use crate::bad_input::refused;
use crate::bundle::{cluster_yaml, write_bundle};
use crate::sessions::{Answers, NoSecrets, RUN, Site};

const HOSTS: [&str; 2] = ["red1", "red2"];
const CA: &str = include_str!("data/site-ca.crt");
const CA_KEY: &str = include_str!("data/site-ca.key");

/// What makes a backup a bad one.
#[derive(Clone, Copy, Default)]
struct Bend {
    /// Of its cluster.
    name: Option<&'static str>,
    /// Of the snapshot, after its checksum was made.
    damaged: bool,
    /// Bytes that its archive lacks at the end.
    cut: usize,
    /// For an identity of nobody here.
    for_others: bool,
}

/// Pages with their checksum, as etcd sends them.
fn snapshot() -> Vec<u8> {
    let data = vec![7; 4096];
    let hex = Digest::of(&data).hex();
    let sum = (0..32).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap());
    data.iter().copied().chain(sum).collect()
}

/// Files of the cluster on other hosts, with keys.
fn files(yaml: &str) -> BTreeMap<String, Vec<u8>> {
    let (cluster, all) = (cluster::parse(yaml).unwrap(), Catalogue::embedded());
    let manifest = sample::manifest(&cluster, &all).unwrap();
    let catalogue = all.used_by(&require(&cluster, &all).unwrap());
    let (facts, packages) = (sample::all_facts(&cluster), sample::packages(&cluster, &catalogue).unwrap());
    let (materials, charts) = (sample::materials(&cluster), sample::charts(&cluster, &manifest));
    let cx = PlanContext {
        bundle_record: None,
        cluster: &cluster,
        cluster_id: None,
        cluster_digest: Digest::of("cluster.yaml"),
        manifest: &manifest,
        manifest_digest: Digest::of("manifest.json"),
        catalogue: &catalogue,
        facts: &facts,
        set_aside: false,
        without_fan_out: false,
        packages: &packages,
        materials: &materials,
        charts: &charts,
        sealing: None,
        from_backup: None,
        signed: None,
    };
    let source = sample_backup::of(&cx, Archive { sha256: Digest::of(""), size: 0 });
    let texts = source.texts.into_iter().map(|(path, text)| (path, text.into_bytes()));
    let keys = PAIRS.iter().map(|(_, key)| ((*key).to_owned(), b"a key\n".to_vec()));
    let ca = [(PAIRS[0].0, CA), (PAIRS[0].1, CA_KEY)].map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    texts.chain(keys).chain(ca).collect()
}

/// A backup of this cluster by this home.
fn backup(site: &Site, id: ClusterId, bend: Bend) -> PathBuf {
    let own = OperatorIdentity::read_or_make(&site.home.identity(), &|_| Err(String::new())).unwrap();
    let other = site.folder.path().join("somebody");
    let other = OperatorIdentity::read_or_make(&other, &|_| Err(String::new())).unwrap();
    let yaml = fs::read_to_string(site.folder.path().join("cluster.yaml")).unwrap();
    let mut etcd = snapshot();
    if bend.damaged {
        etcd[100] ^= 1;
    }
    let key = BackupKey::generate();
    let mut tar = tar::Builder::new(Vec::new());
    let of_hosts = files(&yaml).into_iter().map(|(path, bytes)| (format!("files{path}"), bytes));
    for (name, bytes) in [(SNAPSHOT_MEMBER.to_owned(), etcd.clone())].into_iter().chain(of_hosts) {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        tar.append_data(&mut header, name, bytes.as_slice()).unwrap();
    }
    let recipient: age::x25519::Recipient = key.recipient().parse().unwrap();
    let archive = age::encrypt(&recipient, &tar.into_inner().unwrap()).unwrap();
    let for_whom = if bend.for_others { other.recipient() } else { own.recipient() };
    let about = BackupAbout {
        cluster: bend.name.unwrap_or("red").to_owned(),
        cluster_id: id,
        created: 1_790_000_000,
        kubernetes: Some("v1.34.4".to_owned()),
        host: "red1".to_owned(),
        program: "test".to_owned(),
        recipients: vec![Recipient { key: for_whom, name: None }],
        archive: Archive { sha256: Digest::of(&archive), size: archive.len() as u64 },
        etcd: SnapshotFacts { revision: 9, keys: 3, size: etcd.len() as u64 },
        had: None,
    };
    let header = BackupHeader::seal(about, &key, &own).unwrap();
    let folder = site.folder.path().join("backup");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join(HEADER), header.to_json().unwrap()).unwrap();
    fs::write(folder.join(ARCHIVE), &archive[..archive.len() - bend.cut]).unwrap();
    folder
}

async fn restore(site: &Site, backup: &Path) -> Result<Ended, SessionError> {
    let (session, hosts, cluster) = (site.session(), HostOptions::default(), options(site));
    let source = session.cluster(&cluster)?;
    let access = Access::obtain_with_backup(&session, source.cluster(), (&cluster.trust, &hosts), backup)?;
    let restored = session.restore_source(source, LocalBackup::of_folder(backup.to_owned()), false)?;
    let Restore::New(restored, access) = session.restore_to_start(restored, access)? else {
        unreachable!("there is no run")
    };
    let observed = session.observe("restore", *restored, &access, &hosts, Unreachable::Refused("")).await?;
    observed.plan_restore().await?.check().await?.start(RUN).await?.finish().await
}

async fn create_from(site: &Site, backup: &Path) -> Result<Ended, SessionError> {
    let (session, hosts, trust) = (site.session(), HostOptions::default(), TrustOptions::default());
    let file = Some(site.folder.path().join("cluster.yaml"));
    let bundle = BundleOptions { bundle: vec![site.bundle.clone()], file, ..BundleOptions::default() };
    let opened = session.open(&bundle)?;
    let access = Access::obtain_with_backup(&session, opened.cluster(), (&trust, &hosts), backup)?;
    let verified = opened.verify(&session)?;
    let wanted = session.from_backup(verified, LocalBackup::of_folder(backup.to_owned()), false)?;
    let CreateFromBackup::New(wanted, access) = session.create_from_backup_to_start(wanted, access)? else {
        unreachable!("there is no run")
    };
    let source = wanted.source().clone();
    let observed = session.observe("create", *wanted, &access, &hosts, Unreachable::Refused("")).await?;
    let planned = observed.plan(Recipe::CreateFromBackup(&source)).await?;
    planned.check().await?.start(RUN).await?.finish().await
}

const ID: ClusterId = ClusterId::from_random([1; 16]);

fn fresh() -> Site {
    Site::of("red", &HOSTS, &cluster_yaml("red", &HOSTS), write_bundle)
}

/// A cluster, and its id.
async fn made() -> (Site, ClusterId) {
    let site = Site::new("red", &HOSTS, Answer::Yes);
    assert!(site.create().await.unwrap().is_success());
    let stamp = site.hosts.fleet.links()["red1"].facts().await.unwrap().stamp;
    site.answers.asked.lock().unwrap().clear();
    (site, stamp.unwrap().id.unwrap())
}

/// What is in a backup is written as it was on the host, for its user alone, and to no folder that is there; nothing is left of one that is bad.
#[tokio::test]
async fn what_is_in_a_backup_is_taken_out_of_a_whole_one_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let (site, id) = made().await;
    let extract = |bend: Bend, to: &Path| {
        let kept = LocalBackup::of_folder(backup(&site, id, bend));
        site.session().extract_backup(&kept, &[], to)
    };
    let to = site.folder.path().join("taken-out");
    for bend in [
        Bend { cut: 1, ..Bend::default() },
        Bend { damaged: true, ..Bend::default() },
        Bend { for_others: true, ..Bend::default() },
    ] {
        assert_eq!(extract(bend, &to).unwrap_err().exit_code(), ExitCode::BackupUnusable);
        let left: Vec<_> = fs::read_dir(site.folder.path()).unwrap().flatten().map(|one| one.file_name()).collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().contains("taken-out")), "{left:?}");
    }
    let yaml = fs::read_to_string(site.folder.path().join("cluster.yaml")).unwrap();
    let wanted = files(&yaml);
    assert_eq!(extract(Bend::default(), &to).unwrap(), wanted.len() + 1);
    assert_eq!(fs::read(to.join("etcd.db")).unwrap(), snapshot());
    for (path, bytes) in wanted {
        let file = to.join("files").join(path.as_str().trim_start_matches('/'));
        assert_eq!(fs::read(&file).unwrap(), bytes, "{path}");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{path}");
    }
    assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o700);
    let left = site.folder.path().join(".later.partial");
    fs::create_dir(&left).unwrap();
    let error = extract(Bend::default(), &site.folder.path().join("later")).unwrap_err();
    assert!(error.to_string().contains("keys of a cluster in clear: remove it"), "{error}");
    let error = extract(Bend::default(), &to).unwrap_err();
    assert!(error.to_string().contains("is there already"), "{error}");
}

/// Otherwise the refusals would show nothing: each of these reaches the question.
#[tokio::test]
async fn a_backup_that_fits_is_taken() {
    let (site, id) = made().await;
    let backup_of_it = backup(&site, id, Bend::default());
    let site = Site { answers: Answers::of(Answer::No), ..site };
    let declined = restore(&site, &backup_of_it).await.unwrap_err();
    assert!(matches!(declined, SessionError::Declined), "{declined}");
    let site = Site { answers: Answers::of(Answer::No), ..fresh() };
    let backup_of_it = backup(&site, ID, Bend::default());
    let declined = create_from(&site, &backup_of_it).await.unwrap_err();
    assert!(matches!(declined, SessionError::Declined), "{declined}");
}

#[tokio::test]
async fn what_is_cut_off_damaged_sealed_for_others_or_of_another_cluster_is_refused_by_both() {
    let rows: [(Bend, &[&str]); 4] = [
        (Bend { cut: 100, ..Bend::default() }, &["archive.age was cut off", "copy it again, or use another backup"]),
        (Bend { damaged: true, ..Bend::default() }, &["archive.age is damaged", "use another backup"]),
        (
            Bend { for_others: true, ..Bend::default() },
            &["is sealed for age1", "and not for the identity of this home", "use the home of one of them"],
        ),
        (Bend { name: Some("blue"), ..Bend::default() }, &["cluster blue", "red"]),
    ];
    let (site, id) = made().await;
    for (bend, words) in rows {
        let before = site.hosts.fleet.snapshot();
        let bad = backup(&site, id, bend);
        refused(&site, &before, restore(&site, &bad).await, ExitCode::BackupUnusable, words);
        let site = fresh();
        let before = site.hosts.fleet.snapshot();
        let bad = backup(&site, ID, bend);
        refused(&site, &before, create_from(&site, &bad).await, ExitCode::BackupUnusable, words);
        assert_eq!(site.connected(), 0, "a host is contacted: {words:?}");
    }
    // Of the same name: it was made anew since.
    let before = site.hosts.fleet.snapshot();
    let bad = backup(&site, ID, Bend::default());
    let (ours, theirs) = (id.to_string(), ID.to_string());
    let words = [ours.as_str(), theirs.as_str(), "use a backup of this cluster", "create --from-backup"];
    refused(&site, &before, restore(&site, &bad).await, ExitCode::BackupUnusable, &words);
}

#[tokio::test]
async fn with_a_wrong_passphrase_no_backup_is_opened() {
    let (site, id) = made().await;
    let good = backup(&site, id, Bend::default());
    site.home.encrypt_identity(&NoSecrets(Some("correct horse".to_owned()))).unwrap();
    let site = Site { secrets: NoSecrets(Some("battery staple".to_owned())), ..site };
    let before = site.hosts.fleet.snapshot();
    let words = ["identity", "the passphrase is wrong", "give the right one, or put the file back"];
    refused(&site, &before, restore(&site, &good).await, ExitCode::Config, &words);
    refused(&site, &before, create_from(&site, &good).await, ExitCode::Config, &words);
    let cluster: ClusterOptions = options(&site);
    let source = site.session().cluster(&cluster).unwrap();
    assert_eq!(source.cluster().name, "red");
    let kept = LocalBackup::of_folder(good);
    refused(&site, &before, site.session().verify_backup(&kept, &[]), ExitCode::Config, &words);
}

#[tokio::test]
async fn a_clock_that_is_off_by_a_day_is_refused_before_etcd_gets_data() {
    let (site, id) = made().await;
    let good = backup(&site, id, Bend::default());
    let before = site.hosts.fleet.snapshot();
    let behind: fn(&mut Facts) = |facts| facts.clock_offset_ms = if facts.host == "red1" { -86_400_000 } else { 0 };
    site.hosts.fleet.bend_facts(behind);
    let words = ["red1: its clock is 1 d 0 h behind this machine's", "timedatectl set-time"];
    refused(&site, &before, restore(&site, &good).await, ExitCode::Preflight, &words);
}
