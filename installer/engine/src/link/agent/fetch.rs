//! Fetches blobs from depots and from other hosts of the run (`<url>/blobs/sha256/<hex>`) into the node's content store.
//!
//! The depots are tried in order; a transfer that breaks off is resumed from the next depot, since the received bytes
//! stay in the blob's part file and the digest is checked at the end. A depot that does not answer is not an error: it
//! is skipped for the rest of the request, and the controller sends what no depot had.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kubexm_plan::op::Depots;
use kubexm_spec::{Digest, error_chain};
use kubexm_transport::{BasicLogin, FileCandidate, HttpClient, HttpOptions, MutualTls, Store, TransportError, Want};
use zeroize::Zeroizing;

use crate::link::{Fetched, RunIdentity};

/// Blobs that are fetched in parallel.
const PARALLEL: usize = 4;
/// Interval at which the controller's presence is checked.
const LOOK: Duration = Duration::from_millis(200);

/// Bytes a second of a transfer between two hosts that is slow and no failure yet: the lines of both carry others too.
pub(crate) const SLOW: u64 = 512 << 10;
/// The part of the bytes that must have come when the time is over for the rest to be worth waiting for.
const ENOUGH: u64 = 4;

/// Time limits of a request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For the whole request.
    pub whole: Duration,
    /// For connecting to a depot.
    pub connect: Duration,
    /// Without data before a connection is given up; it is retried once.
    pub stall: Duration,
}

impl Limits {
    /// Limits for so many bytes in total. A depot that hangs costs a connection timeout and a stall, twice;
    /// [`Depots::limit_s`] includes these.
    pub fn of(bytes: u64, depots: &Depots) -> Self {
        Self {
            whole: Duration::from_secs(depots.limit_s(bytes)),
            connect: Duration::from_secs(5),
            stall: Duration::from_secs(20),
        }
    }

    /// Limits for so many bytes from another host of the run.
    pub fn between_hosts(bytes: u64) -> Self {
        Self {
            whole: Duration::from_secs((bytes / SLOW).saturating_add(30)),
            connect: Duration::from_secs(3),
            stall: Duration::from_secs(10),
        }
    }
}

/// Fetches what the store is missing, until the limit or until the controller is `gone`. The program must have
/// installed rustls' provider. An error is local, such as a full disk. An unreadable CA file is reported as the reason
/// for every depot.
pub fn fetch(
    limits: Limits,
    store: &Path,
    blobs: &BTreeMap<Digest, u64>,
    depots: &Depots,
    gone: impl Fn() -> bool,
) -> Result<Fetched, String> {
    let login = match depots.login.as_ref().map(login).transpose() {
        Ok(login) => login,
        Err(reason) => {
            let missing = blobs.iter().map(|(digest, size)| (*digest, *size)).collect();
            return Ok(Fetched { missing, reasons: vec![reason], still_coming: false });
        }
    };
    let asked = Asked {
        what: "depot",
        client: HttpClient::new(options(limits)).map_err(|error| error_chain(&error))?,
        urls: &depots.urls,
        ca: Some(PathBuf::from(&depots.ca)),
        login,
        down: Mutex::default(),
        reasons: Mutex::default(),
        moved: AtomicU64::new(0),
        before: AtomicU64::new(0),
    };
    fetch_all(asked, limits, store, blobs, gone)
}

/// The same from another host of the run, which is known by the certificates of the run, as this one is there.
pub fn fetch_shared(
    store: &Path,
    blobs: &BTreeMap<Digest, u64>,
    from: SocketAddr,
    identity: &RunIdentity,
    gone: impl Fn() -> bool,
) -> Result<Fetched, String> {
    let limits = Limits::between_hosts(blobs.values().fold(0, |sum: u64, size| sum.saturating_add(*size)));
    let mut pem = Zeroizing::new(identity.certificate.clone().into_bytes());
    pem.extend_from_slice(&identity.key.0);
    let mutual = Some(MutualTls { ca: identity.ca.clone().into_bytes(), identity: pem });
    let asked = Asked {
        what: "host",
        client: HttpClient::new(HttpOptions { mutual, ..options(limits) }).map_err(|error| error_chain(&error))?,
        urls: &[format!("https://{from}")],
        ca: None,
        login: None,
        down: Mutex::default(),
        reasons: Mutex::default(),
        moved: AtomicU64::new(0),
        before: AtomicU64::new(0),
    };
    fetch_all(asked, limits, store, blobs, gone)
}

fn fetch_all(
    depots: Asked<'_>,
    limits: Limits,
    store: &Path,
    blobs: &BTreeMap<Digest, u64>,
    gone: impl Fn() -> bool,
) -> Result<Fetched, String> {
    let store = Store::open(store).map_err(|error| error_chain(&error))?;
    let bytes = blobs.values().fold(0, |sum: u64, size| sum.saturating_add(*size));
    let mut still_coming = false;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the threads that fetch blobs: {error}"))?;
    let done = runtime.block_on(async {
        let all = futures::stream::iter(blobs).map(|(digest, size)| depots.blob(&store, *digest, *size));
        let all = all.buffer_unordered(PARALLEL).collect::<Vec<Result<(), TransportError>>>();
        tokio::select! {
            results = all => results.into_iter().collect::<Result<(), _>>().map_err(|error| error_chain(&error)),
            () = until(&gone) => Err("stopped, since the controller is gone or takes the step back".to_owned()),
            () = tokio::time::sleep(limits.whole) => {
                let rest = bytes.saturating_sub(depots.before.load(Ordering::Relaxed));
                still_coming = depots.moved.load(Ordering::Relaxed) >= (rest / ENOUGH).max(1);
                depots.note(format!("the {}s were too slow: not all blobs arrived within {} s", depots.what, limits.whole.as_secs()));
                Ok(())
            }
        }
    });
    // A blocking task (a sync of a large file) may still run; its effect is atomic.
    runtime.shutdown_timeout(Duration::from_secs(5));
    done?;
    store.sync_names().map_err(|error| error_chain(&error))?;
    let mut missing = Vec::new();
    for (digest, size) in blobs {
        if !store.holds(digest, *size).map_err(|error| error_chain(&error))? {
            missing.push((*digest, *size));
        }
    }
    let reasons = depots.reasons.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Fetched { missing, reasons, still_coming })
}

/// The login of a file, or why it cannot be shown to a depot.
fn login(path: &String) -> Result<BasicLogin, String> {
    let text = std::fs::read(path).map(Zeroizing::new);
    let text = text.map_err(|error| format!("cannot read the login for the depots in {path}: {error}"))?;
    BasicLogin::from_header(&text).ok_or_else(|| format!("{path} is no login for the depots"))
}

fn options(limits: Limits) -> HttpOptions {
    HttpOptions {
        connect_timeout: limits.connect,
        stall_timeout: limits.stall,
        retries: 1,
        backoff_min: Duration::from_millis(250),
        backoff_max: Duration::from_secs(2),
        parallel: PARALLEL,
        parallel_per_host: PARALLEL,
        proxies: false,
        ..HttpOptions::default()
    }
}

async fn until(gone: impl Fn() -> bool) {
    while !gone() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Who is asked during one request.
struct Asked<'a> {
    /// What they are, for people.
    what: &'static str,
    client: HttpClient,
    urls: &'a [String],
    ca: Option<PathBuf>,
    login: Option<BasicLogin>,
    /// Depots that are not tried again.
    down: Mutex<BTreeSet<usize>>,
    reasons: Mutex<Vec<String>>,
    /// Bytes that came in this request.
    moved: AtomicU64,
    /// Bytes that had come in earlier ones.
    before: AtomicU64,
}

impl Asked<'_> {
    /// Fetches one blob from the first depot that has it. An error is local.
    async fn blob(&self, store: &Store, digest: Digest, size: u64) -> Result<(), TransportError> {
        let want = Want { digest: Some(digest), size: Some(size), ..Want::default() };
        if store.holds(&digest, size)? {
            return Ok(());
        }
        for (index, url) in self.urls.iter().enumerate() {
            if self.down().contains(&index) {
                continue;
            }
            let candidate = FileCandidate {
                url: format!("{}/blobs/sha256/{}", url.trim_end_matches('/'), digest.hex()),
                ca_file: self.ca.clone(),
                login: self.login.clone(),
                ..FileCandidate::default()
            };
            // What an earlier request left is in the first report.
            let before = AtomicU64::new(u64::MAX);
            let progress = |done: u64, _| {
                match before.swap(done, Ordering::Relaxed) {
                    u64::MAX => self.before.fetch_add(done, Ordering::Relaxed),
                    before => self.moved.fetch_add(done.saturating_sub(before), Ordering::Relaxed),
                };
            };
            match self.client.fetch(&[candidate], &want, store, &progress).await {
                Ok(_) => return Ok(()),
                Err(TransportError::AllFailed { tried, .. }) => self.failed(index, url, &tried),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A depot without this blob is still tried for the next one; one that does not answer, or sends wrong data, is
    /// not.
    fn failed(&self, index: usize, url: &str, tried: &[TransportError]) {
        let missing = tried.iter().all(|error| matches!(error, TransportError::Missing { .. }));
        if !missing && self.down().insert(index) {
            let why: Vec<String> = tried.iter().map(|error| error_chain(error)).collect();
            self.note(format!("{} {url}: {}", self.what, why.join("; ")));
        }
    }

    fn down(&self) -> std::sync::MutexGuard<'_, BTreeSet<usize>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, reason: String) {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner).push(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::super::unsynced::assert_names_are_synced;
    use super::*;

    /// It came in this request, and the controller does not ask for it again.
    #[test]
    fn a_blob_is_not_reported_as_fetched_before_its_name_is_on_disk() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let none = Depots { urls: Vec::new(), ca: String::new(), login: None };
        let wanted = BTreeMap::from([(Digest::of("blob"), 4)]);
        assert_names_are_synced(b"blob", |at| {
            let store = Store::open(at).unwrap();
            let mut partial = store.try_partial(&Digest::of("blob").hex()).unwrap().unwrap();
            partial.write(b"blob", None).unwrap();
            partial.commit().unwrap();
            let fetched = fetch(Limits::of(4, &none), at, &wanted, &none, || false)?;
            assert_eq!(fetched.missing, []);
            Ok(fetched)
        });
    }
}
