//! [`Registry`] over the network.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures::{TryStreamExt, stream};
use kubexm_spec::lock::Descriptor;
use kubexm_spec::{Digest, Platform};
use oci_distribution::Reference;
use tokio::sync::Mutex;

use super::session::{Access, Session};
use super::{Credentials, ImageCandidate, Registry, ResolvedImage, image, resolve};
use crate::http::{HttpClient, Want, read_small};
use crate::source::retried;
use crate::{Progress, Store, TransportError, transfer};

/// Registries over the network. Cheap to clone; clones share logins, connections and limits.
#[derive(Clone)]
pub struct OciRegistry {
    pub(super) http: HttpClient,
    credentials: Credentials,
    sessions: Arc<Mutex<HashMap<SessionKey, Arc<Session>>>>,
}

/// Registry, whether plain http, CA file.
type SessionKey = (String, bool, Option<PathBuf>);

impl std::fmt::Debug for OciRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OciRegistry").field("http", &self.http).finish_non_exhaustive()
    }
}

impl OciRegistry {
    /// Shares connections and limits with `http`.
    pub fn new(http: HttpClient, credentials: Credentials) -> Self {
        Self { http, credentials, sessions: Arc::default() }
    }

    pub(super) async fn session(&self, candidate: &ImageCandidate) -> Result<Arc<Session>, TransportError> {
        let key = (candidate.registry.clone(), candidate.plain_http, candidate.ca_file.clone());
        let mut sessions = self.sessions.lock().await;
        if let Some(session) = sessions.get(&key) {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(Session::open(self.http.clients(), &self.credentials, candidate).await?);
        sessions.insert(key, Arc::clone(&session));
        Ok(session)
    }

    async fn resolve_one(
        &self,
        candidate: &ImageCandidate,
        reference: &str,
        want: Option<Digest>,
        platform: Platform,
    ) -> Result<ResolvedImage, TransportError> {
        let asked = match want {
            Some(digest) => digest.to_string(),
            None => reference.to_owned(),
        };
        let reference = named(candidate, &asked)?;
        let session = self.session(candidate).await?;
        let remote = Remote { http: &self.http, session: &session, reference };
        let target = remote.read(&remote.reference).await?;
        // A digest in place of a tag binds as much as one that is wanted.
        let want = want.or_else(|| asked.parse().ok());
        resolve::resolve(&remote, target, want, platform).await
    }

    async fn fetch_blob(
        &self,
        candidates: &[ImageCandidate],
        blob: &Descriptor,
        store: &Store,
        progress: &Progress<'_>,
    ) -> Result<(), TransportError> {
        // A layer is an archive; a config is JSON and may come as such.
        let refuse_html = blob.media_type.contains("tar");
        let want = Want { digest: Some(blob.digest), size: Some(blob.size), refuse_html };
        if transfer::in_store(store, &want)?.is_some() {
            progress(blob.size, Some(blob.size));
            return Ok(());
        }
        let mut tried = Vec::new();
        for candidate in candidates {
            match self.fetch_blob_from(candidate, &want, store, progress).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_ours() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "a candidate is passed over");
                    tried.push(error);
                }
            }
        }
        Err(TransportError::AllFailed { what: format!("blob {} ({})", blob.digest, blob.media_type), tried })
    }

    async fn fetch_blob_from(
        &self,
        candidate: &ImageCandidate,
        want: &Want,
        store: &Store,
        progress: &Progress<'_>,
    ) -> Result<(), TransportError> {
        let Some(digest) = want.digest else { return Ok(()) };
        let session = self.session(candidate).await?;
        let reference = named(candidate, &digest.to_string())?;
        let access = Access { session: &session, reference: &reference };
        let source = session.blob(&reference, &digest, &access)?;
        transfer::fetch(self.http.clients(), &source, want, store, progress).await.map(drop)
    }
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
        let mut tried = Vec::new();
        for candidate in candidates {
            match self.resolve_one(candidate, reference, want, platform).await {
                Ok(image) => return Ok(image),
                Err(error) if error.is_ours() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "a candidate is passed over");
                    tried.push(error);
                }
            }
        }
        let name = candidates.first().map(|c| c.repository.as_str()).unwrap_or("an image");
        Err(TransportError::AllFailed { what: format!("{name} {reference} for {platform}"), tried })
    }

    async fn fetch_blobs(
        &self,
        candidates: &[ImageCandidate],
        blobs: &[Descriptor],
        store: &Store,
        progress: &Progress<'_>,
    ) -> Result<(), TransportError> {
        let once: BTreeMap<Digest, &Descriptor> = blobs.iter().map(|blob| (blob.digest, blob)).collect();
        let total: u64 = once.values().map(|blob| blob.size).sum();
        let done = AtomicU64::new(0);
        let done = &done;
        // The limits of the client decide how many really run; the others wait without a connection or a buffer.
        stream::iter(once.into_values().map(Ok))
            .try_for_each_concurrent(None, |blob| async move {
                let last = AtomicU64::new(0);
                let told = move |now: u64, _: Option<u64>| {
                    // A transfer that begins again goes back: wrapping keeps the sum right.
                    let change = now.wrapping_sub(last.swap(now, Ordering::Relaxed));
                    let sum = done.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
                    progress(sum, Some(total));
                };
                self.fetch_blob(candidates, blob, store, &told).await
            })
            .await
    }
}

/// One image at one registry.
struct Remote<'a> {
    http: &'a HttpClient,
    session: &'a Session,
    reference: Reference,
}

impl Remote<'_> {
    async fn read(&self, reference: &Reference) -> Result<Vec<u8>, TransportError> {
        let clients = self.http.clients();
        let _permit = clients.permit(reference.resolve_registry()).await?;
        retried(&clients.options, || self.session.manifest(reference)).await
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
        self.read(&self.reference.clone_with_digest(descriptor.digest.to_string())).await
    }

    async fn config(&self, descriptor: &Descriptor) -> Result<Vec<u8>, TransportError> {
        let access = Access { session: self.session, reference: &self.reference };
        let source = self.session.blob(&self.reference, &descriptor.digest, &access)?;
        read_small(self.http.clients(), &source, image::CONFIG_LIMIT).await
    }
}

/// The reference of a tag or digest at a candidate; refused when no registry could have it.
pub(super) fn named(candidate: &ImageCandidate, asked: &str) -> Result<Reference, TransportError> {
    let mut repository = candidate.repository.clone();
    // Docker Hub's short names stand in its `library`.
    if matches!(candidate.registry.as_str(), "docker.io" | "index.docker.io") && !repository.contains('/') {
        repository = format!("library/{repository}");
    }
    let is_digest = asked.starts_with("sha256:");
    let join = if is_digest { '@' } else { ':' };
    // Only to learn whether the names are well-formed; a registry name without a dot would be taken for a repository.
    let form = format!("registry.invalid/{repository}{join}{asked}");
    Reference::try_from(form.as_str()).map_err(|e| TransportError::Setting {
        what: format!("image {}/{repository}{join}{asked}", candidate.registry),
        problem: e.to_string(),
    })?;
    let (registry, asked) = (candidate.registry.clone(), asked.to_owned());
    Ok(if is_digest {
        Reference::with_digest(registry, repository, asked)
    } else {
        Reference::with_tag(registry, repository, asked)
    })
}
