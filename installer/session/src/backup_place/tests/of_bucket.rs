//! The same of a bucket, and what a server of one can do.

use kubexm_engine::events::Recorder;
use kubexm_s3::fake::{ACCESS_KEY, Fault, REGION, S3Server, SECRET_KEY, Upload, What};
use kubexm_s3::{Addressing, Endpoint, S3Credentials};
use tokio_util::sync::CancellationToken;

use super::*;

struct Site {
    server: S3Server,
    address: S3Address,
    options: S3Options,
    events: Recorder,
    cancel: CancellationToken,
}

impl Site {
    fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = S3Server::start();
        let endpoint = Endpoint::parse(&server.endpoint(), Addressing::Path, true).unwrap();
        let secret = SECRET_KEY.to_owned().into();
        let credentials = S3Credentials::new(ACCESS_KEY.to_owned(), secret, None).unwrap();
        let mut options = S3Options::new(endpoint, REGION, credentials).unwrap();
        options.patience.first_pause = std::time::Duration::from_millis(1);
        let address = S3Address::parse("s3://backups/sites/a").unwrap();
        Self { server, address, options, events: Recorder::default(), cancel: CancellationToken::new() }
    }

    fn bucket(&self) -> Bucket<'_> {
        let client = S3Client::new(self.options.clone(), &self.address).unwrap();
        let transfers = Transfers { events: &self.events, cancel: &self.cancel };
        Bucket { client, address: &self.address, transfers }
    }

    fn place(&self) -> OpenPlace<'_> {
        OpenPlace::Bucket(Box::new(self.bucket()))
    }

    /// Makes a backup, whose archive is `content`.
    async fn backup(&self, name: &str, created: i64, content: &[u8]) -> Result<String, SessionError> {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive { sha256: Digest::of(content), size: content.len() as u64 };
        let header = header(BackupAbout { archive, ..about(1, created) });
        fs::write(folder.path().join(ARCHIVE), content).unwrap();
        self.bucket().keep(folder.path(), name, &header).await
    }

    fn keys(&self) -> Vec<String> {
        self.server.state().objects.keys().cloned().collect()
    }

    fn heard(&self) -> String {
        format!("{:?}", self.events.events())
    }
}

#[tokio::test]
async fn a_backup_goes_to_a_bucket_header_last_and_comes_back() {
    let site = Site::new();
    let at = site.backup("red-1", 10, b"archive").await.unwrap();
    assert_eq!(at, "s3://backups/sites/a/red-1");
    assert_eq!(site.keys(), ["sites/a/red-1/archive.age", "sites/a/red-1/backup.json"]);
    let puts: Vec<String> = site.server.state().asked.iter().filter(|line| line.starts_with("PUT")).cloned().collect();
    assert_eq!(puts, ["PUT /backups/sites/a/red-1/archive.age", "PUT /backups/sites/a/red-1/backup.json"]);
    let folder = tempfile::tempdir().unwrap();
    let one = Site { address: site.address.join("red-1"), ..site };
    one.bucket().fetch(folder.path(), ANYBODY).await.unwrap();
    assert_eq!(fs::read(folder.path().join(ARCHIVE)).unwrap(), b"archive");
    assert_eq!(BackupHeader::read(folder.path()).unwrap().about.created, 10);
    assert!(one.bucket().check_free("x").await.is_ok());
    let taken = Site { address: S3Address::parse("s3://backups/sites/a").unwrap(), ..one };
    let error = taken.bucket().check_free("red-1").await.unwrap_err().to_string();
    assert!(error.contains("s3://backups/sites/a/red-1 is there already"), "{error}");
}

#[tokio::test]
async fn what_does_not_read_back_as_it_was_sent_leaves_nothing_and_is_no_backup() {
    for file in ["archive.age", "backup.json"] {
        let site = Site::new();
        site.server.fail(Fault::of("GET", file, What::Altered));
        let error = site.backup("red-1", 10, b"archive").await.unwrap_err().to_string();
        assert!(error.contains("is not what was sent") && error.contains(file), "{error}");
        assert_eq!(site.keys(), NONE);
    }
    let site = Site::new();
    site.server.fail(Fault::of("PUT", "backup.json", What::Refused(403, "AccessDenied", String::new())));
    site.server.fail(Fault::of("DELETE", "archive.age", What::Refused(403, "AccessDenied", String::new())));
    let error = site.backup("red-1", 10, b"archive").await.unwrap_err().to_string();
    assert!(error.contains("s3:PutObject"), "{error}");
    assert_eq!(site.keys(), ["sites/a/red-1/archive.age"]);
    assert!(site.heard().contains("red-1 can be removed"), "{}", site.heard());
}

#[tokio::test]
async fn older_backups_of_a_bucket_go_and_one_that_the_server_keeps_fails_nothing() {
    let site = Site::new();
    for (name, created) in [("red-1", 10), ("red-2", 20), ("red-3", 30)] {
        site.backup(name, created, name.as_bytes()).await.unwrap();
    }
    // Nothing of ours; a backup that was not finished; one whose archive was cut off; one in a folder below.
    let put = |key: &str, text: &str| site.server.state().objects.insert(key.to_owned(), text.as_bytes().to_vec());
    put("sites/a/notes", "mine");
    put("sites/a/red-20260101T000000Z/archive.age", "half");
    put("sites/a/photos/backup.json", "{}");
    put("sites/a/photos/archive.age", "x");
    put("sites/a/red-2/archive.age", "cut");
    put("sites/ab/red-1/archive.age", "another prefix");
    let made = "s3://backups/sites/a/red-3";
    let place = site.place();
    let newest = about(1, 30);
    let candidates = Candidates { newest: &newest, is_known: ANYBODY, events: &Silent };
    let others = place.others(made, &candidates).await.unwrap();
    assert_eq!(others.whole.iter().map(|one| one.at.as_str()).collect::<Vec<_>>(), ["s3://backups/sites/a/red-1"]);
    assert!(site.heard().contains("red-20260101T000000Z has no backup.json"), "{}", site.heard());
    site.server.fail(Fault::of("DELETE", "", What::Refused(403, "AccessDenied", "locked".to_owned())).times(1));
    let removal = place.remove(too_old(others.whole, &newest, 1, &Silent)).await.unwrap();
    assert_eq!((removal.removed.len(), removal.stayed.len()), (0, 1));
    assert!(removal.stayed[0].contains("s3:DeleteObject"), "{:?}", removal.stayed);
    let others = place.others(made, &candidates).await.unwrap();
    let removal = place.remove(too_old(others.whole, &newest, 1, &Silent)).await.unwrap();
    assert_eq!(removal.removed, ["s3://backups/sites/a/red-1"]);
    assert!(!site.keys().iter().any(|key| key.starts_with("sites/a/red-1/")), "{:?}", site.keys());
    assert_eq!(site.keys().len(), 9);
}

#[tokio::test]
async fn two_backups_of_one_second_have_two_names_in_a_bucket_and_are_both_of_their_cluster() {
    let (site, time) = (Site::new(), "20260101T000000Z");
    let [one, other] = [(); 2].map(|()| site.place().new_name("red", time).unwrap());
    assert_ne!(one, other);
    let earlier = format!("red-{time}");
    for name in [&one, &other, &earlier] {
        assert!(bucket::is_of(name, "red"), "{name}");
    }
    for name in [format!("red-blue-{time}"), format!("{earlier}-"), format!("{earlier}-{time}"), "red-1".to_owned()] {
        assert!(!bucket::is_of(&name, "red"), "{name}");
    }
}

#[tokio::test]
async fn a_header_of_a_bucket_is_known_or_gone_before_the_next_one_is_fetched() {
    let site = Site::new();
    for (name, created) in [("red-1", 10), ("red-2", 20), ("red-3", 30)] {
        site.backup(name, created, name.as_bytes()).await.unwrap();
    }
    let is_header = |line: &&String| line.starts_with("GET") && line.contains(HEADER);
    let fetched = || site.server.state().asked.iter().filter(is_header).count();
    let before = fetched();
    let seen = Mutex::new(Vec::new());
    let is_known: IsKnown<'_> = &|_, _| {
        seen.lock().unwrap().push(fetched() - before);
        Ok(())
    };
    let newest = about(1, 40);
    let candidates = Candidates { newest: &newest, is_known, events: &Silent };
    assert_eq!(site.place().others("s3://backups/sites/a/red-4", &candidates).await.unwrap().whole.len(), 3);
    assert_eq!(*seen.lock().unwrap(), [1, 2, 3]);
}

#[tokio::test]
async fn a_server_that_lists_backups_without_end_keeps_no_backup_busy() {
    let site = Site::new();
    site.backup("red-20260101T000000Z", 10, b"archive").await.unwrap();
    let put = |key: String| site.server.state().objects.insert(key, b"{}".to_vec());
    for number in 0..1_001 {
        put(format!("sites/a/blue-{number:04}/{HEADER}"));
        put(format!("sites/a/blue-{number:04}/{ARCHIVE}"));
    }
    for number in 10..40 {
        put(format!("sites/a/red-202602{number}T000000Z/{ARCHIVE}"));
    }
    let newest = about(1, 40);
    let candidates = Candidates { newest: &newest, is_known: ANYBODY, events: &Silent };
    let (made, before) = ("s3://backups/sites/a/red-4", site.server.asked("GET"));
    let others = site.place().others(made, &candidates).await.unwrap();
    // That of this cluster is looked at first, though its name is the last one.
    assert_eq!(others.whole.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["red-20260101T000000Z"]);
    let why = others.not_looked_at.unwrap();
    assert!(why.contains("s3://backups/sites/a: not looked at: 2 more backups than 1000"), "{why}");
    // The pages of the listing are the others.
    let asked = site.server.asked("GET") - before;
    assert!((1_000..1_050).contains(&asked), "{asked}");
    assert_eq!(site.heard().matches("that was not finished").count(), 20);
    assert!(site.heard().contains("10 more backups; they can be removed"), "{}", site.heard());
}

#[tokio::test]
async fn an_interrupt_ends_the_look_at_older_backups_also_where_their_headers_are_empty() {
    let site = Site::new();
    site.backup("red-1", 10, b"archive").await.unwrap();
    for name in ["red-2", "red-3"] {
        site.server.state().objects.insert(format!("sites/a/{name}/{HEADER}"), Vec::new());
        site.server.state().objects.insert(format!("sites/a/{name}/{ARCHIVE}"), b"x".to_vec());
    }
    let is_known: IsKnown<'_> = &|_, _| {
        site.cancel.cancel();
        Ok(())
    };
    let newest = about(1, 40);
    let candidates = Candidates { newest: &newest, is_known, events: &Silent };
    let error = site.place().others("s3://backups/sites/a/red-4", &candidates).await.err();
    assert!(matches!(error, Some(SessionError::Interrupted)), "{error:?}");
}

#[tokio::test]
async fn uploads_that_were_left_are_removed_after_a_day_and_those_of_others_are_not() {
    let site = Site::new();
    let upload = |key: &str, began| Upload { key: key.to_owned(), began, parts: Default::default() };
    let mine = "sites/a/red-20260101T000000Z/archive.age";
    let all = [
        ("old", upload(mine, 100)),
        ("new", upload(mine, 100_000)),
        ("blue", upload("sites/a/blue-20260101T000000Z/archive.age", 100)),
        ("photos", upload("sites/a/red-photos/archive.age", 100)),
    ];
    site.server.state().uploads.extend(all.map(|(id, upload)| (id.to_owned(), upload)));
    site.place().tidy("red", 100_100).await;
    assert_eq!(site.server.state().uploads.keys().map(String::as_str).collect::<Vec<_>>(), ["blue", "new", "photos"]);
    assert!(site.heard().contains("is not complete") && site.heard().contains("are removed"), "{}", site.heard());
    // It fails nothing.
    site.server.fail(Fault::of("GET", "uploads", What::Refused(403, "AccessDenied", String::new())));
    site.place().tidy("red", 100_100).await;
    assert!(site.heard().contains("s3:ListBucketMultipartUploads"), "{}", site.heard());
}

#[tokio::test]
async fn a_server_that_lists_uploads_without_end_keeps_no_backup_busy() {
    let site = Site::new();
    for number in 0..30 {
        let key = format!("sites/a/red-202601{number:02}T000000Z/archive.age");
        let upload = Upload { key, began: 100, parts: Default::default() };
        site.server.state().uploads.insert(format!("{number:02}"), upload);
    }
    let left = || site.server.state().uploads.len();
    // Each of them may be tried for minutes: after the first one that fails there is no other.
    site.server.fail(Fault::of("DELETE", "uploadId", What::Refused(403, "AccessDenied", String::new())).times(1));
    site.place().tidy("red", 100_100).await;
    assert_eq!((site.server.asked("DELETE"), left()), (1, 30));
    assert!(site.heard().contains("not looked at now: 29 more uploads"), "{}", site.heard());
    site.place().tidy("red", 100_100).await;
    assert_eq!((site.server.asked("DELETE"), left()), (21, 10));
    assert!(site.heard().contains("not looked at now: 10 more uploads"), "{}", site.heard());
    // What may still be made is named, and not without end.
    site.place().tidy("red", 200).await;
    site.cancel.cancel();
    site.place().tidy("red", 100_100).await;
    assert_eq!((site.server.asked("DELETE"), left()), (21, 10));
    site.server.state().uploads.clear();
    for number in 0..30 {
        let key = format!("sites/a/blue-202601{number:02}T000000Z/archive.age");
        site.server.state().uploads.insert(number.to_string(), Upload { key, began: 100, parts: Default::default() });
    }
    let before = site.heard().matches("is not complete").count();
    site.place().tidy("blue", 200).await;
    assert_eq!(site.heard().matches("is not complete").count() - before, 20);
}

#[tokio::test]
async fn a_server_that_means_harm_fills_no_disk_and_a_place_without_a_backup_is_named() {
    let site = Site::new();
    let folder = || tempfile::tempdir().unwrap();
    let error = site.bucket().fetch(folder().path(), ANYBODY).await.unwrap_err().to_string();
    assert!(error.starts_with("s3://backups/sites/a is no backup: it has no backup.json"), "{error}");
    let put = |key: &str, bytes: Vec<u8>| site.server.state().objects.insert(key.to_owned(), bytes);
    put("sites/a/backup.json", vec![b'{'; 17 << 20]);
    let error = site.bucket().fetch(folder().path(), ANYBODY).await.unwrap_err().to_string();
    assert!(error.contains("more than 16777216 bytes"), "{error}");
    put("sites/a/backup.json", b"{\"schema\": \"kubexm.io/backup/v9\"}".to_vec());
    let error = site.bucket().fetch(folder().path(), ANYBODY).await.unwrap_err().to_string();
    assert!(error.starts_with("s3://backups/sites/a/backup.json: its schema is"), "{error}");
    let huge = Archive { sha256: Digest::of("x"), size: 1 << 50 };
    put("sites/a/backup.json", header(BackupAbout { archive: huge, ..about(1, 1) }).to_json().unwrap().into());
    let error = site.bucket().fetch(folder().path(), ANYBODY).await.unwrap_err().to_string();
    assert!(error.contains("which no etcd fills"), "{error}");
    put("sites/a/backup.json", header(about(1, 1)).to_json().unwrap().into());
    let error = site.bucket().fetch(folder().path(), ANYBODY).await.unwrap_err().to_string();
    assert!(error.contains("it has no archive.age"), "{error}");
    put("sites/a/archive.age", vec![0; 8]);
    let error = site.bucket().fetch(folder().path(), ANYBODY).await.unwrap_err().to_string();
    assert!(error.contains("more than 7 bytes"), "{error}");
}

#[tokio::test]
async fn an_interrupt_ends_a_backup_and_leaves_nothing() {
    let site = Site::new();
    site.cancel.cancel();
    let large = vec![7; usize::try_from(kubexm_s3::PART).unwrap() + 1];
    let error = site.backup("red-1", 10, &large).await.unwrap_err();
    assert!(matches!(error, SessionError::Interrupted), "{error}");
    assert!(site.keys().is_empty() && site.server.state().uploads.is_empty());
}
