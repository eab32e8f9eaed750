//! Charts and YAML add-ons: their images are found by rendering them with the values that will be used, before
//! anything is packed. The lock keeps the images of each rendering; a build from a lock renders nothing, and is refused when
//! the values are others.
//!
//! What pods name is locked as `chart-image/REFERENCE`. What merely looks like an image (arguments, environment, files in
//! ConfigMaps, fields of custom resources) must be carried by some key or be ignored by name, see [`judge`].
//!
//! An install sees the API of its cluster, a rendering here does not: what a chart makes only where some API is served
//! (`.Capabilities.APIVersions`) is not found.

pub mod archive;
pub(crate) mod error;
pub mod helm;
mod ignore;
pub mod index;
pub mod sandbox;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use futures::{StreamExt, stream};
use kubexm_charts::objects;
pub use kubexm_charts::{documents, extract, judge, suspect};
use kubexm_manifests::requirements::Source;
use kubexm_manifests::{Catalogue, ChartRelease, Requirement, Requirements, Zone, releases};
use kubexm_spec::event::EventKind;
use kubexm_spec::lock::Content;
use kubexm_spec::rendering::{self, Asked, RenderingMismatch, VALUES_LIMIT};
use kubexm_spec::{ArtifactKey, Cluster, Digest, Lock, Platform, Reference, Rendering, Trust};
use kubexm_transport::Store;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

pub use self::error::ChartError;
use self::extract::Found;
use self::helm::{Helm, Job};
use self::judge::{Gap, Known, judge};
use crate::lock::{self, Sizes};
use crate::origins::{Origins, chart};
use crate::resolve::{Resolution, Resolved, candidates};
use crate::{BuildError, Report};

/// Images of charts come where extras come.
const STAGE: u8 = 6;
/// How many charts are rendered at once.
const AT_ONCE: usize = 4;

/// What says which charts there are, and what is carried anyway.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// Its paths ready to be opened.
    pub cluster: &'a Cluster,
    /// For helm itself, and for pins.
    pub catalogue: &'a Catalogue,
    /// Of this cluster.
    pub requirements: &'a Requirements,
    /// Where origins are rewritten to.
    pub zone: &'a Zone,
}

/// A chart or YAML add-on of a lock, with the values that cluster.yaml says now.
struct Release {
    release: ChartRelease,
    source: Digest,
    values: Map<String, Value>,
}

/// Makes renderings and chart images of a lock right: charts are rendered, new images locked, those that nothing names any
/// more dropped. What is already locked is not changed. A lock without charts is returned unchanged.
pub async fn complete(
    work: &Work<'_>,
    lock: Lock,
    origins: &Origins,
    sizes: Sizes,
    jobs: usize,
    report: Report<'_>,
) -> Result<Lock, BuildError> {
    let releases = of_lock(work.cluster, &lock)?;
    let mut lock = lock;
    if releases.is_empty() {
        lock.items.retain(|item| !matches!(item.key, ArtifactKey::ChartImage(_)));
        lock.renderings.clear();
        return Ok(lock);
    }
    report(EventKind::Phase { name: "charts".to_owned() });
    let found = look(work, &lock, &releases, origins, report).await?;
    let (renderings, images) = judged(work, &releases, &found, lock.kubernetes.as_deref(), report)?;
    lock.items.retain(|item| match &item.key {
        ArtifactKey::ChartImage(name) => images.contains_key(name),
        _ => true,
    });
    let needed = missing(work, &lock, &images);
    if !needed.is_empty() {
        let (name, kubernetes, zone) = (lock.name.clone(), lock.kubernetes.clone(), work.zone.name.clone());
        let items = needed
            .into_iter()
            .map(|requirement| Resolved { candidates: candidates(&requirement, work.zone), requirement })
            .collect();
        let more = lock::lock(&Resolution { name, kubernetes, zone, items }, origins, sizes, jobs, report).await?;
        lock.items.extend(more.items);
        lock.items.sort_by(|a, b| (&a.key, a.platform).cmp(&(&b.key, b.platform)));
        lock::one_image_a_name(&lock.items)?;
    }
    lock.renderings = renderings;
    Ok(lock)
}

/// Compares cluster.yaml with the settings that a lock was rendered with; renders nothing and needs no network.
pub fn check_locked(cluster: &Cluster, lock: &Lock) -> Result<(), BuildError> {
    let releases = of_lock(cluster, lock)?;
    let asked: Vec<Asked<'_>> = releases
        .iter()
        .map(|release| Asked {
            key: &release.release.key,
            source: release.source,
            values: &release.values,
            namespace: &release.release.namespace,
            kubernetes: lock.kubernetes.as_deref(),
        })
        .collect();
    let others: Vec<RenderingMismatch> = rendering::check(&lock.renderings, &asked);
    if others.is_empty() { Ok(()) } else { Err(BuildError::Rendered(others)) }
}

/// The images of each chart, where a lock or the cache has a rendering with these very values; none where only rendering
/// could tell. Nothing goes over the network.
pub fn known(
    cluster: &Cluster,
    requirements: &Requirements,
    locked: Option<&Lock>,
    store: Option<&Store>,
) -> Vec<(ArtifactKey, Option<Vec<String>>)> {
    let kubernetes = requirements.versions.as_ref().map(|versions| versions.kubernetes.to_string());
    let kubernetes = locked.map_or(kubernetes, |lock| lock.kubernetes.clone());
    let of = |release: ChartRelease| -> Option<(ArtifactKey, Option<Vec<String>>)> {
        let requirement = requirements.items.iter().find(|item| item.key == release.key)?;
        let key = release.key.clone();
        let Ok(values) = values(&release) else { return Some((key, None)) };
        let rendered = locked.and_then(|lock| lock.renderings.iter().find(|r| r.key == release.key));
        if let Some(rendered) = rendered.filter(|r| r.values_digest == rendering::digest(&values)) {
            return Some((key, Some(rendered.images.clone())));
        }
        let source = match locked.and_then(|lock| lock.find(&release.key, None)).map(|item| &item.content) {
            Some(Content::File { digest, .. }) => Some(*digest),
            _ => match &requirement.source {
                Source::File { sha256, .. } => *sha256,
                Source::Chart { chart } => store.and_then(|store| chart::remembered(chart, store)),
                _ => None,
            },
        };
        let found = source.zip(store).and_then(|(source, store)| {
            let release = Release { release, source, values };
            kept(&release, kubernetes.as_deref(), store)
        });
        Some((key, found.map(|found| found.pods.into_keys().collect())))
    };
    releases(cluster).into_iter().filter_map(of).collect()
}

/// Charts and YAML that are in a lock.
fn of_lock(cluster: &Cluster, lock: &Lock) -> Result<Vec<Release>, BuildError> {
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for release in releases(cluster) {
        let Some(Content::File { digest, .. }) = lock.find(&release.key, None).map(|item| &item.content) else {
            continue;
        };
        match values(&release) {
            Ok(values) => all.push(Release { release, source: *digest, values }),
            Err(error) => failures.push(error.into()),
        }
    }
    if failures.is_empty() { Ok(all) } else { Err(BuildError::from_many(failures)) }
}

/// Values files that cannot be used: found before a chart is fetched.
pub fn check_values(cluster: &Cluster) -> Result<(), BuildError> {
    let failures: Vec<BuildError> =
        releases(cluster).iter().filter_map(|release| values(release).err()).map(BuildError::from).collect();
    if failures.is_empty() { Ok(()) } else { Err(BuildError::from_many(failures)) }
}

/// Values file and inline values as one.
fn values(release: &ChartRelease) -> Result<Map<String, Value>, ChartError> {
    let Some(path) = &release.values_file else { return Ok(release.rendered(Map::new())) };
    let wrong = |problem: String| ChartError::ValuesFile { item: release.key.to_string(), path: path.clone(), problem };
    let text = read_text(path, VALUES_LIMIT).map_err(wrong)?;
    let file = documents::values(&text).map_err(wrong)?;
    Ok(release.rendered(file))
}

fn read_text(path: &Path, limit: u64) -> Result<String, String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > limit {
        return Err(format!("it has more than {limit} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let found = kubexm_spec::not_utf8(error.as_bytes()).unwrap_or_default();
        format!("it is not UTF-8{found}; save it as UTF-8")
    })
}

/// Renders what the cache has no rendering of, and says what was found in each. All failures are reported.
async fn look(
    work: &Work<'_>,
    lock: &Lock,
    releases: &[Release],
    origins: &Origins,
    report: Report<'_>,
) -> Result<Vec<Found>, BuildError> {
    let kubernetes = lock.kubernetes.as_deref();
    let helm: OnceCell<Helm> = OnceCell::new();
    let helm = &helm;
    let results: Vec<Result<Found, BuildError>> = stream::iter(releases)
        .map(|release| async move {
            let known = locked(release, lock).or_else(|| kept(release, kubernetes, &origins.store));
            if let Some(found) = known {
                return Ok(found);
            }
            bring(work, release, origins).await?;
            let found = look_at(work, release, kubernetes, helm, origins, report).await?;
            keep(release, kubernetes, &found, &origins.store);
            Ok(found)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(found) => all.push(found),
            Err(error) => failures.push(error),
        }
    }
    if failures.is_empty() { Ok(all) } else { Err(BuildError::from_many(failures)) }
}

async fn look_at(
    work: &Work<'_>,
    release: &Release,
    kubernetes: Option<&str>,
    helm: &OnceCell<Helm>,
    origins: &Origins,
    report: Report<'_>,
) -> Result<Found, BuildError> {
    let key = &release.release.key;
    let objects = match key {
        ArtifactKey::Chart(_) => {
            let origin = source_of(work.requirements, key);
            let chart = chart::read(key, &release.source, &origin, origins).await?;
            let find = || async {
                let helm = Helm::find(work.catalogue, work.zone, origins).await?;
                if !helm.is_offline() {
                    let text =
                        "this machine does not allow running a program without a network: helm renders with network access".to_owned();
                    report(EventKind::Note { text });
                }
                Ok::<_, BuildError>(helm)
            };
            let helm = helm.get_or_try_init(find).await?;
            report(EventKind::Note { text: format!("{key}: rendering {} {}", chart.name, chart.version) });
            let job = Job {
                key,
                archive: &origins.store.path(&release.source),
                name: &release.release.name,
                namespace: &release.release.namespace,
                kubernetes,
                values: &release.values,
            };
            let all = documents_of(key, helm.render(&job, true).await?).await?;
            match objects::has_tests(&all) {
                false => all,
                true => objects::installed(all, documents_of(key, helm.render(&job, false).await?).await?),
            }
        }
        _ => {
            let path = origins.store.path(&release.source);
            let place = "its YAML".to_owned();
            let item = key.to_string();
            let text = read_text(&path, documents::STREAM_LIMIT);
            let text = text.map_err(|problem| ChartError::Unreadable { item, place, problem })?;
            documents_of(key, text).await?
        }
    };
    let found = tokio::task::spawn_blocking(move || extract::images(&objects));
    found.await.map_err(|e| BuildError::Worker(e.to_string()))
}

async fn documents_of(key: &ArtifactKey, text: String) -> Result<Vec<Value>, BuildError> {
    let read = tokio::task::spawn_blocking(move || documents::read(&text)).await;
    let read = read.map_err(|e| BuildError::Worker(e.to_string()))?;
    let item = key.to_string();
    Ok(read.map_err(|e| ChartError::Unreadable { item, place: e.place, problem: e.problem })?)
}

/// What a lock was rendered to, when this very rendering is in it: it was judged then.
fn locked(release: &Release, lock: &Lock) -> Option<Found> {
    let rendering = lock.renderings.iter().find(|rendering| rendering.key == release.release.key)?;
    let asked = Asked {
        key: &release.release.key,
        source: release.source,
        values: &release.values,
        namespace: &release.release.namespace,
        kubernetes: lock.kubernetes.as_deref(),
    };
    rendering::check(std::slice::from_ref(rendering), &[asked]).is_empty().then(|| {
        let images = rendering.images.iter().map(|image| (image.clone(), "the lock".to_owned()));
        Found { pods: images.collect(), ..Found::default() }
    })
}

/// Fetches a chart that was locked by the digest that origins reported, or on another machine.
async fn bring(work: &Work<'_>, release: &Release, origins: &Origins) -> Result<(), BuildError> {
    let key = &release.release.key;
    if origins.store.contains(&release.source) {
        return Ok(());
    }
    let Some(requirement) = work.requirements.items.iter().find(|item| item.key == *key) else { return Ok(()) };
    let mut requirement = requirement.clone();
    if let Source::File { size, .. } = &mut requirement.source {
        // What has no size is fetched to learn it.
        *size = None;
    }
    let candidates = candidates(&requirement, work.zone);
    let item = lock::lock_item(&Resolved { requirement, candidates }, origins, Sizes::Fetched).await?;
    match &item.content {
        Content::File { digest, .. } if *digest != release.source => {
            let (locked, now) = (release.source.to_string(), digest.to_string());
            Err(BuildError::Drift(vec![crate::difference::changed(&item, "digest", locked, now, "there is")]))
        }
        _ => Ok(()),
    }
}

/// For people: where a chart is from.
fn source_of(requirements: &Requirements, key: &ArtifactKey) -> String {
    use kubexm_manifests::ChartSource;
    match requirements.items.iter().find(|item| item.key == *key).map(|item| &item.source) {
        Some(Source::File { url, .. }) => kubexm_transport::http::shown(url),
        Some(Source::Chart { chart: ChartSource::Repository { url, .. } }) => kubexm_transport::http::shown(url),
        Some(Source::Chart { chart: ChartSource::Oci { reference, .. } }) => reference.clone(),
        Some(Source::Chart { chart: ChartSource::Path { path } }) => path.display().to_string(),
        _ => "the cache".to_owned(),
    }
}

/// What becomes of the images: the renderings, and for each image the chart that names it. Every gap of every chart is reported.
fn judged(
    work: &Work<'_>,
    releases: &[Release],
    found: &[Found],
    kubernetes: Option<&str>,
    report: Report<'_>,
) -> Result<(Vec<Rendering>, BTreeMap<String, ArtifactKey>), BuildError> {
    let ignored = work.cluster.bundle.ignore_images.iter().map(String::as_str);
    let mut known = Known::new(work.requirements.images(), ignored);
    found.iter().for_each(|found| known.learn(found));
    let (mut renderings, mut images, mut gaps) = (Vec::new(), BTreeMap::new(), Vec::<Gap>::new());
    for (release, found) in releases.iter().zip(found) {
        let key = &release.release.key;
        match judge(key, found, &known) {
            Ok(verdict) => {
                verdict.warnings.into_iter().for_each(|text| report(EventKind::Warning { text }));
                for image in &verdict.images {
                    images.entry(image.clone()).or_insert_with(|| key.clone());
                }
                renderings.push(Rendering {
                    key: key.clone(),
                    source: release.source,
                    values_digest: rendering::digest(&release.values),
                    namespace: release.release.namespace.clone(),
                    kubernetes: kubernetes.map(str::to_owned),
                    values: release.values.clone(),
                    images: verdict.images.into_iter().collect(),
                });
            }
            Err(gap) => gaps.push(gap),
        }
    }
    if !gaps.is_empty() {
        return Err(ChartError::Images(gaps).into());
    }
    renderings.sort_by(|a, b| a.key.cmp(&b.key));
    // What is required by another key is carried under that.
    let full = |name: &str| Reference::read(name).map_or_else(|| name.to_owned(), |name| name.to_string());
    let carried: BTreeSet<String> = work.requirements.images().into_iter().map(full).collect();
    images.retain(|name, _| !carried.contains(name));
    Ok((renderings, images))
}

/// Images that the lock has not yet, for every platform of the bundle.
fn missing(work: &Work<'_>, lock: &Lock, images: &BTreeMap<String, ArtifactKey>) -> Vec<Requirement> {
    let mut all = Vec::new();
    for (name, by) in images {
        let key = ArtifactKey::ChartImage(name.clone());
        let because = format!("the rendering of {by} names it");
        let absent = platforms(work.cluster).into_iter().filter(|platform| lock.find(&key, Some(*platform)).is_none());
        all.extend(absent.map(|platform| needed_image(name, Some(platform), because.clone(), work.catalogue)));
    }
    all
}

fn platforms(cluster: &Cluster) -> BTreeSet<Platform> {
    cluster.bundle.platforms.iter().copied().collect()
}

/// An image of a rendering, as something that is needed.
pub(crate) fn needed_image(
    name: &str,
    platform: Option<Platform>,
    because: String,
    catalogue: &Catalogue,
) -> Requirement {
    let reference = Reference::read(name);
    let digest = reference.as_ref().and_then(|reference| reference.digest);
    let pin = catalogue.pins.get(name);
    let tag = reference.and_then(|reference| reference.tag).or(digest.map(|digest| digest.to_string()));
    Requirement {
        key: ArtifactKey::ChartImage(name.to_owned()),
        platform,
        version: tag.unwrap_or_default(),
        because,
        role: None,
        optional: false,
        stage: STAGE,
        trust: pin.map_or(Trust::OciDigest, |pin| pin.trust),
        source: Source::Image { reference: name.to_owned(), digest: digest.or(pin.map(|pin| pin.digest)) },
    }
}

/// The images that charts will bring beyond what is required, as far as that is known without rendering, for every platform;
/// and the charts whose renderings are not known.
pub fn expected(work: &Work<'_>, known: &[(ArtifactKey, Option<Vec<String>>)]) -> (Vec<Requirement>, Vec<ArtifactKey>) {
    let full = |name: &str| Reference::read(name).map_or_else(|| name.to_owned(), |name| name.to_string());
    let mut seen: BTreeSet<String> = work.requirements.images().into_iter().map(full).collect();
    let (mut all, mut open) = (Vec::new(), Vec::new());
    for (key, images) in known {
        let Some(images) = images else {
            open.push(key.clone());
            continue;
        };
        let because = format!("the rendering of {key} names it");
        for name in images.iter().filter(|name| seen.insert(full(name))) {
            let of = |platform| needed_image(name, Some(platform), because.clone(), work.catalogue);
            all.extend(platforms(work.cluster).into_iter().map(of));
        }
    }
    (all, open)
}

/// What was found in this very chart with these very values when it was rendered last.
fn kept(release: &Release, kubernetes: Option<&str>, store: &Store) -> Option<Found> {
    serde_json::from_str(&store.recorded(&note_key(release, kubernetes)).ok()??).ok()
}

/// A rendering that cannot be kept is made again.
fn keep(release: &Release, kubernetes: Option<&str>, found: &Found, store: &Store) {
    if let Ok(text) = serde_json::to_string(found) {
        let _ = store.note(&note_key(release, kubernetes), &text);
    }
}

/// The first word changes when what is looked for does.
fn note_key(release: &Release, kubernetes: Option<&str>) -> String {
    let Release { release, source, values } = release;
    let (values, kubernetes) = (rendering::digest(values), kubernetes.unwrap_or_default());
    format!("rendering-3 {} {source} {values} {} {} {kubernetes}", release.key, release.name, release.namespace)
}
