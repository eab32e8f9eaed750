//! What a build did, in numbers: what is large, what took long, and what the cache had.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kubexm_spec::event::EventKind;
use kubexm_spec::{ArtifactKey, Digest, Lock, Platform};
use kubexm_transport::Store;
use serde::Serialize;

use crate::Report;
use crate::base::Base;
use crate::origins::in_place::InPlace;
use crate::shares::shares;

/// How many of the largest artifacts are listed.
const LARGEST: usize = 10;

/// Of a build that has ended.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// By size, largest first.
    pub kinds: Vec<KindSize>,
    /// At most ten, largest first.
    pub largest: Vec<LargeArtifact>,
    /// In their order. Packing begins with the first blob; its time is what it took after the last one had come.
    pub phases: Vec<PhaseTime>,
    pub cache: CacheUse,
}

/// The artifacts of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct KindSize {
    /// `binary`, `image` …
    pub kind: &'static str,
    pub artifacts: usize,
    /// What they add to the bundle.
    pub bytes: u64,
}

/// One artifact.
#[derive(Clone, Debug, Serialize)]
pub struct LargeArtifact {
    pub key: ArtifactKey,
    pub platform: Option<Platform>,
    /// What it adds to the bundle: without blobs that an artifact before it has too.
    pub bytes: u64,
}

/// A phase of the build.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseTime {
    /// `lock`, `fetch`, `pack`.
    pub name: String,
    pub duration_ms: u64,
}

/// The blobs of the bundle that come from origins, those of them that the cache had before the build, and what was packed from
/// where it lies on this machine, for which no cache is asked.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheUse {
    pub blobs: usize,
    pub bytes: u64,
    pub hit_blobs: usize,
    pub hit_bytes: u64,
    pub local_blobs: usize,
    pub local_bytes: u64,
}

/// Blobs that a cache has.
pub struct Cached(HashSet<Digest>);

impl Cached {
    /// By their names alone. Of a folder that cannot be read there are none: what depends on it reports that.
    pub fn now(store: &Store) -> Self {
        let probe = store.path(&Digest::of(b""));
        let entries = probe.parent().and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        Self(entries.filter_map(|entry| Digest::from_hex(entry.file_name().to_str()?).ok()).collect())
    }
}

/// Reports phases, and measures them.
pub struct Phases<'a> {
    report: Report<'a>,
    begun: Mutex<Vec<(String, Instant)>>,
}

impl<'a> Phases<'a> {
    /// None has begun.
    pub fn new(report: Report<'a>) -> Self {
        Self { report, begun: Mutex::new(Vec::new()) }
    }

    /// A phase begins, and the one before it ends.
    pub fn begin(&self, name: &str) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), Instant::now()));
        (self.report)(EventKind::Phase { name: name.to_owned() });
    }

    /// The last phase ends.
    fn end(self) -> Vec<PhaseTime> {
        let begun = self.begun.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ends = begun.iter().skip(1).map(|(_, at)| *at).chain(std::iter::once(Instant::now()));
        let time = |((name, from), to): (&(String, Instant), Instant)| {
            let duration_ms = u64::try_from(to.saturating_duration_since(*from).as_millis()).unwrap_or(u64::MAX);
            PhaseTime { name: name.clone(), duration_ms }
        };
        begun.iter().zip(ends).map(time).collect()
    }
}

impl Summary {
    /// Of what was locked, and built on `base`; `before` is what the cache had when the build began, `local` what lies elsewhere on
    /// this machine.
    pub fn of(lock: &Lock, base: Option<&Base>, before: &Cached, local: &InPlace, phases: Phases<'_>) -> Self {
        let left_out = |digest: &Digest| base.is_some_and(|base| base.has(digest));
        let sizes = shares(lock.items.iter().map(|item| item.blobs()), &left_out);
        let mut kinds: BTreeMap<&'static str, KindSize> = BTreeMap::new();
        for (item, bytes) in lock.items.iter().zip(&sizes) {
            let kind = item.key.kind().as_str();
            let sum = kinds.entry(kind).or_insert(KindSize { kind, artifacts: 0, bytes: 0 });
            sum.artifacts += 1;
            sum.bytes = sum.bytes.saturating_add(*bytes);
        }
        let mut kinds: Vec<KindSize> = kinds.into_values().collect();
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.bytes));
        let artifact = |(item, bytes): (&kubexm_spec::lock::LockItem, &u64)| LargeArtifact {
            key: item.key.clone(),
            platform: item.platform,
            bytes: *bytes,
        };
        let mut largest: Vec<LargeArtifact> = lock.items.iter().zip(&sizes).map(artifact).collect();
        largest.sort_by_key(|artifact| std::cmp::Reverse(artifact.bytes));
        largest.retain(|artifact| artifact.bytes > 0);
        largest.truncate(LARGEST);
        let mut cache = CacheUse::default();
        for (digest, size) in lock.blobs().into_iter().filter(|(digest, _)| !left_out(digest)) {
            if local.path(&digest).is_some() {
                cache.local_blobs += 1;
                cache.local_bytes = cache.local_bytes.saturating_add(size);
                continue;
            }
            cache.blobs += 1;
            cache.bytes = cache.bytes.saturating_add(size);
            if before.0.contains(&digest) {
                cache.hit_blobs += 1;
                cache.hit_bytes = cache.hit_bytes.saturating_add(size);
            }
        }
        Self { kinds, largest, phases: phases.end(), cache }
    }
}
