//! The whole of it: read, plan, look, push, audit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::TryStreamExt;
use futures::stream::FuturesUnordered;
use kubexm_archive::Bundle;
use kubexm_spec::event::EventKind;
use kubexm_spec::{Digest, ExitError as _, error_chain};
use kubexm_transport::Repository;
use kubexm_transport::oci::Pace;
use tokio_util::sync::CancellationToken;

use crate::audit::audit;
use crate::blob_source::BlobSource;
use crate::connection::{Connection, Registry};
use crate::contents::{Contents, Kinds};
use crate::error::SeedError;
use crate::look::{Work, look};
use crate::manifests;
use crate::naming::Naming;
use crate::plan::{Choice, SeedPlan, plan};
use crate::push::{CHUNK, Counted, GRACE, Sender, blobs};
use crate::record::RecordFolder;
use crate::report::{Mapped, Refused, SeedReport, State};
use crate::rest::rest;
use crate::room::room;
use crate::totals::Totals;

/// Takes events as they happen; it must be quick.
pub type Report<'a> = &'a (dyn Fn(EventKind) + Send + Sync);

/// What is pushed, where to, and how.
#[derive(Clone, Debug)]
pub struct SeedOptions {
    /// Names in the registry.
    pub naming: Naming,
    /// Which kinds.
    pub kinds: Kinds,
    /// Which platforms, and what becomes of indexes.
    pub choice: Choice,
    /// Whether tags that name something else are moved.
    pub overwrite_tags: bool,
    /// Whether the bundle is a delta whose rest the registry has.
    pub rest_in_registry: bool,
    /// Whether the registry is only asked what it has, and whether what it lacks may be pushed.
    pub dry_run: bool,
    /// How the registry is reached.
    pub connection: Connection,
    /// Where open uploads and what was seeded are remembered.
    pub record: RecordFolder,
}

/// Repositories that are written, each with one login.
pub(crate) type Repositories = BTreeMap<String, Repository>;

/// Puts a bundle into a registry. The bundle's signatures are the caller's to check; its content is compared with its manifest
/// as it is read. When the token is cancelled, chunks that are on their way are finished, and open uploads are remembered.
pub async fn seed(
    bundle: &Bundle,
    options: &SeedOptions,
    stop: &CancellationToken,
    report: Report<'_>,
) -> Result<SeedReport, SeedError> {
    report(EventKind::Phase { name: "plan".to_owned() });
    let registry = options.connection.open(&options.naming.target.registry)?;
    let found = match options.rest_in_registry {
        true => Some(rest(&registry, bundle, &options.naming).await?),
        false => None,
    };
    let (from, kinds) = (bundle.clone(), options.kinds);
    let read = move || match found {
        Some(rest) => Contents::read_with(&from, &rest, kinds),
        None => Contents::read(&from, kinds),
    };
    let contents =
        tokio::task::spawn_blocking(read).await.map_err(|error| SeedError::Internal(error.to_string()))??;
    if contents.is_empty() {
        return Err(SeedError::Nothing(wanted(kinds)));
    }
    let blobs: Arc<dyn BlobSource> = Arc::new(bundle.clone());
    put(&registry, &contents, (&blobs, bundle.manifest_digest()), options, stop, report).await
}

/// Puts images into a registry out of a content store, which has what a bundle had. `bundle` is the digest of that bundle's
/// manifest.json.
pub async fn seed_images(
    contents: &Contents,
    blobs: (&Arc<dyn BlobSource>, Digest),
    options: &SeedOptions,
    stop: &CancellationToken,
    report: Report<'_>,
) -> Result<SeedReport, SeedError> {
    let registry = options.connection.open(&options.naming.target.registry)?;
    if contents.is_empty() {
        return Err(SeedError::Nothing(wanted(options.kinds)));
    }
    put(&registry, contents, blobs, options, stop, report).await
}

async fn put(
    registry: &Registry,
    contents: &Contents,
    (blobs, bundle): (&Arc<dyn BlobSource>, Digest),
    options: &SeedOptions,
    stop: &CancellationToken,
    report: Report<'_>,
) -> Result<SeedReport, SeedError> {
    let plan = plan(contents, &options.naming, &options.choice)?;
    plan.notes.iter().for_each(|text| report(EventKind::Note { text: text.clone() }));
    report(EventKind::Phase { name: "look".to_owned() });
    let work = tokio::select! {
        work = look(registry, &plan, options.overwrite_tags) => work?,
        () = stop.cancelled() => return Err(SeedError::Stopped),
    };
    tokio::select! {
        room = room(registry, &work) => room?,
        () = stop.cancelled() => return Err(SeedError::Stopped),
    }
    let mut seeded = SeedReport::new(options.naming.target.to_string(), bundle, options.dry_run);
    seeded.notes = plan.notes.clone();
    if options.dry_run {
        let asked = may_push(registry, &work);
        tokio::select! {
            asked = asked => seeded.refused = asked.err().map(|error| Refused {
                text: error_chain(&error),
                code: error.exit_code(),
            }),
            () = stop.cancelled() => return Err(SeedError::Stopped),
        }
        seeded.totals = at_most(&work);
        seeded.entries = entries(&plan, &work, State::Missing);
        return Ok(seeded);
    }
    let totals = Counted::default();
    let pushed = Pushing { blobs, options, registry, plan: &plan, work: &work, totals: &totals, report };
    match pushed.run(stop).await {
        Ok(audited) => seeded.audited = audited,
        Err(source) if totals.totals() == Totals::default() => return Err(source),
        Err(source) => return Err(SeedError::Partly { totals: totals.totals(), source: Box::new(source) }),
    }
    options.record.keep(bundle, &contents.name, &plan)?;
    seeded.totals = totals.totals();
    seeded.entries = entries(&plan, &work, State::Pushed);
    Ok(seeded)
}

struct Pushing<'a> {
    blobs: &'a Arc<dyn BlobSource>,
    options: &'a SeedOptions,
    registry: &'a Registry,
    plan: &'a SeedPlan,
    work: &'a Work,
    totals: &'a Counted,
    report: Report<'a>,
}

impl Pushing<'_> {
    /// How many references are right in the end.
    async fn run(&self, stop: &CancellationToken) -> Result<u64, SeedError> {
        let stopping = AtomicBool::new(false);
        let work = self.push(&stopping);
        tokio::pin!(work);
        tokio::select! {
            ended = &mut work => return ended,
            () = stop.cancelled() => stopping.store(true, Ordering::Relaxed),
        }
        // A registry that does not answer is not waited for.
        match tokio::time::timeout(GRACE, work).await {
            Ok(ended) => ended,
            Err(_) => Err(SeedError::Stopped),
        }
    }

    async fn push(&self, stop: &AtomicBool) -> Result<u64, SeedError> {
        let repositories = repositories(self.registry, self.work).await?;
        check_push(&repositories).await?;
        (self.report)(EventKind::Phase { name: "push".to_owned() });
        let uploads = self.options.record.uploads();
        let sender = Sender {
            repositories: &repositories,
            blobs: self.blobs,
            uploads: &uploads,
            stop,
            report: self.report,
            totals: self.totals,
            pace: Pace::starting(CHUNK),
        };
        blobs(&sender, self.work, self.options.connection.parallel).await?;
        if stop.load(Ordering::Relaxed) {
            return Err(SeedError::Stopped);
        }
        manifests::push(&repositories, self.plan, self.work, self.totals).await?;
        (self.report)(EventKind::Phase { name: "audit".to_owned() });
        audit(&repositories, self.plan, self.work).await
    }
}

/// Asks whether the credentials may push what is missing.
async fn may_push(registry: &Registry, work: &Work) -> Result<(), SeedError> {
    check_push(&repositories(registry, work).await?).await
}

async fn repositories(registry: &Registry, work: &Work) -> Result<Repositories, SeedError> {
    let mut opened = Repositories::new();
    for (name, missing) in &work.repositories {
        let mount_from: Vec<String> = missing.mount_from.iter().cloned().collect();
        opened.insert(name.clone(), registry.repository(name, &mount_from).await?);
    }
    Ok(opened)
}

/// Asks whether these credentials may push, in one repository of each folder (Harbor: project) that something goes into.
async fn check_push(repositories: &Repositories) -> Result<(), SeedError> {
    let mut folders: BTreeMap<&str, &Repository> = BTreeMap::new();
    for (name, to) in repositories {
        folders.entry(name.split('/').next().unwrap_or(name)).or_insert(to);
    }
    let asked: FuturesUnordered<_> = folders
        .into_values()
        .map(|to| async move { to.check_push().await.map_err(|e| SeedError::registry("push to", to.place(), e)) })
        .collect();
    asked.try_collect::<()>().await
}

fn wanted(kinds: Kinds) -> String {
    let kinds = [(kinds.images, "images"), (kinds.charts, "charts"), (kinds.files, "files")];
    kinds.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name).collect::<Vec<_>>().join(", ")
}

/// What would be sent if the registry has no blob of what it lacks.
fn at_most(work: &Work) -> Totals {
    Totals {
        blobs_sent: work.blobs.len() as u64,
        bytes_sent: work.blobs.values().filter(|blob| blob.held_by.is_none()).map(|blob| blob.size).sum(),
        manifests: work.repositories.values().map(|missing| missing.documents.len() as u64).sum(),
        tags: work.repositories.values().map(|missing| missing.tags.len() as u64).sum(),
        ..Totals::default()
    }
}

fn entries(plan: &SeedPlan, work: &Work, missing: State) -> Vec<Mapped> {
    let state = |entry: &Mapped| {
        let Some(here) = work.repositories.get(&entry.repository) else { return State::Present };
        let tag = entry.tag.as_ref();
        match tag {
            Some(tag) if here.moved.contains(tag) && missing == State::Pushed => State::Moved,
            Some(tag) if here.tags.contains_key(tag) => missing,
            _ if here.documents.contains(&entry.digest) => missing,
            _ => State::Present,
        }
    };
    plan.entries.iter().map(|entry| Mapped { state: state(entry), ..entry.clone() }).collect()
}
