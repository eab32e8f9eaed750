//! Brings every blob of a lock into the store, verified, what a create needs first before the rest. What is fetched is blobs,
//! not artifacts: one that several images share is fetched once, from any of their origins.

use std::collections::{BTreeMap, HashMap};

use futures::{StreamExt, stream};
use kubexm_manifests::requirements::Source;
use kubexm_spec::lock::{Content, Descriptor};
use kubexm_spec::{Digest, Lock};
use kubexm_transport::{FileCandidate, ImageCandidate, TransportError};

use crate::arrivals::Arrivals;
use crate::base::Base;
use crate::difference::{Difference, changed};
use crate::origins::{Origins, file, image};
use crate::packages::Held;
use crate::progress::Total;
use crate::resolve::{Candidates, ChartCandidates, Resolution};
use crate::{BuildError, Report, remote_size};

/// One blob that is wanted, and where it may come from.
struct Wanted<'a> {
    /// The first item of the lock that has it.
    item: usize,
    digest: Digest,
    size: u64,
    from: From<'a>,
}

enum From<'a> {
    /// `reported` is a size that catalogue and cluster.yaml do not have: an origin reported it when it was locked.
    File {
        candidates: &'a [FileCandidate],
        refuse_html: bool,
        reported: bool,
    },
    Image {
        candidates: Vec<ImageCandidate>,
        media_type: &'a str,
    },
    Local,
}

/// Fetches what neither the store nor the base holds. All failures are reported, not only the first: the next run has one round
/// less. `arrivals` learns of each blob that is there.
pub async fn fetch(
    lock: &Lock,
    resolution: &Resolution,
    base: Option<&Base>,
    origins: &Origins,
    jobs: usize,
    arrivals: &Arrivals,
    report: Report<'_>,
) -> Result<(), BuildError> {
    let wanted = plan(lock, resolution, &|digest| !base.is_some_and(|base| base.has(digest)));
    let total: u64 = wanted.iter().map(|blob| blob.size).sum();
    let mut local = 0;
    let held = &Held::of(lock, origins.now())?;
    let (mut missing, mut differences) = (Vec::new(), Vec::new());
    let (mut absent, mut begun) = (0, HashMap::new());
    for blob in wanted {
        if matches!(blob.from, From::Local) && origins.in_place.path(&blob.digest).is_some() {
            arrivals.arrived([blob.digest]);
            local += blob.size;
            continue;
        }
        let here = origins.store.holds(&blob.digest, blob.size).map_err(|source| failed(lock, blob.item, source))?;
        if here && held.has(&blob.digest) {
            // It came for somebody else, perhaps, who did not ask whose it is.
            missing.push((blob, true));
        } else if here {
            arrivals.arrived([blob.digest]);
        } else if let Some(found) = blob.other_size_here(origins) {
            differences.extend(other_size(lock, &blob, found));
        } else {
            absent += blob.size;
            begun.insert(blob.digest, origins.store.partial_size(&blob.digest).min(blob.size));
            missing.push((blob, false));
        }
    }
    let progress = &Total::new("fetch", total - local, total - local - absent, begun, report);
    let mut failures: BTreeMap<usize, Vec<TransportError>> = BTreeMap::new();
    let mut results = stream::iter(missing)
        .map(|(blob, here)| async move {
            let size = match here {
                true => Ok(blob.size),
                false => match one(&blob, origins, progress).await {
                    Ok(()) => Ok(blob.size),
                    Err(error) => blob.as_it_is(error, origins).await,
                },
            };
            let mut checked = Ok(());
            if size.as_ref().is_ok_and(|size| *size == blob.size) {
                if !here {
                    progress.at(&blob.digest, blob.size);
                }
                checked = held.check(&blob.digest, &origins.store).await;
                if checked.is_ok() {
                    arrivals.arrived([blob.digest]);
                }
            }
            (blob, size, checked)
        })
        .buffer_unordered(jobs.max(1));
    let mut refused = Vec::new();
    while let Some((blob, size, checked)) = results.next().await {
        refused.extend(checked.err());
        match size {
            Ok(size) if size == blob.size => {}
            Ok(size) => differences.extend(other_size(lock, &blob, size)),
            Err(error) => failures.entry(blob.item).or_default().push(error),
        }
    }
    let mut all: Vec<_> = failures.into_iter().map(|(item, errors)| failed(lock, item, one_of(errors))).collect();
    all.extend(refused);
    if !differences.is_empty() {
        all.push(BuildError::Drift(differences));
    }
    if all.is_empty() { Ok(()) } else { Err(BuildError::from_many(all)) }
}

impl Wanted<'_> {
    /// The size of a file that is here under its digest, and not as long as an origin reported when it was locked.
    fn other_size_here(&self, origins: &Origins) -> Option<u64> {
        match self.from {
            From::File { reported: true, .. } => origins.store.size(&self.digest).filter(|size| *size != self.size),
            _ => None,
        }
    }

    /// The size of such a file that its origins have, now in the store; or the error.
    async fn as_it_is(&self, error: TransportError, origins: &Origins) -> Result<u64, TransportError> {
        match self.from {
            From::File { candidates, refuse_html, reported: true } => {
                remote_size::as_it_is(self.digest, error, candidates, refuse_html, origins).await
            }
            _ => Err(error),
        }
    }
}

/// The lock is wrong, not the origin: it has the digest of these very bytes.
fn other_size(lock: &Lock, blob: &Wanted<'_>, found: u64) -> Option<Difference> {
    let item = lock.items.get(blob.item)?;
    Some(changed(item, "size", blob.size.to_string(), found.to_string(), "the file of this digest has"))
}

/// Every blob once, in the order in which they are packed: manifests, which are small and stand before all else, then by stage.
fn plan<'a>(lock: &'a Lock, resolution: &'a Resolution, wanted: &dyn Fn(&Digest) -> bool) -> Vec<Wanted<'a>> {
    let mut items: Vec<_> = lock.items.iter().zip(&resolution.items).enumerate().collect();
    items.sort_by_key(|(_, (_, resolved))| resolved.requirement.stage);
    let mut plan: Vec<Wanted<'a>> = Vec::new();
    let mut known: HashMap<Digest, usize> = HashMap::new();
    for (item, (locked, resolved)) in items {
        for (descriptor, size, media_type) in blobs(&locked.content) {
            if !wanted(&descriptor) {
                continue;
            }
            let from = match &resolved.candidates {
                Candidates::File { file: candidates, .. } => {
                    let reported = !matches!(resolved.requirement.source, Source::File { size: Some(_), .. });
                    From::File { candidates, refuse_html: file::refuse_html(&locked.key), reported }
                }
                Candidates::Image(candidates) => From::Image { candidates: candidates.clone(), media_type },
                // A chart in a registry is a layer of its own manifest.
                Candidates::Chart(ChartCandidates::Oci { repositories }) => {
                    From::Image { candidates: repositories.clone(), media_type: "" }
                }
                Candidates::Chart(ChartCandidates::Repository { .. }) | Candidates::Local => From::Local,
            };
            match known.get(&descriptor) {
                None => {
                    known.insert(descriptor, plan.len());
                    plan.push(Wanted { item, digest: descriptor, size, from });
                }
                // Another image has it too: its registry is one more that may give it.
                Some(at) => {
                    if let (From::Image { candidates, .. }, From::Image { candidates: more, .. }) =
                        (&mut plan[*at].from, from)
                    {
                        let new: Vec<_> = more.into_iter().filter(|more| !candidates.contains(more)).collect();
                        candidates.extend(new);
                    }
                }
            }
        }
    }
    plan.sort_by_key(|blob| !matches!(blob.from, From::Image { media_type, .. } if image::is_manifest(media_type)));
    plan
}

/// Digest, size and media type of every blob of an artifact.
fn blobs(content: &Content) -> Vec<(Digest, u64, &str)> {
    match content {
        Content::File { digest, size, .. } => vec![(*digest, *size, "")],
        Content::Image { .. } => {
            image::descriptors(content).into_iter().map(|d| (d.digest, d.size, d.media_type.as_str())).collect()
        }
    }
}

async fn one(blob: &Wanted<'_>, origins: &Origins, progress: &Total<'_>) -> Result<(), TransportError> {
    let reported = |done, _| progress.at(&blob.digest, done);
    match &blob.from {
        From::File { candidates, refuse_html, .. } => {
            file::fetch((blob.digest, blob.size), candidates, *refuse_html, origins, &reported).await
        }
        From::Image { candidates, media_type } => {
            let descriptor = Descriptor { media_type: (*media_type).to_owned(), digest: blob.digest, size: blob.size };
            image::fetch(&descriptor, candidates, origins, &reported).await
        }
        // Brought into the store when it was locked, or packed from where it lies.
        From::Local => {
            let what = format!("{}, which was locked from this machine or from a chart's repository,", blob.digest);
            Err(TransportError::NotCached { what })
        }
    }
}

/// What is reported about an artifact of which several blobs failed, most often for one reason.
fn one_of(mut errors: Vec<TransportError>) -> TransportError {
    let absent: Vec<&str> = errors
        .iter()
        .filter_map(|error| match error {
            TransportError::NotCached { what } => Some(what.as_str()),
            _ => None,
        })
        .collect();
    match absent.len() {
        0 | 1 => errors.swap_remove(0),
        _ => TransportError::NotCached { what: absent.join(", ") },
    }
}

fn failed(lock: &Lock, item: usize, source: TransportError) -> BuildError {
    let item = match lock.items.get(item) {
        Some(item) => match &item.content {
            Content::Image { reference, .. } => format!("{} ({reference})", item.key),
            Content::File { .. } => item.key.to_string(),
        },
        None => String::new(),
    };
    BuildError::Fetch { item, source: Box::new(source) }
}
