//! The whole build: its steps in order.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kubexm_archive::{Options, Written};
use kubexm_manifests::{Catalogue, Zone, require};
use kubexm_spec::event::EventKind;
use kubexm_spec::{Cluster, Lock};

use tokio::sync::Notify;

use crate::ahead::{self, Ahead};
use crate::arrivals::Arrivals;
use crate::base::Base;
use crate::lock::Sizes;
use crate::origins::Origins;
use crate::pack::Packing;
use crate::summary::{Cached, Phases, Summary};
use crate::{
    BuildError, Report, Resolution, charts, fetch, harbor, image_signatures, lock, locked, pack, packages, resolve,
    runtime_package, sources,
};

/// How long to wait for registries to report whether tags were moved.
const TAGS_WITHIN: Duration = Duration::from_secs(20);

/// What to build, from where, to where.
pub struct Request<'a> {
    /// Parsed from `cluster_yaml`.
    pub cluster: &'a Cluster,
    /// Goes into the bundle unchanged.
    pub cluster_yaml: &'a str,
    /// With overlays.
    pub catalogue: &'a Catalogue,
    /// Where origins are rewritten to.
    pub zone: &'a Zone,
    /// Build just this; refused when something else is needed.
    pub locked: Option<&'a Lock>,
    /// The bundle's file.
    pub target: &'a Path,
    /// The folder that the bundle is then copied into.
    pub hand_over: Option<&'a Path>,
    /// How many artifacts are fetched at once.
    pub jobs: usize,
    /// How the archive is written.
    pub options: Options,
    /// What need not be carried, since it is on the far side already.
    pub base: Option<&'a Base>,
    /// Whether the bundle says where its artifacts are from.
    pub sources: bool,
    /// `kubexm-bundle 0.1.0`.
    pub tool: &'a str,
}

/// A bundle that is on disk.
#[derive(Debug)]
pub struct Built {
    /// Size and digests of the file.
    pub written: Written,
    /// What is in it.
    pub lock: Lock,
    /// What the build did.
    pub summary: Summary,
}

/// require → resolve → lock → fetch and pack: what has arrived is packed while the rest is still being fetched.
///
/// Blocks; `runtime` drives what goes over the network. Not to be called from one of its tasks.
pub fn build(
    request: &Request<'_>,
    origins: &Origins,
    runtime: &tokio::runtime::Handle,
    report: Report<'_>,
) -> Result<Built, BuildError> {
    let phases = Phases::new(report);
    let before = Cached::now(&origins.store);
    let requirements = require(request.cluster, request.catalogue)?;
    let used = request.catalogue.used_by(&requirements);
    let Request { cluster, catalogue, zone, .. } = *request;
    let work = charts::Work { cluster, catalogue, requirements: &requirements, zone };
    let (resolution, lock) = match request.locked {
        Some(locked) => {
            let resolution = locked::resolve(&requirements, locked, request.catalogue, request.zone)?;
            charts::check_locked(request.cluster, locked)?;
            lock::check_local(&resolution, origins)?;
            ahead(request, &resolution, Some(locked), origins)?;
            phases.begin("lock");
            runtime.block_on(async {
                from_lock(locked, &resolution, origins, request, report).await?;
                image_signatures::check_locked(&work, locked, origins, request.jobs).await
            })?;
            (resolution, locked.clone())
        }
        None => {
            let resolution = resolve::resolve(&requirements, request.zone);
            lock::check_local(&resolution, origins)?;
            ahead(request, &resolution, None, origins)?;
            phases.begin("lock");
            let (sizes, jobs) = (Sizes::Fetched, request.jobs);
            let lock = runtime.block_on(async {
                let lock = lock::lock(&resolution, origins, sizes, jobs, report).await?;
                let solved = packages::Work { requirements: &requirements, zone };
                let lock = packages::complete(&solved, &requirements.packages, lock, origins, report).await?;
                let lock = charts::complete(&work, lock, origins, sizes, jobs, report).await?;
                image_signatures::complete(&work, lock, origins, jobs).await
            })?;
            let unsigned = packages::unsigned(&lock);
            if !unsigned.is_empty() {
                return Err(BuildError::UnsignedPackages(unsigned));
            }
            match lock.renderings.is_empty() && lock.packages.is_empty() {
                true => (resolution, lock),
                // With the images of charts, and with packages.
                false => (locked::resolve(&requirements, &lock, catalogue, zone)?, lock),
            }
        }
    };
    let failed = |error: BuildError| if request.locked.is_some() { error.of_a_lock() } else { error };
    runtime_package::check(cluster, &lock).map_err(failed)?;
    ahead(request, &resolution, Some(&lock), origins)?;
    runtime.block_on(harbor::bring(&lock, &resolution, request.base, origins, request.jobs, report)).map_err(failed)?;
    harbor::check(&lock, &requirements, request.catalogue, &origins.store, report)?;
    let inputs = pack::Inputs {
        cluster_yaml: request.cluster_yaml,
        catalogue: &used,
        requirements: &requirements,
        tool: request.tool,
    };
    let sources = request.sources.then(|| sources::plan(&lock, &resolution, &origins.store));
    let packing = pack::plan(&lock, &inputs, request.base, sources, request.options.level)?;
    phases.begin("fetch");
    let together = Together { request, origins, report, phases: &phases, lock: &lock, resolution: &resolution };
    let written = together.run(packing, runtime).map_err(|error| match request.locked {
        Some(locked) => locked::of_local_files(locked, &resolution, error).of_a_lock(),
        None => error,
    })?;
    let summary = Summary::of(&lock, request.base, &before, &origins.in_place, phases);
    Ok(Built { written, lock, summary })
}

/// What is known by now shows whether the bundle can be written at all.
fn ahead(
    request: &Request<'_>,
    resolution: &Resolution,
    lock: Option<&Lock>,
    origins: &Origins,
) -> Result<(), BuildError> {
    let (store, installers) = (&origins.store, &origins.installers);
    let (Request { base, target, hand_over, .. }, split) = (request, request.options.split);
    ahead::check(&Ahead {
        resolution,
        lock,
        base: *base,
        split,
        target,
        hand_over: *hand_over,
        cache: Some(store.root()),
        store: Some(store),
        installers,
    })
}

/// Compares what is on this machine with the lock, and reports tags that were moved since.
async fn from_lock(
    locked: &Lock,
    resolution: &Resolution,
    origins: &Origins,
    request: &Request<'_>,
    report: Report<'_>,
) -> Result<(), BuildError> {
    let jobs = request.jobs;
    locked::prepare(locked, resolution, request.base, origins, jobs).await?;
    if let Some(was) = locked.zone.as_ref().filter(|was| **was != resolution.zone) {
        let now = &resolution.zone;
        let text = format!("locked in zone {was}; fetched in zone {now}, by the same digests");
        report(EventKind::Note { text });
    }
    match tokio::time::timeout(TAGS_WITHIN, locked::moved_tags(locked, resolution, origins, jobs)).await {
        Ok(moved) => moved.into_iter().for_each(|locked::Moved { reference, locked, now }| {
            let text = format!("{reference} is {now} now; the bundle gets {locked}, which was locked");
            report(EventKind::Warning { text });
        }),
        // The lock has the digests: nothing depends on the answer.
        Err(_) => {
            report(EventKind::Note { text: "registries did not answer in time whether tags were moved".to_owned() })
        }
    }
    Ok(())
}

/// Fetching and packing at once.
struct Together<'a> {
    request: &'a Request<'a>,
    origins: &'a Origins,
    report: Report<'a>,
    phases: &'a Phases<'a>,
    lock: &'a Lock,
    resolution: &'a Resolution,
}

impl Together<'_> {
    fn run(&self, packing: Packing, runtime: &tokio::runtime::Handle) -> Result<Written, BuildError> {
        let (arrivals, all_here, stopped) = (Arrivals::default(), AtomicBool::new(false), Notify::new());
        let progress = |done, total| {
            // One thing at a time for people: the bytes that are fetched are reported first.
            if all_here.load(Ordering::Relaxed) {
                let (what, unit) = ("pack".to_owned(), "bytes".to_owned());
                (self.report)(EventKind::Progress { what, done, total: Some(total), unit });
            }
        };
        let Request { target, options, jobs, base, .. } = self.request;
        let content = pack::Content { store: &self.origins.store, in_place: &self.origins.in_place };
        std::thread::scope(|scope| {
            let packer = scope.spawn(|| {
                let written = pack::pack(packing, content, &arrivals, target, options, &progress);
                if written.is_err() {
                    stopped.notify_one();
                }
                written
            });
            // Also when fetching panics: the packer would wait for ever, and this scope for the packer.
            let ending = arrivals.until_dropped();
            let fetched = runtime.block_on(async {
                let fetching =
                    fetch::fetch(self.lock, self.resolution, *base, self.origins, *jobs, &arrivals, self.report);
                tokio::select! {
                    biased;
                    fetched = fetching => Some(fetched),
                    // Packing has failed, and tells why below.
                    () = stopped.notified() => None,
                }
            });
            if let Some(Ok(())) = &fetched {
                let all = kubexm_spec::counted_of(&self.lock.items, "artifact");
                (self.report)(EventKind::Note { text: format!("{all} in the cache") });
                all_here.store(true, Ordering::Relaxed);
                self.phases.begin("pack");
            }
            drop(ending);
            let written = packer.join().unwrap_or_else(|_| Err(BuildError::Worker("packing".to_owned())));
            match fetched {
                Some(Err(error)) => Err(error),
                _ => written,
            }
        })
    }
}
