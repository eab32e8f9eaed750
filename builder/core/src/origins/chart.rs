//! Charts: of a repository with an index.yaml, of an OCI registry, or of this machine. Locked by digest; what was fetched is
//! checked to be the chart that was asked for. YAML add-ons of this machine stand here too.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use kubexm_manifests::Zone;
use kubexm_manifests::requirements::{ChartSource, chart_index};
use kubexm_spec::lock::Descriptor;
use kubexm_spec::{ArtifactKey, Digest, Trust};
use kubexm_transport::{FileCandidate, ImageCandidate, RawManifest, Store, TransportError, Want};
use serde::Deserialize;

use super::Origins;
use crate::BuildError;
use crate::charts::archive::{self, Chart};
use crate::charts::documents::STREAM_LIMIT;
use crate::charts::error::ChartError;
use crate::charts::index;
use crate::places::{files, holds_login, images};
use crate::resolve::{Candidates, ChartCandidates};

/// The layer that is the archive (helm.sh/docs/topics/registries, HIP-0006).
const CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// The most bytes of an index.yaml; the largest public ones have some twenty MB.
const INDEX_LIMIT: u64 = 128 << 20;
/// The most bytes of an archive as it is stored.
const ARCHIVE_LIMIT: u64 = archive::UNPACKED_LIMIT;

/// What a chart was locked to; its bytes are in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locked {
    /// Of the archive.
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
    /// Why the digest is trusted.
    pub trust: Trust,
}

/// Brings a chart into the store, and says what it is.
pub async fn lock(
    key: &ArtifactKey,
    source: &ChartSource,
    candidates: &Candidates,
    origins: &Origins,
) -> Result<Locked, BuildError> {
    let locked = match (source, candidates) {
        (
            ChartSource::Repository { url, chart, version },
            Candidates::Chart(ChartCandidates::Repository { index, zone }),
        ) => {
            let repository = Repository { key, url, chart, version, index, zone };
            repository.lock(origins).await?
        }
        (ChartSource::Oci { reference, version }, Candidates::Chart(ChartCandidates::Oci { repositories })) => {
            of_registry(key, reference, version, repositories, origins).await?
        }
        (ChartSource::Path { path }, _) => return of_path(key, path, origins).await,
        _ => return Err(BuildError::Worker(format!("{key} was resolved to candidates of another kind"))),
    };
    let (name, version, origin) = match source {
        ChartSource::Repository { chart, version, url } => (chart.as_str(), version.as_str(), url),
        ChartSource::Oci { reference, version } => {
            (reference.rsplit('/').next().unwrap_or(reference), version.as_str(), reference)
        }
        ChartSource::Path { .. } => return Ok(locked),
    };
    let chart = read(key, &locked.digest, origin, origins).await?;
    let same = |a: &str, b: &str| a.strip_prefix('v').unwrap_or(a) == b.strip_prefix('v').unwrap_or(b);
    if chart.name != name || !same(&chart.version, version) {
        let problem = format!("it is {} {}, and {name} {version} was requested", chart.name, chart.version);
        return Err(not_a_chart(key, origin, problem, false));
    }
    Ok(locked)
}

/// The digest that a chart had when it was last locked, without network.
pub fn remembered(source: &ChartSource, store: &Store) -> Option<Digest> {
    store.recorded(&note_key(source)?).ok()?.and_then(|recorded| recorded.parse().ok())
}

/// Checks that what is of this machine is there.
pub fn check_local(key: &ArtifactKey, path: &Path) -> Result<(), BuildError> {
    let local = |source| BuildError::Local { path: path.to_owned(), source };
    let meta = fs::metadata(path).map_err(local)?;
    if meta.is_dir() && matches!(key, ArtifactKey::Chart(_)) && !path.join("Chart.yaml").is_file() {
        let problem = "the folder has no Chart.yaml".to_owned();
        return Err(not_a_chart(key, &path.display().to_string(), problem, true));
    }
    if meta.is_dir() || meta.is_file() {
        Ok(())
    } else {
        Err(local(std::io::Error::other("it is neither file nor folder")))
    }
}

/// YAML of this machine: a file unchanged; of a folder every `.yaml`, `.yml` and `.json` in the order of names, as one
/// stream.
pub async fn lock_yaml(key: &ArtifactKey, path: &Path, origins: &Origins) -> Result<Locked, BuildError> {
    let (name, path) = (key.to_string(), path.to_owned());
    let (digest, size) = origins
        .blocking(move |store| {
            let local = |source| BuildError::Local { path: path.clone(), source };
            let text = if path.is_dir() { joined(&path).map_err(local)? } else { bounded(&path).map_err(local)? };
            store
                .insert(text.as_slice(), None)
                .map_err(|source| BuildError::Fetch { item: name, source: Box::new(source) })
        })
        .await?;
    Ok(Locked { digest, size, trust: Trust::User })
}

fn bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(STREAM_LIMIT + 1).read_to_end(&mut text)?;
    if text.len() as u64 > STREAM_LIMIT {
        return Err(std::io::Error::other(format!("it has more than {STREAM_LIMIT} bytes")));
    }
    Ok(text)
}

fn joined(folder: &Path) -> std::io::Result<Vec<u8>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_yaml = [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end));
        if is_yaml && !name.starts_with('.') {
            names.push((name, entry.path()));
        }
    }
    names.sort();
    let mut all = Vec::new();
    for (name, path) in names {
        all.extend_from_slice(format!("---\n# Source: {name}\n").as_bytes());
        all.extend(bounded(&path)?);
        if !all.ends_with(b"\n") {
            all.push(b'\n');
        }
        if all.len() as u64 > STREAM_LIMIT {
            return Err(std::io::Error::other(format!("its files have more than {STREAM_LIMIT} bytes")));
        }
    }
    if all.is_empty() {
        return Err(std::io::Error::other("it has no .yaml, .yml or .json"));
    }
    Ok(all)
}

/// One chart of a repository.
struct Repository<'a> {
    key: &'a ArtifactKey,
    url: &'a str,
    chart: &'a str,
    version: &'a str,
    index: &'a [FileCandidate],
    zone: &'a Zone,
}

impl Repository<'_> {
    async fn lock(&self, origins: &Origins) -> Result<Locked, BuildError> {
        let note = format!("chart {} {} {}", self.url, self.chart, self.version);
        if origins.http.is_offline() {
            return kept(
                self.key,
                &note,
                &format!("{} {}", self.chart, self.version),
                Trust::UpstreamChecksum,
                origins,
            );
        }
        let (entry, answered_by) = self.entry(origins).await?;
        let Some(digest) = entry.digest else {
            let (index, chart) = (kubexm_transport::http::shown(&answered_by), self.chart.to_owned());
            let (item, version) = (self.key.to_string(), self.version.to_owned());
            return Err(ChartError::NoDigest { item, index, chart, version }.into());
        };
        let mut failures = Vec::new();
        for url in &entry.urls {
            match self.fetch(url, digest, origins).await {
                Ok(size) => {
                    let fail = |source| failed(self.key, source);
                    origins.store.note(&note, &digest.to_string()).map_err(fail)?;
                    let mirror = answered_by != chart_index(self.url);
                    let trust = if mirror { Trust::Mirror } else { Trust::UpstreamChecksum };
                    return Ok(Locked { digest, size, trust });
                }
                Err(error) => failures.push(error),
            }
        }
        if failures.is_empty() {
            let problem = format!("the index has no address of {} {}", self.chart, self.version);
            return Err(not_a_chart(self.key, &answered_by, problem, false));
        }
        Err(BuildError::from_many(failures))
    }

    /// What the first index says that can be read and has the chart.
    async fn entry(&self, origins: &Origins) -> Result<(index::Entry, String), BuildError> {
        let (mut tried, mut without) = (Vec::new(), None);
        for candidate in self.index {
            match origins.http.get_small(candidate, INDEX_LIMIT).await {
                Ok(bytes) => match index::find(&bytes, self.chart, self.version) {
                    Ok(index::Answer::Has(entry)) => return Ok((entry, candidate.url.clone())),
                    Ok(index::Answer::Lacks(known)) => {
                        // A mirror may be behind: the next one is asked.
                        without = Some((kubexm_transport::http::shown(&candidate.url), known));
                    }
                    Err(found) => {
                        let origin = kubexm_transport::http::shown(&candidate.url);
                        tried.push(TransportError::NotTheFile { origin, found });
                    }
                },
                Err(error) => tried.push(error),
            }
        }
        if let Some((index, known)) = without {
            let (item, chart, version) = (self.key.to_string(), self.chart.to_owned(), self.version.to_owned());
            return Err(ChartError::NotInIndex { item, index, chart, version, known }.into());
        }
        let what = format!("the index of {}", kubexm_transport::http::shown(self.url));
        Err(failed(self.key, TransportError::AllFailed { what, tried }))
    }

    /// Brings the archive into the store; its size.
    async fn fetch(&self, url: &str, digest: Digest, origins: &Origins) -> Result<u64, BuildError> {
        if holds_login(url) {
            let index = kubexm_transport::http::shown(&chart_index(self.url));
            let problem =
                "its index names an address with a login, which would go to whoever the index says".to_owned();
            return Err(not_a_chart(self.key, &index, problem, false));
        }
        if let Some(reference) = url.strip_prefix("oci://") {
            let (name, tag) = kubexm_spec::depot::split_reference(reference);
            let repositories = images(self.zone, name);
            let tag = tag.unwrap_or(self.version);
            let layer = chart_layer(self.key, name, tag, &repositories, origins).await?;
            if layer.digest != digest {
                let problem = format!("the index has {digest}, the registry {}", layer.digest);
                return Err(not_a_chart(self.key, url, problem, false));
            }
            fetch_layer(self.key, &layer, &repositories, origins).await?;
            return Ok(layer.size);
        }
        let address = if url.contains("://") {
            url.to_owned()
        } else {
            format!("{}/{}", self.url.trim_end_matches('/'), url.trim_start_matches('/'))
        };
        let want = Want { digest: Some(digest), size: None, most: Some(ARCHIVE_LIMIT), refuse_html: true };
        let candidates = files(self.zone, &address);
        let fetched = origins.http.fetch(&candidates, &want, &origins.store, &|_, _| {}).await;
        fetched.map(|fetched| fetched.size).map_err(|source| failed(self.key, source))
    }
}

async fn of_registry(
    key: &ArtifactKey,
    reference: &str,
    version: &str,
    repositories: &[ImageCandidate],
    origins: &Origins,
) -> Result<Locked, BuildError> {
    let note = format!("chart {reference} {version}");
    if origins.http.is_offline() {
        return kept(key, &note, &format!("{reference} {version}"), Trust::OciDigest, origins);
    }
    let name = reference.strip_prefix("oci://").unwrap_or(reference);
    let layer = chart_layer(key, name, &tag(version), repositories, origins).await?;
    fetch_layer(key, &layer, repositories, origins).await?;
    origins.store.note(&note, &layer.digest.to_string()).map_err(|source| failed(key, source))?;
    Ok(Locked { digest: layer.digest, size: layer.size, trust: Trust::OciDigest })
}

/// The tag of a version: a tag has no `+`, and helm writes `_` in its place (HIP-0006).
pub fn tag(version: &str) -> String {
    version.replace('+', "_")
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Descriptor>,
}

/// The archive that a tag of a repository stands for.
async fn chart_layer(
    key: &ArtifactKey,
    name: &str,
    tag: &str,
    repositories: &[ImageCandidate],
    origins: &Origins,
) -> Result<Descriptor, BuildError> {
    let layer = |place: &str, raw: RawManifest| {
        let manifest: Result<Manifest, _> = serde_json::from_slice(&raw.bytes);
        let layers = manifest.map(|manifest| manifest.layers).unwrap_or_default();
        let mut charts = layers.into_iter().filter(|layer| layer.media_type == CHART_LAYER);
        match (charts.next(), charts.next()) {
            (Some(layer), None) if layer.size <= ARCHIVE_LIMIT => Ok(layer),
            _ => Err(TransportError::NotTheFile {
                origin: format!("oci://{place}:{tag}"),
                found: "something other than a chart: it does not have exactly one layer of a chart's media type"
                    .to_owned(),
            }),
        }
    };
    let found = origins.registry.tagged(repositories, tag, layer).await;
    found.map_err(|tried| failed(key, TransportError::AllFailed { what: format!("{name}:{tag}"), tried }))
}

async fn fetch_layer(
    key: &ArtifactKey,
    layer: &Descriptor,
    repositories: &[ImageCandidate],
    origins: &Origins,
) -> Result<(), BuildError> {
    let fetched = origins.registry.fetch_blob(repositories, layer, &origins.store, &|_, _| {}).await;
    fetched.map_err(|source| failed(key, source))
}

/// A file is used unchanged; a folder is packed.
async fn of_path(key: &ArtifactKey, path: &Path, origins: &Origins) -> Result<Locked, BuildError> {
    let (key, path) = (key.clone(), path.to_owned());
    let (digest, size) = origins
        .blocking(move |store| {
            let wrong = |problem| not_a_chart(&key, &path.display().to_string(), problem, true);
            let put = |bytes: &mut dyn Read| store.insert(bytes, None).map_err(|source| failed(&key, source));
            if path.is_dir() {
                let (bytes, _) = archive::pack(&path).map_err(wrong)?;
                return put(&mut bytes.as_slice());
            }
            let open = || File::open(&path).map_err(|source| BuildError::Local { path: path.clone(), source });
            archive::check(open()?.take(ARCHIVE_LIMIT)).map_err(wrong)?;
            put(&mut open()?)
        })
        .await?;
    Ok(Locked { digest, size, trust: Trust::User })
}

/// Reads a chart of the store, within its limits.
pub async fn read(key: &ArtifactKey, digest: &Digest, origin: &str, origins: &Origins) -> Result<Chart, BuildError> {
    let (digest, name, origin) = (*digest, key.clone(), origin.to_owned());
    origins
        .blocking(move |store| {
            let blob = store.open_blob(&digest).map_err(|source| failed(&name, source))?;
            archive::check(blob.take(ARCHIVE_LIMIT)).map_err(|problem| not_a_chart(&name, &origin, problem, false))
        })
        .await
}

/// What the store has of an earlier time.
fn kept(key: &ArtifactKey, note: &str, what: &str, trust: Trust, origins: &Origins) -> Result<Locked, BuildError> {
    let recorded = origins.store.recorded(note).map_err(|source| failed(key, source))?;
    let digest: Option<Digest> = recorded.and_then(|recorded| recorded.parse().ok());
    let found = digest.and_then(|digest| Some((digest, origins.store.size(&digest)?)));
    match found {
        Some((digest, size)) => Ok(Locked { digest, size, trust }),
        None => Err(failed(key, TransportError::NotCached { what: format!("chart {what}") })),
    }
}

fn note_key(source: &ChartSource) -> Option<String> {
    match source {
        ChartSource::Repository { url, chart, version } => Some(format!("chart {url} {chart} {version}")),
        ChartSource::Oci { reference, version } => Some(format!("chart {reference} {version}")),
        ChartSource::Path { .. } => None,
    }
}

fn failed(key: &ArtifactKey, source: TransportError) -> BuildError {
    BuildError::Fetch { item: key.to_string(), source: Box::new(source) }
}

fn not_a_chart(key: &ArtifactKey, origin: &str, problem: String, local: bool) -> BuildError {
    ChartError::NotAChart { item: key.to_string(), origin: origin.to_owned(), problem, local }.into()
}
