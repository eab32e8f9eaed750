//! The node takes blobs from depots (`<url>/blobs/sha256/<hex>`) into its content store.
//!
//! Each blob is asked of the depots in their order; one that breaks off in the middle is resumed at the next, since
//! what came stays in the blob's part file and the digest tells in the end. A depot that does not answer is no error: it
//! is not asked again in this request, and what none gave is for the controller to send.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kubexm_plan::op::Depots;
use kubexm_spec::{Digest, error_chain};
use kubexm_transport::{FileCandidate, HttpClient, HttpOptions, Store, TransportError, Want};

use crate::link::Fetched;

/// Blobs at the same time.
const AT_ONCE: usize = 4;
/// Between two looks whether the controller is still there.
const LOOK: Duration = Duration::from_millis(200);

/// What a request may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// All of it.
    pub whole: Duration,
    /// For a connection to a depot.
    pub connect: Duration,
    /// Without a byte before a connection is given up; it is tried once more.
    pub stall: Duration,
}

impl Limits {
    /// For blobs of so many bytes in all. A depot that hangs costs a connection and a silence, twice, which
    /// [`Depots::limit_s`] has room for.
    pub fn of(bytes: u64, depots: &Depots) -> Self {
        Self {
            whole: Duration::from_secs(depots.limit_s(bytes)),
            connect: Duration::from_secs(5),
            stall: Duration::from_secs(20),
        }
    }
}

/// Fetches what the store lacks, until the limit or until the controller is `gone`. The program has installed rustls'
/// provider. An error is this node's own: a disk that is full. A CA file that cannot be read is every depot's reason.
pub fn fetch(
    limits: Limits,
    store: &Path,
    blobs: &BTreeMap<Digest, u64>,
    depots: &Depots,
    gone: impl Fn() -> bool,
) -> Result<Fetched, String> {
    let store = Store::open(store).map_err(|error| error_chain(&error))?;
    let depots = Asked {
        client: HttpClient::new(options(limits)).map_err(|error| error_chain(&error))?,
        urls: &depots.urls,
        ca: PathBuf::from(&depots.ca),
        down: Mutex::default(),
        reasons: Mutex::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the threads that fetch blobs: {error}"))?;
    let done = runtime.block_on(async {
        let all = futures::stream::iter(blobs).map(|(digest, size)| depots.blob(&store, *digest, *size));
        let all = all.buffer_unordered(AT_ONCE).collect::<Vec<Result<(), TransportError>>>();
        tokio::select! {
            results = all => results.into_iter().collect::<Result<(), _>>().map_err(|error| error_chain(&error)),
            () = until(&gone) => Err("the connection to the controller is lost".to_owned()),
            () = tokio::time::sleep(limits.whole) => {
                depots.note(format!("the depots were too slow: not all blobs arrived within {} s", limits.whole.as_secs()));
                Ok(())
            }
        }
    });
    // A blocking task (a sync of a large file) may still run; what it does is whole or not there.
    runtime.shutdown_timeout(Duration::from_secs(5));
    done?;
    store.sync_names().map_err(|error| error_chain(&error))?;
    let mut missing = Vec::new();
    for (digest, size) in blobs {
        if !store.holds(digest, *size).map_err(|error| error_chain(&error))? {
            missing.push((*digest, *size));
        }
    }
    Ok(Fetched { missing, reasons: depots.reasons.into_inner().unwrap_or_else(PoisonError::into_inner) })
}

fn options(limits: Limits) -> HttpOptions {
    HttpOptions {
        connect_timeout: limits.connect,
        stall_timeout: limits.stall,
        retries: 1,
        backoff_min: Duration::from_millis(250),
        backoff_max: Duration::from_secs(2),
        parallel: AT_ONCE,
        parallel_per_host: AT_ONCE,
        proxies: false,
        ..HttpOptions::default()
    }
}

async fn until(gone: impl Fn() -> bool) {
    while !gone() {
        tokio::time::sleep(LOOK).await;
    }
}

/// The depots as one request sees them.
struct Asked<'a> {
    client: HttpClient,
    urls: &'a [String],
    ca: PathBuf,
    /// Not asked again.
    down: Mutex<BTreeSet<usize>>,
    reasons: Mutex<Vec<String>>,
}

impl Asked<'_> {
    /// One blob, from the first depot that gives it. An error is this machine's own.
    async fn blob(&self, store: &Store, digest: Digest, size: u64) -> Result<(), TransportError> {
        let want = Want { digest: Some(digest), size: Some(size), refuse_html: false };
        if store.holds(&digest, size)? {
            return Ok(());
        }
        for (index, url) in self.urls.iter().enumerate() {
            if self.down().contains(&index) {
                continue;
            }
            let candidate = FileCandidate {
                url: format!("{}/blobs/sha256/{}", url.trim_end_matches('/'), digest.hex()),
                ca_file: Some(self.ca.clone()),
                ..FileCandidate::default()
            };
            match self.client.fetch(&[candidate], &want, store, &|_, _| ()).await {
                Ok(_) => return Ok(()),
                Err(TransportError::AllFailed { tried, .. }) => self.failed(index, url, &tried),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A depot without the blob is asked for the next one; one that does not answer, or lies, is not.
    fn failed(&self, index: usize, url: &str, tried: &[TransportError]) {
        let missing = tried.iter().all(|error| matches!(error, TransportError::Missing { .. }));
        if !missing && self.down().insert(index) {
            let why: Vec<String> = tried.iter().map(|error| error_chain(error)).collect();
            self.note(format!("depot {url}: {}", why.join("; ")));
        }
    }

    fn down(&self) -> std::sync::MutexGuard<'_, BTreeSet<usize>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, reason: String) {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner).push(reason);
    }
}
