//! Uploads that break in every way: what arrives is the blob, nothing is sent twice that need not be, and no secret goes
//! to a stranger.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use kubexm_spec::{Digest, ExitCode};
use kubexm_transport::oci::{Bytes, Content, Outcome, Pace, PushOptions};
use kubexm_transport::{Credentials, ImageCandidate, OciRegistry, Repository, TransportError};

use crate::fake_registry::{FakeRegistry, Fault, Seen};
use crate::server::{Reply, Server};
use crate::support::{self, client, client_of, impatient, quiet};

/// More than two chunks.
const SIZE: usize = 20 << 20;
const CHUNK: usize = 8 << 20;

/// Bytes with no pattern that a wrong offset would repeat, made quickly: noise with the place stamped into it.
fn bytes(seed: u64, size: usize) -> Vec<u8> {
    const BLOCK: usize = 64 << 10;
    let block = support::bytes(seed, BLOCK);
    let mut all = Vec::with_capacity(size + BLOCK);
    while all.len() < size {
        let at = all.len();
        all.extend_from_slice(&block);
        all[at..at + 8].copy_from_slice(&at.to_le_bytes());
    }
    all.truncate(size);
    all
}

async fn repository(address: &str, credentials: Credentials, mount_from: &[&str]) -> Repository {
    let at = ImageCandidate { plain_http: true, ..ImageCandidate::new(address, "a") };
    let from: Vec<String> = mount_from.iter().map(ToString::to_string).collect();
    OciRegistry::new(client(), credentials).repository(&at, &from).await.unwrap()
}

async fn push(registry: &FakeRegistry, body: &[u8]) -> Result<Outcome, TransportError> {
    let repository = repository(&registry.address, Credentials::anonymous(), &[]).await;
    let content = Arc::new(Bytes::copy_from_slice(body));
    repository.push_blob((Digest::of(body), body.len() as u64), content, &quiet).await
}

/// Pushes, and demands that the registry has the very bytes.
async fn arrives(registry: &FakeRegistry, body: &[u8]) {
    assert_eq!(push(registry, body).await.unwrap(), Outcome::Sent);
    assert!(registry.state.lock().unwrap().blobs[&Digest::of(body).to_string()] == body);
}

fn nothing(_: &Seen, _: usize) -> Fault {
    Fault::None
}

#[tokio::test(flavor = "multi_thread")]
async fn small_large_and_empty_blobs_arrive_and_are_not_sent_again() {
    for size in [0, 1, 1000, CHUNK, CHUNK + 1, SIZE] {
        let registry = FakeRegistry::start(nothing).await;
        let body = bytes(1, size);
        arrives(&registry, &body).await;
        assert_eq!(push(&registry, &body).await.unwrap(), Outcome::Present);
        let state = registry.state.lock().unwrap();
        assert_eq!(state.taken("PATCH") + state.taken("PUT"), size, "{size}");
        assert_eq!(state.count("POST", "uploads"), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_in_a_chunk_is_asked_how_far_it_came_and_resumed() {
    let registry = FakeRegistry::start(|seen, number| match (seen.method.as_str(), number) {
        ("PATCH", 1) => Fault::BreakAfter(5_000_000),
        _ => Fault::None,
    })
    .await;
    let least = AtomicU64::new(u64::MAX);
    let body = bytes(2, SIZE);
    let repository = repository(&registry.address, Credentials::anonymous(), &[]).await;
    let reported = |done, total| {
        assert_eq!(total, Some(SIZE as u64));
        least.fetch_min(done, Ordering::Relaxed);
    };
    let content = Arc::new(Bytes::copy_from_slice(&body));
    repository.push_blob((Digest::of(&body), SIZE as u64), content, &reported).await.unwrap();
    let state = registry.state.lock().unwrap();
    assert!(state.blobs[&Digest::of(&body).to_string()] == body);
    assert_eq!(state.count("POST", "uploads"), 1, "it began again");
    assert_eq!(state.count("GET", "uploads"), 1, "the registry was not asked");
    assert_eq!(state.taken("PATCH") + state.taken("PUT"), SIZE, "bytes were sent twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_the_registry_has_forgotten_restarts() {
    let registry = FakeRegistry::start(|seen, number| match (seen.method.as_str(), number) {
        ("PATCH", 1) => Fault::Forget,
        _ => Fault::None,
    })
    .await;
    arrives(&registry, &bytes(3, SIZE)).await;
    assert_eq!(registry.state.lock().unwrap().count("POST", "uploads"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_is_there_although_the_answer_was_lost_is_not_sent_again() {
    let registry = FakeRegistry::start(|seen, number| match (seen.method.as_str(), number) {
        ("PUT", 0) => Fault::LoseAnswer,
        _ => Fault::None,
    })
    .await;
    let body = bytes(4, 1 << 20);
    arrives(&registry, &body).await;
    assert_eq!(registry.state.lock().unwrap().taken("PUT"), body.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_that_arrived_although_the_answer_was_lost_is_not_sent_again() {
    let registry = FakeRegistry::start(|seen, number| match (seen.method.as_str(), number) {
        ("PATCH", 0) => Fault::LoseAnswer,
        _ => Fault::None,
    })
    .await;
    arrives(&registry, &bytes(5, SIZE)).await;
    assert_eq!(registry.state.lock().unwrap().taken("PATCH"), SIZE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_busy_is_waited_for_as_long_as_it_says() {
    let registry = FakeRegistry::start(|seen, number| match (seen.method.as_str(), number) {
        ("HEAD", 0) => Fault::Answer(429, vec![("retry-after".to_owned(), "1".to_owned())]),
        ("POST", 0) | ("PATCH", 0) => Fault::Answer(503, Vec::new()),
        _ => Fault::None,
    })
    .await;
    let before = Instant::now();
    arrives(&registry, &bytes(6, CHUNK + 1)).await;
    assert!(before.elapsed() >= Duration::from_secs(1), "Retry-After was not heeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_takes_no_large_bodies_gets_smaller_ones() {
    let limit = 2 << 20;
    let registry = FakeRegistry::start(move |seen, _| {
        let length: usize = seen.headers.get("content-length").map_or(0, |text| text.parse().unwrap());
        if length > limit { Fault::Answer(413, Vec::new()) } else { Fault::None }
    })
    .await;
    arrives(&registry, &bytes(7, 5 << 20)).await;
    arrives(&registry, &bytes(7, SIZE)).await;
    // Several at once learn it together, each from what was refused of it.
    let (repository, pace) =
        (repository(&registry.address, Credentials::anonymous(), &[]).await, Pace::starting(5 << 20));
    let one = |seed| {
        let (repository, body) = (&repository, bytes(seed, SIZE));
        let options = PushOptions { pace: Some(&pace), ..PushOptions::default() };
        async move {
            let content = Arc::new(Bytes::from(body.clone()));
            repository.push_blob_with((Digest::of(&body), SIZE as u64), content, options, &quiet).await.unwrap();
        }
    };
    tokio::join!(one(20), one(21), one(22), one(23));
    assert_eq!(pace.chunk(), (5 << 20) / 4);
    let nothing_fits = FakeRegistry::start(|seen, _| match seen.method.as_str() {
        "PATCH" | "PUT" => Fault::Answer(413, Vec::new()),
        _ => Fault::None,
    })
    .await;
    let error = push(&nothing_fits, &bytes(7, 5 << 20)).await.unwrap_err();
    assert!(error.to_string().contains("413"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_wants_huge_chunks_gets_no_more_than_is_held_in_memory() {
    let registry = |least: u64| async move {
        let registry = FakeRegistry::start(nothing).await;
        let wish = ("oci-chunk-min-length".to_owned(), least.to_string());
        registry.state.lock().unwrap().headers.push(wish);
        registry
    };
    let modest = registry(12 << 20).await;
    arrives(&modest, &bytes(14, SIZE)).await;
    assert!(modest.state.lock().unwrap().seen.iter().any(|seen| seen.method == "PATCH" && seen.body == 12 << 20));
    let greedy = registry(1 << 40).await;
    let error = push(&greedy, &bytes(14, SIZE)).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("OCI-Chunk-Min-Length") && text.contains(&(1_u64 << 40).to_string()), "{text}");
    assert_eq!(greedy.state.lock().unwrap().count("PATCH", ""), 0);
    // What goes up in one request is not concerned.
    arrives(&greedy, &bytes(15, 1000)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_forgets_every_upload_is_given_up() {
    let registry = FakeRegistry::start(|seen, number| match seen.method.as_str() {
        // The first chunk of each session arrives, the second never does.
        "PATCH" if number % 2 == 1 => Fault::Forget,
        // Nor the end of one that fast chunks have brought so far.
        "PUT" => Fault::Forget,
        _ => Fault::None,
    })
    .await;
    let error = push(&registry, &bytes(13, SIZE)).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginDown, "{error}");
    assert!(registry.state.lock().unwrap().count("POST", "uploads") <= 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_says_nothing_is_given_up() {
    let registry = FakeRegistry::start(|seen, _| match seen.method.as_str() {
        "PUT" => Fault::Silence,
        _ => Fault::None,
    })
    .await;
    let at = ImageCandidate { plain_http: true, ..ImageCandidate::new(&registry.address, "a") };
    let impatient = OciRegistry::new(client_of(impatient()), Credentials::anonymous());
    let repository = impatient.repository(&at, &[]).await.unwrap();
    let body = bytes(8, 8 << 20);
    let blob = (Digest::of(&body), body.len() as u64);
    let error = repository.push_blob(blob, Arc::new(Bytes::copy_from_slice(&body)), &quiet).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginDown, "{error}");
    assert!(error.to_string().contains(&registry.address), "{error}");
}

/// Says from which bytes on it was opened.
struct Opened(Bytes, Mutex<Vec<u64>>);

impl Content for Opened {
    fn name(&self) -> String {
        "the content".to_owned()
    }

    fn open(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        self.1.lock().unwrap().push(offset);
        Content::open(&self.0, offset)
    }
}

/// To open a blob of a bundle from a byte on is to hash all before it.
#[tokio::test(flavor = "multi_thread")]
async fn content_is_opened_once_however_many_chunks_it_is_and_again_after_a_break() {
    const TAKEN: usize = 1 << 20;
    for (breaks, opened) in [(false, vec![0]), (true, vec![0, (CHUNK + TAKEN) as u64])] {
        let registry = FakeRegistry::start(move |seen, number| match seen.method.as_str() {
            "PATCH" if breaks && number == 1 => Fault::BreakAfter(TAKEN),
            _ => Fault::None,
        })
        .await;
        let body = bytes(16, SIZE);
        let content = Arc::new(Opened(Bytes::from(body.clone()), Mutex::default()));
        let repository = repository(&registry.address, Credentials::anonymous(), &[]).await;
        let options = PushOptions { chunk: CHUNK as u64, ..PushOptions::default() };
        let blob = (Digest::of(&body), body.len() as u64);
        repository.push_blob_with(blob, Arc::clone(&content) as _, options, &quiet).await.unwrap();
        assert!(registry.state.lock().unwrap().blobs[&blob.0.to_string()] == body);
        assert_eq!(*content.1.lock().unwrap(), opened);
    }
}

/// Bytes that are not those that were promised.
struct Liar(Vec<u8>);

impl Content for Liar {
    fn name(&self) -> String {
        "the liar".to_owned()
    }

    fn open(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(io::Cursor::new(self.0[offset as usize..].to_vec())))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_ends_early_or_is_another_does_not_become_a_blob() {
    let registry = FakeRegistry::start(nothing).await;
    let repository = repository(&registry.address, Credentials::anonymous(), &[]).await;
    let body = bytes(9, 1 << 20);
    let short = Arc::new(Liar(body[..1000].to_vec()));
    let error = repository.push_blob((Digest::of(&body), body.len() as u64), short, &quiet).await.unwrap_err();
    assert!(matches!(&error, TransportError::Unreadable { what, .. } if what == "the liar"), "{error}");
    let other = Arc::new(Liar(bytes(10, 1 << 20)));
    let error = repository.push_blob((Digest::of(&body), body.len() as u64), other, &quiet).await.unwrap_err();
    assert!(error.to_string().contains("DIGEST_INVALID"), "{error}");
    assert!(registry.state.lock().unwrap().blobs.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_arrives_as_another_is_a_mismatch() {
    let registry = FakeRegistry::start(|seen, _| match seen.method.as_str() {
        "PUT" => Fault::Answer(201, vec![("docker-content-digest".to_owned(), Digest::of("another").to_string())]),
        _ => Fault::None,
    })
    .await;
    let repository = repository(&registry.address, Credentials::anonymous(), &[]).await;
    let error = repository.push_manifest("v1", "application/json", b"{}").await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginMismatch, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_neither_a_tag_nor_a_digest_is_asked_of_no_registry() {
    let registry = FakeRegistry::start(nothing).await;
    let repository = repository(&registry.address, Credentials::anonymous(), &[]).await;
    for reference in ["../../../other/app/manifests/v9", "..", "", "v1/../v2", "v1?x", "%2e%2e", "sha256:12"] {
        let pushed = repository.push_manifest(reference, "application/json", b"{}").await.unwrap_err();
        let read = repository.manifest(reference).await.unwrap_err();
        let found = repository.find(reference).await.unwrap_err();
        for error in [pushed, read, found] {
            assert_eq!(error.exit_code(), ExitCode::Config, "{reference:?}: {error}");
            assert!(error.to_string().contains("neither a tag nor a digest"), "{error}");
        }
    }
    assert!(registry.state.lock().unwrap().seen.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn whether_a_registry_keeps_the_list_of_referrers_is_what_it_says() {
    let registry = FakeRegistry::start(nothing).await;
    let repository = repository(&registry.address, Credentials::anonymous(), &[]).await;
    assert!(!repository.push_manifest("v1", "application/json", b"{}").await.unwrap().keeps_referrers);
    registry.state.lock().unwrap().headers = vec![("OCI-Subject".to_owned(), Digest::of("x").to_string())];
    assert!(repository.push_manifest("v1", "application/json", b"{}").await.unwrap().keeps_referrers);
    // Its own list comes first; without one, the tag.
    let subject = Digest::of("x");
    let pages = || async { repository.referrers(&subject, "a/type").await.unwrap().pages };
    assert!(pages().await.is_empty());
    let tag = kubexm_transport::oci::referrers_tag(&subject);
    repository.push_manifest(&tag, "application/json", b"by tag").await.unwrap();
    assert_eq!(pages().await, [b"by tag"]);
    registry.state.lock().unwrap().manifests.insert(subject.to_string(), b"own".to_vec());
    // The fake registry answers manifests and referrers alike by their last part.
    assert_eq!(pages().await, [b"own"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_becomes_an_upload_is_resumed_and_its_token_may_read_the_other_repository() {
    let issued = Arc::new(AtomicUsize::new(0));
    let (counted, basic) = (Arc::clone(&issued), base64::engine::general_purpose::STANDARD.encode("builder:sesame"));
    let tokens = Server::start(move |request| {
        let scopes = ["scope=repository%3Aa%3Apull%2Cpush", "scope=repository%3Ab%3Apull", "service=test"];
        let right = scopes.iter().all(|scope| request.path.contains(scope));
        match request.header("authorization") == Some(&format!("Basic {basic}")) && right {
            true => Reply::new(200, format!("{{\"token\":\"t{}\"}}", counted.fetch_add(1, Ordering::SeqCst) + 1)),
            false => Reply::new(403, request.path.clone()),
        }
    })
    .await;
    let (realm, uses) = (tokens.url("token"), AtomicUsize::new(0));
    let registry = FakeRegistry::start(move |seen, _| {
        let token = format!("Bearer t{}", issued.load(Ordering::SeqCst));
        // Good for three requests.
        let good = seen.headers.get("authorization") == Some(&token) && uses.fetch_add(1, Ordering::SeqCst) % 4 != 3;
        match good {
            true => Fault::None,
            false => {
                let challenge = format!("Bearer realm=\"{realm}\",service=\"test\"");
                Fault::Answer(401, vec![("www-authenticate".to_owned(), challenge)])
            }
        }
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let config =
        serde_json::json!({"auths": {registry.address.as_str(): {"username": "builder", "password": "sesame"}}});
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    let repository = repository(&registry.address, Credentials::docker_config_dir(dir.path()), &["b", "c"]).await;
    let body = bytes(11, SIZE);
    let content = Arc::new(Bytes::copy_from_slice(&body));
    let outcome = repository.push_blob((Digest::of(&body), SIZE as u64), content, &quiet).await.unwrap();
    assert_eq!(outcome, Outcome::Sent);
    let state = registry.state.lock().unwrap();
    assert!(state.blobs[&Digest::of(&body).to_string()] == body);
    let posts: Vec<&Seen> = state.seen.iter().filter(|seen| seen.method == "POST").collect();
    assert!(posts.iter().all(|seen| seen.target.contains("from=")), "a third session was opened: {posts:?}");
    assert!(state.uploads.is_empty(), "a session that nobody needs was left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_registrys_refusal_as_much_is_read_as_a_reason_has() {
    let refused = |length: usize| async move {
        let server = Server::start(move |request| match request.method.as_str() {
            "HEAD" => Reply::new(404, ""),
            _ => {
                let message = "x".repeat(length);
                Reply::new(403, format!("{{\"errors\":[{{\"code\":\"DENIED\",\"message\":\"{message}\"}}]}}"))
            }
        })
        .await;
        let repository = repository(server.address(), Credentials::anonymous(), &[]).await;
        let content = Arc::new(Bytes::copy_from_slice(b"x"));
        let error = repository.push_blob((Digest::of("x"), 1), content, &quiet).await.unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::OriginDenied, "{error}");
        error.to_string()
    };
    let short = refused(10_000).await;
    assert!(short.contains("403") && short.contains("DENIED xxx") && short.len() < 1_000, "{short}");
    // Its end, which makes it a document, is beyond what is read.
    let long = refused(1 << 20).await;
    assert!(long.contains("403") && !long.contains("xxx") && long.len() < 1_000, "{} bytes", long.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_not_shown_to_a_store_that_a_registry_sends_uploads_to() {
    let store = FakeRegistry::start(nothing).await;
    store.state.lock().unwrap().uploads.insert("u1".to_owned(), Vec::new());
    let location = format!("http://{}/v2/a/blobs/uploads/u1", store.address);
    let registry = FakeRegistry::start(move |seen, _| {
        let challenge = || ("www-authenticate".to_owned(), "Basic realm=\"r\"".to_owned());
        match (seen.headers.contains_key("authorization"), seen.method.as_str()) {
            (false, _) => Fault::Answer(401, vec![challenge()]),
            (true, "POST") => Fault::Answer(202, vec![("location".to_owned(), location.clone())]),
            _ => Fault::None,
        }
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let config =
        serde_json::json!({"auths": {registry.address.as_str(): {"username": "builder", "password": "sesame"}}});
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    let repository = repository(&registry.address, Credentials::docker_config_dir(dir.path()), &[]).await;
    let body = bytes(12, 1000);
    let content = Arc::new(Bytes::copy_from_slice(&body));
    repository.push_blob((Digest::of(&body), 1000), content, &quiet).await.unwrap();
    let state = store.state.lock().unwrap();
    assert!(state.blobs.contains_key(&Digest::of(&body).to_string()));
    assert!(state.seen.iter().all(|seen| !seen.headers.contains_key("authorization")));
}
