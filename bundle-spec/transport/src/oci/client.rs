//! [`Registry`] over the network.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures::{TryStreamExt, stream};
use kubexm_spec::lock::Descriptor;
use kubexm_spec::reference::Reference as ImageName;
use kubexm_spec::{Digest, Platform};
use oci_distribution::Reference;
use tokio::sync::{Mutex, OnceCell};

use super::access::Access;
use super::resolve::LARGEST;
use super::session::Session;
use super::{Credentials, ImageCandidate, RegistriesConf, Registry, ResolvedImage, image, resolve};
use crate::address::host_of;
use crate::http::{HttpClient, read_small};
use crate::schedule::RetryPolicy;
use crate::{Progress, Store, TransportError, Want, transfer};

/// Registries over the network. Cheap to clone; clones share logins, connections and limits.
#[derive(Clone)]
pub struct OciRegistry {
    pub(super) http: HttpClient,
    credentials: Credentials,
    registries: Arc<RegistriesConf>,
    pub(super) store: Option<Store>,
    sessions: Arc<Mutex<HashMap<SessionKey, Opened>>>,
    answers: Arc<Mutex<HashMap<(ImageCandidate, String), Answer>>>,
    /// Manifests are asked for though the store has them: it is the registry that is looked at.
    looks: bool,
}

/// Registry, or the namespace of it that has credentials of its own; whether plain http; CA file.
type SessionKey = (String, bool, Option<PathBuf>);
type Opened = Arc<OnceCell<Arc<Session>>>;
/// The bytes of what a tag names.
type Answer = Arc<OnceCell<Vec<u8>>>;

impl std::fmt::Debug for OciRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OciRegistry").field("http", &self.http).finish_non_exhaustive()
    }
}

impl OciRegistry {
    /// Shares connections and limits with `http`.
    pub fn new(http: HttpClient, credentials: Credentials) -> Self {
        let (registries, sessions, answers) = (Arc::default(), Arc::default(), Arc::default());
        Self { http, credentials, registries, store: None, sessions, answers, looks: false }
    }

    /// Asks the mirrors of `registries.conf` before the registries themselves, and none that it blocks.
    #[must_use]
    pub fn with_registries(self, registries: RegistriesConf) -> Self {
        Self { registries: Arc::new(registries), ..self }
    }

    /// Manifests and configs that the store holds are not asked for again, and what tags point at is noted there, for a
    /// time without a network.
    #[must_use]
    pub fn with_store(self, store: Store) -> Self {
        Self { store: Some(store), ..self }
    }

    pub(super) async fn session(&self, candidate: &ImageCandidate) -> Result<Arc<Session>, TransportError> {
        let scope = self.credentials.scope(&candidate.registry, &candidate.repository);
        let key = (scope.clone(), candidate.plain_http, candidate.ca_file.clone());
        let opened = Arc::clone(self.sessions.lock().await.entry(key).or_default());
        let open =
            || async { Session::open(self.http.clients(), &self.credentials, candidate, &scope).await.map(Arc::new) };
        opened.get_or_try_init(open).await.cloned()
    }

    /// What `registries.conf` makes of candidates. The error of one that it blocks is in its place.
    pub(super) fn expand(
        &self,
        candidates: &[ImageCandidate],
        asked: &str,
    ) -> Vec<Result<ImageCandidate, TransportError>> {
        let by_digest = asked.starts_with("sha256:");
        let of_one = |candidate| match self.registries.candidates(candidate, by_digest) {
            Ok(all) => all.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        candidates.iter().flat_map(of_one).collect()
    }

    /// Asks one candidate after the other until one answers, those whose host is down last and once.
    pub(super) async fn first<T, F, Fut>(
        &self,
        candidates: &[ImageCandidate],
        asked: &str,
        once: F,
    ) -> Result<T, Vec<TransportError>>
    where
        F: Fn(ImageCandidate, RetryPolicy) -> Fut,
        Fut: Future<Output = Result<T, TransportError>>,
    {
        let mut tried = Vec::new();
        let mut left = Vec::new();
        for candidate in self.expand(candidates, asked) {
            match candidate {
                Ok(candidate) => left.push(candidate),
                Err(error) => tried.push(error),
            }
        }
        let schedule = &self.http.clients().schedule;
        while let Some((candidate, retry_policy)) = schedule.next(&mut left, |candidate| Some(host(candidate))) {
            match once(candidate, retry_policy).await {
                Ok(done) => return Ok(done),
                Err(error) if error.is_ours() => return Err(vec![error]),
                Err(error) => {
                    tracing::warn!(%error, "a candidate is skipped");
                    tried.push(error);
                }
            }
        }
        Err(tried)
    }

    async fn resolve_one(
        &self,
        candidate: &ImageCandidate,
        asked: &str,
        want: Option<Digest>,
        platform: Platform,
        retry_policy: RetryPolicy,
    ) -> Result<ResolvedImage, TransportError> {
        let reference = named(candidate, asked)?;
        let session = self.session(candidate).await?;
        let (store, looks) = (self.store.as_ref(), self.looks);
        let remote = Remote { http: &self.http, session: Some(&session), reference, store, retry_policy, looks };
        // A digest in place of a tag binds as much as one that is wanted.
        let want = want.or_else(|| asked.parse().ok());
        let target = match want.and_then(|digest| remote.kept_manifest(&digest)) {
            Some(kept) => kept,
            None if want.is_some() => remote.read(&remote.reference).await?,
            None => self.answer(candidate, asked, &remote).await?,
        };
        let image = resolve::resolve(&remote, target, want, platform).await?;
        if let Some(store) = self.store.as_ref().filter(|_| !self.looks && asked.parse::<Digest>().is_err()) {
            store.note(&tag_key(candidate, asked), &image.target.digest.to_string())?;
        }
        Ok(image)
    }

    /// What a tag names at one candidate, asked once for all platforms: a tag that is moved meanwhile is one image still.
    async fn answer(
        &self,
        candidate: &ImageCandidate,
        tag: &str,
        remote: &Remote<'_>,
    ) -> Result<Vec<u8>, TransportError> {
        let key = (candidate.clone(), tag.to_owned());
        let answer = Arc::clone(self.answers.lock().await.entry(key).or_default());
        answer.get_or_try_init(|| remote.read(&remote.reference)).await.cloned()
    }

    /// From the store alone: what the tag pointed at when it was last asked.
    async fn resolve_kept(
        &self,
        candidates: &[ImageCandidate],
        asked: &str,
        platform: Platform,
    ) -> Result<ResolvedImage, TransportError> {
        let name = candidates.first().map(|c| format!("{}/{}", c.registry, c.repository)).unwrap_or_default();
        let absent = || TransportError::NotCached { what: format!("image {name} {asked} for {platform}") };
        let store = self.store.as_ref().ok_or_else(absent)?;
        for candidate in self.expand(candidates, asked).into_iter().flatten() {
            let digest = match asked.parse::<Digest>() {
                Ok(digest) => digest,
                Err(_) => match store.recorded(&tag_key(&candidate, asked))?.and_then(|recorded| recorded.parse().ok())
                {
                    Some(digest) => digest,
                    None => continue,
                },
            };
            let reference = named(&candidate, asked)?;
            let (store, retry_policy) = (Some(store), RetryPolicy::default());
            let remote = Remote { http: &self.http, session: None, reference, store, retry_policy, looks: false };
            let Some(target) = remote.kept_manifest(&digest) else { continue };
            match resolve::resolve(&remote, target, Some(digest), platform).await {
                Err(TransportError::NotCached { .. }) => {}
                other => return other,
            }
        }
        Err(absent())
    }

    /// Looks whether a candidate has an image for a platform, by the rule of [`Registry::resolve`]: index, manifest and
    /// config, and nothing of it is kept. What the store holds says nothing of a registry, but for a config, which is the
    /// same wherever it is.
    pub async fn look(
        &self,
        candidate: &ImageCandidate,
        reference: &str,
        want: Option<Digest>,
        platform: Platform,
    ) -> Result<ResolvedImage, TransportError> {
        if self.http.is_offline() {
            return Err(TransportError::NotCached { what: named(candidate, reference)?.whole() });
        }
        let looking = Self { looks: true, ..self.clone() };
        match looking.resolve(std::slice::from_ref(candidate), reference, want, platform).await {
            Err(TransportError::AllFailed { mut tried, .. }) if tried.len() == 1 => Err(tried.remove(0)),
            other => other,
        }
    }

    /// Brings one blob into the store from the first candidate that gives it.
    pub async fn fetch_blob(
        &self,
        candidates: &[ImageCandidate],
        blob: &Descriptor,
        store: &Store,
        progress: &Progress<'_>,
    ) -> Result<(), TransportError> {
        if blob.size > LARGEST {
            let problem = format!("{} has {} bytes, more than any layer", blob.digest, blob.size);
            let reference = candidates.first().map(ImageCandidate::place).unwrap_or_default();
            return Err(TransportError::Image { reference, problem });
        }
        // A layer is an archive; a config is JSON and may come as such.
        let refuse_html = blob.media_type.contains("tar");
        let want = Want { digest: Some(blob.digest), size: Some(blob.size), refuse_html, ..Want::default() };
        if transfer::in_store(store, &want)?.is_some() {
            progress(blob.size, Some(blob.size));
            return Ok(());
        }
        let what = || format!("blob {} ({})", blob.digest, blob.media_type);
        if self.http.is_offline() {
            return Err(TransportError::NotCached { what: what() });
        }
        let asked = blob.digest.to_string();
        let want = &want;
        self.first(candidates, &asked, |candidate, retry_policy| async move {
            self.fetch_blob_from(&candidate, retry_policy, want, store, progress).await
        })
        .await
        .map_err(|tried| failed(what(), tried))
    }

    /// Brings a manifest or index into the store, by its digest.
    pub async fn fetch_manifest(
        &self,
        candidates: &[ImageCandidate],
        manifest: &Descriptor,
        store: &Store,
    ) -> Result<(), TransportError> {
        if store.holds(&manifest.digest, manifest.size)? {
            return Ok(());
        }
        let what = || format!("manifest {}", manifest.digest);
        if self.http.is_offline() {
            return Err(TransportError::NotCached { what: what() });
        }
        let asked = &manifest.digest.to_string();
        let bytes = self.first(candidates, asked, |candidate, retry_policy| async move {
            let reference = named(&candidate, asked)?;
            let bytes = self.session(&candidate).await?.manifest(&reference, retry_policy).await?;
            match Digest::of(&bytes) {
                found if found == manifest.digest => Ok((bytes, candidate.place())),
                found => {
                    let origin = reference.whole();
                    Err(TransportError::Mismatch { origin, expected: manifest.digest, found })
                }
            }
        });
        let (bytes, place) = bytes.await.map_err(|tried| failed(what(), tried))?;
        store.insert(bytes.as_slice(), Some(manifest.digest))?;
        store.note_from(&manifest.digest, &place);
        Ok(())
    }

    async fn fetch_blob_from(
        &self,
        candidate: &ImageCandidate,
        retry_policy: RetryPolicy,
        want: &Want,
        store: &Store,
        progress: &Progress<'_>,
    ) -> Result<(), TransportError> {
        let Some(digest) = want.digest else { return Ok(()) };
        let session = self.session(candidate).await?;
        let reference = named(candidate, &digest.to_string())?;
        let access = Access { session: &session, reference: &reference };
        let source = session.blob(&reference, &digest, &access, retry_policy)?;
        let fetched = transfer::fetch(self.http.clients(), &source, want, store, progress).await?;
        if fetched.url.is_some() {
            store.note_from(&digest, &candidate.place());
        }
        Ok(())
    }
}

/// The one error of this machine, or what every candidate did.
pub(super) fn failed(what: String, mut tried: Vec<TransportError>) -> TransportError {
    // Where none was asked, since the login to none could be read, no origin is at fault.
    let unread = |error: &TransportError| matches!(error, TransportError::Credentials { .. });
    let none_asked = tried.iter().all(unread).then_some(0).filter(|_| !tried.is_empty());
    match tried.iter().position(TransportError::is_ours).or(none_asked) {
        Some(at) => tried.swap_remove(at),
        None => TransportError::AllFailed { what, tried },
    }
}

/// Under which key the store notes what a tag points at.
fn tag_key(candidate: &ImageCandidate, tag: &str) -> String {
    format!("tag {}/{}:{tag}", candidate.registry, candidate.repository)
}

/// As [`Source::host`](crate::source::Source::host) has it.
pub(super) fn host(candidate: &ImageCandidate) -> String {
    let scheme = if candidate.plain_http { "http" } else { "https" };
    let registry = Reference::with_tag(candidate.registry.clone(), String::new(), String::new());
    let address = format!("{scheme}://{}/", registry.resolve_registry());
    reqwest::Url::parse(&address).map(|url| host_of(&url)).unwrap_or(address)
}

#[async_trait]
impl Registry for OciRegistry {
    async fn resolve(
        &self,
        candidates: &[ImageCandidate],
        reference: &str,
        want: Option<Digest>,
        platform: Platform,
    ) -> Result<ResolvedImage, TransportError> {
        let asked = want.map_or_else(|| reference.to_owned(), |digest| digest.to_string());
        if self.http.is_offline() {
            return self.resolve_kept(candidates, &asked, platform).await;
        }
        let name = candidates.first().map(|c| c.repository.as_str()).unwrap_or("an image");
        let asked = &asked;
        self.first(candidates, asked, |candidate, retry_policy| async move {
            self.resolve_one(&candidate, asked, want, platform, retry_policy).await
        })
        .await
        .map_err(|tried| failed(format!("{name} {reference} for {platform}"), tried))
    }

    async fn fetch_blobs(
        &self,
        candidates: &[ImageCandidate],
        blobs: &[Descriptor],
        store: &Store,
        progress: &Progress<'_>,
    ) -> Result<(), TransportError> {
        let once: BTreeMap<Digest, &Descriptor> = blobs.iter().map(|blob| (blob.digest, blob)).collect();
        // A registry says how large they are.
        let total = once.values().fold(0, |sum: u64, blob| sum.saturating_add(blob.size));
        // What is here already, or was begun, says nothing of how fast the rest comes.
        let held = |blob: &Descriptor| {
            let whole = store.size(&blob.digest).filter(|size| *size == blob.size);
            whole.unwrap_or_else(|| store.partial_size(&blob.digest).min(blob.size))
        };
        let done = AtomicU64::new(once.values().fold(0, |sum: u64, blob| sum.saturating_add(held(blob))));
        let done = &done;
        progress(done.load(Ordering::Relaxed), Some(total));
        // The limits of the client decide how many really run; the others wait without a connection or a buffer.
        stream::iter(once.into_values().map(Ok))
            .try_for_each_concurrent(None, |blob| async move {
                let last = AtomicU64::new(held(blob));
                let reported = move |now: u64, _: Option<u64>| {
                    // A transfer that begins again goes back: wrapping keeps the sum right.
                    let change = now.wrapping_sub(last.swap(now, Ordering::Relaxed));
                    let sum = done.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
                    progress(sum, Some(total));
                };
                self.fetch_blob(candidates, blob, store, &reported).await
            })
            .await
    }
}

/// One image at one registry; without a session, what the store holds of it.
struct Remote<'a> {
    http: &'a HttpClient,
    session: Option<&'a Session>,
    reference: Reference,
    store: Option<&'a Store>,
    retry_policy: RetryPolicy,
    looks: bool,
}

impl Remote<'_> {
    /// A manifest of the store, unless it is the registry that is looked at.
    fn kept_manifest(&self, digest: &Digest) -> Option<Vec<u8>> {
        if self.looks { None } else { self.kept(digest, image::MANIFEST_LIMIT) }
    }

    /// A small blob of the store. One that was damaged there is as good as none.
    fn kept(&self, digest: &Digest, limit: u64) -> Option<Vec<u8>> {
        let store = self.store?;
        store.size(digest)?;
        store.read(digest, limit).ok().filter(|bytes| Digest::of(bytes) == *digest)
    }

    fn session(&self, digest: Option<Digest>) -> Result<&Session, TransportError> {
        let what = || format!("{} ({})", self.reference.whole(), digest.map(|d| d.to_string()).unwrap_or_default());
        self.session.ok_or_else(|| TransportError::NotCached { what: what() })
    }

    async fn read(&self, reference: &Reference) -> Result<Vec<u8>, TransportError> {
        let digest = reference.digest().and_then(|digest| digest.parse().ok());
        self.session(digest)?.manifest(reference, self.retry_policy).await
    }
}

#[async_trait]
impl resolve::Content for Remote<'_> {
    fn reference(&self) -> String {
        self.reference.whole()
    }

    fn place(&self) -> String {
        format!("{}/{}", self.reference.registry(), self.reference.repository())
    }

    async fn manifest(&self, descriptor: &Descriptor) -> Result<Vec<u8>, TransportError> {
        match self.kept_manifest(&descriptor.digest) {
            Some(kept) => Ok(kept),
            None => self.read(&self.reference.clone_with_digest(descriptor.digest.to_string())).await,
        }
    }

    async fn config(&self, descriptor: &Descriptor) -> Result<Vec<u8>, TransportError> {
        if let Some(kept) = self.kept(&descriptor.digest, image::CONFIG_LIMIT) {
            return Ok(kept);
        }
        let session = self.session(Some(descriptor.digest))?;
        let access = Access { session, reference: &self.reference };
        let source = session.blob(&self.reference, &descriptor.digest, &access, self.retry_policy)?;
        read_small(self.http.clients(), &source, image::CONFIG_LIMIT).await
    }
}

/// The reference of a tag or digest at a candidate; refused when no registry could have it.
pub(super) fn named(candidate: &ImageCandidate, asked: &str) -> Result<Reference, TransportError> {
    let mut repository = candidate.repository.clone();
    // Docker Hub's short names stand in its `library`.
    let hub = matches!(candidate.registry.as_str(), "docker.io" | "index.docker.io" | "registry-1.docker.io");
    if hub && !repository.contains('/') {
        repository = format!("library/{repository}");
    }
    let is_digest = asked.starts_with("sha256:");
    let join = if is_digest { '@' } else { ':' };
    // Only to learn whether the names are well-formed; a registry name without a dot would be taken for a repository. oci-client would
    // ask a regular expression, whose first use takes as long as ten requests.
    if ImageName::read(&format!("registry.invalid/{repository}{join}{asked}")).is_none() {
        return Err(TransportError::Setting {
            what: format!("image {}/{repository}{join}{asked}", candidate.registry),
            problem: "this is not the name of an image".to_owned(),
        });
    }
    let (registry, asked) = (candidate.registry.clone(), asked.to_owned());
    Ok(if is_digest {
        Reference::with_digest(registry, repository, asked)
    } else {
        Reference::with_tag(registry, repository, asked)
    })
}
