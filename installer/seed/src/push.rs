//! Sends the blobs, several at once, each out of the bundle as it is read: nothing is unpacked, and what is in memory is a
//! frame and some pieces for each.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::{StreamExt, stream};
use kubexm_spec::Digest;
use kubexm_spec::event::EventKind;
use kubexm_transport::oci::{Content, OpenUploads, Outcome, Pace, PushOptions};
use kubexm_transport::{Repository, TransportError};

use crate::artifact::Source;
use crate::blob_source::BlobSource;
use crate::error::SeedError;
use crate::look::{BlobWork, Work};
use crate::totals::Totals;

/// Bytes of the first chunks: what a cut costs at most where the registry is slow. A fast one gets larger ones.
pub const CHUNK: u64 = 4 << 20;
/// How long chunks that are on their way may take after a stop, or after another blob failed.
pub const GRACE: Duration = Duration::from_secs(20);

/// What all blobs share.
pub struct Sender<'a> {
    pub repositories: &'a BTreeMap<String, Repository>,
    pub blobs: &'a Arc<dyn BlobSource>,
    pub uploads: &'a dyn OpenUploads,
    pub stop: &'a AtomicBool,
    pub report: &'a (dyn Fn(EventKind) + Send + Sync),
    pub totals: &'a Counted,
    /// How large chunks are.
    pub pace: Pace,
}

/// Totals while several tasks count.
#[derive(Debug, Default)]
pub struct Counted {
    blobs_sent: AtomicU64,
    bytes_sent: AtomicU64,
    blobs_mounted: AtomicU64,
    blobs_present: AtomicU64,
    pub manifests: AtomicU64,
    pub tags: AtomicU64,
}

impl Counted {
    pub fn totals(&self) -> Totals {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Totals {
            blobs_sent: of(&self.blobs_sent),
            bytes_sent: of(&self.bytes_sent),
            blobs_mounted: of(&self.blobs_mounted),
            blobs_present: of(&self.blobs_present),
            manifests: of(&self.manifests),
            tags: of(&self.tags),
        }
    }

    fn count(&self, outcome: Outcome, size: u64) {
        let add = |count: &AtomicU64, more: u64| {
            count.fetch_add(more, Ordering::Relaxed);
        };
        match outcome {
            Outcome::Present => add(&self.blobs_present, 1),
            Outcome::Mounted => add(&self.blobs_mounted, 1),
            Outcome::Sent => {
                add(&self.blobs_sent, 1);
                add(&self.bytes_sent, size);
            }
        }
    }
}

/// Sends every blob of the work. The largest go first, so that none is left alone at the end.
pub async fn blobs(sender: &Sender<'_>, work: &Work, at_once: usize) -> Result<(), SeedError> {
    let mut order: Vec<(&Digest, &BlobWork)> = work.blobs.iter().collect();
    order.sort_by_key(|(digest, blob)| (std::cmp::Reverse(blob.size), **digest));
    let total = AtomicU64::new(order.iter().map(|(_, blob)| blob.size).sum());
    let done = AtomicU64::new(0);
    let progress = Progress { report: sender.report, total: &total, done: &done };
    let progress = &progress;
    let mut ended = stream::iter(order)
        .map(|(digest, blob)| async move { one(sender, *digest, blob, progress).await })
        .buffer_unordered(at_once.max(1));
    let (mut failed, mut until) = (None, None);
    loop {
        let next = match until {
            None => ended.next().await,
            // Whoever waits for a registry that does not answer is not waited for.
            Some(until) => tokio::time::timeout_at(until, ended.next()).await.unwrap_or_default(),
        };
        match next {
            None => break,
            Some(Ok(())) => {}
            // The others finish their chunks: an upload that is cut in one may be lost with all that it has.
            Some(Err(error)) => {
                sender.stop.store(true, Ordering::Relaxed);
                until.get_or_insert_with(|| tokio::time::Instant::now() + GRACE);
                if matches!(failed, None | Some(SeedError::Stopped)) {
                    failed = Some(error);
                }
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

async fn one(sender: &Sender<'_>, digest: Digest, blob: &BlobWork, progress: &Progress<'_>) -> Result<(), SeedError> {
    let content = content(sender.blobs, digest, &blob.source);
    let mut from: Option<String> = blob.held_by.clone();
    for (at, name) in blob.wanted_by.iter().enumerate() {
        if sender.stop.load(Ordering::Relaxed) {
            return Err(SeedError::Stopped);
        }
        let to = sender.repositories.get(name);
        let to = to.ok_or_else(|| SeedError::Internal(format!("{name} was not opened")))?;
        let mount_from: Vec<String> = from.iter().filter(|from| *from != name).cloned().collect();
        let options = PushOptions {
            mount_from: &mount_from,
            pace: Some(&sender.pace),
            uploads: Some(sender.uploads),
            stop: Some(sender.stop),
            ..PushOptions::default()
        };
        let last = AtomicU64::new(0);
        let reported = |now: u64, _: Option<u64>| {
            if at == 0 {
                progress.moved(&last, now);
            }
        };
        let outcome = to.push_blob_with((digest, blob.size), Arc::clone(&content), options, &reported).await;
        let outcome = outcome.map_err(|e| match (&blob.source, &e) {
            (Source::Bundle, TransportError::Unreadable { .. }) if !sender.blobs.has(&digest) => {
                SeedError::BaseLacks { what: format!("a blob of {}", to.place()), digest, place: to.place() }
            }
            _ => SeedError::registry("push to", to.place(), e),
        })?;
        sender.totals.count(outcome, blob.size);
        if at == 0 && outcome != Outcome::Sent {
            progress.none(blob.size);
        }
        from.get_or_insert_with(|| name.clone());
    }
    Ok(())
}

/// Bytes of all blobs together.
struct Progress<'a> {
    report: &'a (dyn Fn(EventKind) + Send + Sync),
    total: &'a AtomicU64,
    done: &'a AtomicU64,
}

impl Progress<'_> {
    fn moved(&self, last: &AtomicU64, now: u64) {
        // A session that was lost goes back: wrapping keeps the sum right.
        let change = now.wrapping_sub(last.swap(now, Ordering::Relaxed));
        let sum = self.done.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
        self.tell(sum);
    }

    /// What was there, or was mounted, says nothing of how fast the rest goes.
    fn none(&self, size: u64) {
        self.total.fetch_sub(size, Ordering::Relaxed);
        self.tell(self.done.load(Ordering::Relaxed));
    }

    fn tell(&self, done: u64) {
        let (what, unit, total) = ("push".to_owned(), "bytes".to_owned(), self.total.load(Ordering::Relaxed));
        (self.report)(EventKind::Progress { what, done, total: Some(total), unit });
    }
}

fn content(blobs: &Arc<dyn BlobSource>, digest: Digest, source: &Source) -> Arc<dyn Content> {
    match source {
        Source::Bundle => Arc::new(Blob { blobs: Arc::clone(blobs), digest }),
        Source::Memory(bytes) => Arc::new(bytes.clone()),
    }
}

/// A blob as it is read from where it is.
struct Blob {
    blobs: Arc<dyn BlobSource>,
    digest: Digest,
}

impl Content for Blob {
    fn name(&self) -> String {
        format!("{} of {}", self.digest, self.blobs.name())
    }

    fn open(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        self.blobs.blob_from(&self.digest, offset)
    }
}
