//! Uploads that one program leaves open and another resumes, and what is asked before a push.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use kubexm_spec::{Digest, ExitCode};
use kubexm_transport::oci::{Bytes, OpenUpload, OpenUploads, Outcome, Pace, PushOptions};
use kubexm_transport::{Credentials, ImageCandidate, OciRegistry, Repository, TransportError};
use zeroize::Zeroizing;

use crate::fake_registry::{FakeRegistry, Fault, Seen};
use crate::support::{bytes, client, quiet};

const SIZE: usize = 9 << 20;
const CHUNK: u64 = 1 << 20;

/// What outlives a program.
#[derive(Default)]
struct Kept(Mutex<HashMap<Digest, OpenUpload>>);

impl OpenUploads for Kept {
    fn known(&self, _: &str, digest: &Digest) -> Option<OpenUpload> {
        self.0.lock().unwrap().get(digest).cloned()
    }

    fn note(&self, _: &str, digest: &Digest, upload: OpenUpload) {
        self.0.lock().unwrap().insert(*digest, upload);
    }

    fn forget(&self, _: &str, digest: &Digest) {
        self.0.lock().unwrap().remove(digest);
    }
}

async fn repository(registry: &FakeRegistry) -> Repository {
    let at = ImageCandidate { plain_http: true, ..ImageCandidate::new(&registry.address, "a") };
    OciRegistry::new(client(), Credentials::anonymous()).repository(&at, &[]).await.unwrap()
}

/// Pushes in chunks of 1 MiB; ends after the chunk in which `stop` is set.
async fn push(registry: &FakeRegistry, body: &[u8], kept: &Kept, stop: &AtomicBool) -> Result<Outcome, TransportError> {
    let options = PushOptions { chunk: CHUNK, uploads: Some(kept), stop: Some(stop), ..PushOptions::default() };
    let content = Arc::new(Bytes::copy_from_slice(body));
    let blob = (Digest::of(body), body.len() as u64);
    repository(registry).await.push_blob_with(blob, content, options, &quiet).await
}

/// Sets the flag when the n-th chunk comes in.
async fn stopping_at(
    chunk: usize,
    fault: impl Fn() -> Fault + Send + Sync + 'static,
) -> (FakeRegistry, Arc<AtomicBool>) {
    let stop = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&stop);
    let registry = FakeRegistry::start(move |seen: &Seen, number| match (seen.method.as_str(), number) {
        ("PATCH", number) if number == chunk => {
            set.store(true, Ordering::Relaxed);
            fault()
        }
        _ => Fault::None,
    })
    .await;
    (registry, stop)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_was_stopped_is_resumed_by_the_next_program_where_it_was() {
    let (registry, stop) = stopping_at(3, || Fault::None).await;
    let (kept, body) = (Kept::default(), bytes(1, SIZE));
    let ended = push(&registry, &body, &kept, &stop).await;
    assert!(matches!(ended, Err(TransportError::Stopped)), "{ended:?}");
    assert_eq!(ended.unwrap_err().exit_code(), ExitCode::Declined);
    assert_eq!(kept.0.lock().unwrap()[&Digest::of(&body)].offset, 4 * CHUNK, "the chunk on its way is finished");
    stop.store(false, Ordering::Relaxed);
    assert_eq!(push(&registry, &body, &kept, &stop).await.unwrap(), Outcome::Sent);
    let state = registry.state.lock().unwrap();
    assert!(state.blobs[&Digest::of(&body).to_string()] == body);
    assert_eq!(state.taken("PATCH") + state.taken("PUT"), SIZE, "bytes were sent twice");
    assert_eq!(state.count("POST", "uploads"), 1, "it began again");
    assert!(kept.0.lock().unwrap().is_empty(), "what is there is not remembered");
}

/// Each chunk costs a registry a write to its disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_takes_chunks_fast_gets_larger_ones_of_this_blob_and_the_next() {
    let registry = FakeRegistry::start(|_, _| Fault::None).await;
    let (repository, pace) = (repository(&registry).await, Pace::starting(CHUNK));
    let (mut first, mut sizes): (Vec<usize>, Vec<Vec<usize>>) = Default::default();
    for seed in [4, 5] {
        let body = bytes(seed, SIZE);
        let options = PushOptions { pace: Some(&pace), ..PushOptions::default() };
        let (blob, content) = ((Digest::of(&body), SIZE as u64), Arc::new(Bytes::copy_from_slice(&body)));
        first.push(usize::try_from(pace.chunk()).unwrap().min(SIZE));
        assert_eq!(repository.push_blob_with(blob, content, options, &quiet).await.unwrap(), Outcome::Sent);
        let mut state = registry.state.lock().unwrap();
        assert!(state.blobs[&Digest::of(&body).to_string()] == body);
        let seen = std::mem::take(&mut state.seen);
        sizes.push(seen.iter().filter(|seen| seen.body > 0).map(|seen| seen.body).collect());
    }
    let chunk = CHUNK as usize;
    assert!(sizes[0].iter().any(|size| *size > chunk), "{sizes:?}");
    assert_eq!([sizes[0][0], sizes[1][0]], *first, "{sizes:?}");
    assert_eq!(first[0], chunk);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_program_sent_of_a_chunk_is_not_sent_again_where_the_registry_kept_it() {
    let (registry, stop) = stopping_at(3, || Fault::BreakAfter(300_000)).await;
    let (kept, body) = (Kept::default(), bytes(2, SIZE));
    // Killed: the future ends where it is when the chunk has broken.
    let killed = async {
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    let never = AtomicBool::new(false);
    tokio::select! {
        _ = push(&registry, &body, &kept, &never) => {}
        () = killed => {}
    }
    push(&registry, &body, &kept, &never).await.unwrap();
    let state = registry.state.lock().unwrap();
    assert!(state.blobs[&Digest::of(&body).to_string()] == body);
    let taken = state.taken("PATCH") + state.taken("PUT");
    assert!(taken <= SIZE + CHUNK as usize, "{taken} of {SIZE}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_the_registry_has_dropped_meanwhile_restarts() {
    let registry = FakeRegistry::start(|_, _| Fault::None).await;
    let (kept, body, never) = (Kept::default(), bytes(3, SIZE), AtomicBool::new(false));
    let url = format!("http://{}/v2/a/blobs/uploads/gone?state=1", registry.address);
    kept.note("", &Digest::of(&body), OpenUpload { url: url.clone(), offset: CHUNK });
    assert!(!format!("{:?}", kept.known("", &Digest::of(&body))).contains("state"), "it may let anybody write");
    assert_eq!(push(&registry, &body, &kept, &never).await.unwrap(), Outcome::Sent);
    assert!(registry.state.lock().unwrap().blobs[&Digest::of(&body).to_string()] == body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_no_registry_and_a_digest_without_a_header_is_computed() {
    let page = |_: &Seen, _: usize| Fault::Answer(200, vec![("content-type".to_owned(), "text/html".to_owned())]);
    let registry = FakeRegistry::start(page).await;
    let to = repository(&registry).await;
    for error in
        [to.check_api().await.unwrap_err(), to.check_push().await.unwrap_err(), to.find("x").await.unwrap_err()]
    {
        assert_eq!(error.exit_code(), ExitCode::OriginMismatch, "{error}");
    }
    let registry = FakeRegistry::start(|seen: &Seen, _| match seen.method.as_str() {
        "HEAD" if seen.target.ends_with("/there") => Fault::Answer(200, Vec::new()),
        _ => Fault::None,
    })
    .await;
    let to = repository(&registry).await;
    let manifest = br#"{"schemaVersion":2}"#;
    to.push_manifest("there", "application/vnd.oci.image.manifest.v1+json", manifest).await.unwrap();
    assert_eq!(to.find("there").await.unwrap(), Some(Digest::of(manifest)));
    assert_eq!(to.find("absent").await.unwrap(), None);
    to.check_push().await.unwrap();
    assert!(registry.state.lock().unwrap().uploads.is_empty(), "the upload that was opened to ask is cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_room_is_an_error_of_its_own_and_is_not_tried_again() {
    let registry = FakeRegistry::start(|seen: &Seen, _| match seen.method.as_str() {
        "PUT" => Fault::Answer(507, Vec::new()),
        _ => Fault::None,
    })
    .await;
    let (kept, body, never) = (Kept::default(), bytes(4, 1000), AtomicBool::new(false));
    let error = push(&registry, &body, &kept, &never).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::RegistryFull, "{error}");
    assert_eq!(registry.state.lock().unwrap().count("PUT", ""), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_for_one_registry_and_counts_before_files() {
    let registry = FakeRegistry::start(|seen: &Seen, _| match seen.headers.contains_key("authorization") {
        true => Fault::None,
        false => Fault::Answer(401, vec![("www-authenticate".to_owned(), "Basic realm=\"x\"".to_owned())]),
    })
    .await;
    let shown = async |name: &str| {
        let credentials =
            Credentials::file("/nowhere").with_password(name, "robot", Zeroizing::new("sesame".to_owned()));
        assert!(!format!("{credentials:?}").contains("sesame"));
        let at = ImageCandidate { plain_http: true, ..ImageCandidate::new(&registry.address, "a") };
        let to = OciRegistry::new(client(), credentials).repository(&at, &[]).await?;
        to.check_push().await
    };
    shown(&registry.address).await.unwrap();
    assert!(shown("elsewhere.test").await.is_err());
    let seen = &registry.state.lock().unwrap().seen;
    let sent: Vec<&String> = seen.iter().filter_map(|seen| seen.headers.get("authorization")).collect();
    assert!(sent.iter().all(|sent| sent.as_str() == "Basic cm9ib3Q6c2VzYW1l"), "{sent:?}");
}
