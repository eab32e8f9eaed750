//! Pushing to a registry, and reading back what is no image: blobs, manifests of any kind, referrers.

use std::sync::Arc;

use bytes::Bytes;
use kubexm_spec::Digest;
use kubexm_spec::lock::Descriptor;
use kubexm_spec::reference::is_tag;
use oci_distribution::Reference;
use reqwest::header::{self, HeaderName};
use reqwest::{Method, StatusCode, Url};
use tokio::sync::Mutex;

use super::access::Access;
use super::client::named;
use super::content::{Content, Outcome};
use super::endpoint::{Endpoint, Request};
use super::login::Login;
use super::open_uploads::{CHUNK, PushOptions};
use super::pace::Pace;
use super::push_upload::Upload;
use super::referrers::{self, Referrers, referrers_tag};
use super::session::Session;
use super::{ImageCandidate, OciRegistry, RawManifest, image};
use crate::attempt::Attempt;
use crate::retries::{Retries, retried};
use crate::source::Authorize;
use crate::{Progress, TransportError};

const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
const SUBJECT: HeaderName = HeaderName::from_static("oci-subject");

/// What a registry made of a pushed manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedManifest {
    /// Of the manifest.
    pub digest: Digest,
    /// Whether it keeps the list of referrers itself (`OCI-Subject`). If not, and the manifest has a subject, whoever
    /// pushes keeps it under the tag of the referrers tag schema.
    pub keeps_referrers: bool,
}

/// What a registry answered.
struct Document {
    media_type: String,
    /// Where it continues.
    link: Option<String>,
    bytes: Vec<u8>,
}

/// A repository that is pushed to or read from; one login for all its requests.
pub struct Repository {
    pub(super) registry: OciRegistry,
    pub(super) session: Arc<Session>,
    pub(super) reference: Reference,
    mount_from: Vec<String>,
    pace: Pace,
    /// Shared by all requests, so that one login serves them all.
    login: Mutex<Option<Option<header::HeaderValue>>>,
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repository").field("reference", &self.reference.whole()).finish_non_exhaustive()
    }
}

impl OciRegistry {
    /// A repository to push to. Blobs that it lacks are taken from those of `mount_from` (at the same registry) where
    /// they have them.
    pub async fn repository(&self, at: &ImageCandidate, mount_from: &[String]) -> Result<Repository, TransportError> {
        for from in mount_from {
            named(&ImageCandidate { repository: from.clone(), ..at.clone() }, "latest")?;
        }
        Ok(Repository {
            registry: self.clone(),
            session: self.session(at).await?,
            reference: named(at, "latest")?,
            mount_from: mount_from.to_vec(),
            pace: Pace::starting(CHUNK),
            login: Mutex::default(),
        })
    }
}

impl Repository {
    /// `registry/repository`, for people.
    pub fn place(&self) -> String {
        format!("{}/{}", self.reference.registry(), self.reference.repository())
    }

    /// Sends a blob that the repository does not have. `progress` gets bytes of it, and its size; the count goes back
    /// where a session was lost.
    pub async fn push_blob(
        &self,
        blob: (Digest, u64),
        content: Arc<dyn Content>,
        progress: &Progress<'_>,
    ) -> Result<Outcome, TransportError> {
        let options = PushOptions { mount_from: &self.mount_from, pace: Some(&self.pace), ..PushOptions::default() };
        self.push_blob_with(blob, content, options, progress).await
    }

    /// The same in another way. A login is for the repositories that this one was made with ([`OciRegistry::repository`]): blobs
    /// are mounted from those.
    pub async fn push_blob_with(
        &self,
        blob: (Digest, u64),
        content: Arc<dyn Content>,
        options: PushOptions<'_>,
        progress: &Progress<'_>,
    ) -> Result<Outcome, TransportError> {
        let schedule = &self.registry.http.clients().schedule;
        let _permit = schedule.permit(self.reference.resolve_registry(), Some(blob.1)).await?;
        let login = self.login();
        let endpoint = self.endpoint(&login);
        let sent = |bytes| progress(bytes, Some(blob.1));
        let outcome = Upload::new(&endpoint, blob, content, options, &sent).run().await;
        let outcome = outcome?;
        // What was there, or was mounted, was not sent.
        if outcome == Outcome::Sent {
            progress(blob.1, Some(blob.1));
        }
        Ok(outcome)
    }

    /// Puts a manifest under a tag, or under its own digest. Every blob it names must be there.
    pub async fn push_manifest(
        &self,
        reference: &str,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<PushedManifest, TransportError> {
        let login = self.login();
        let endpoint = self.endpoint(&login);
        let url = self.manifest_url(&endpoint, reference)?;
        let body = Bytes::copy_from_slice(bytes);
        let request = Request::new(Method::PUT, url.clone()).header(header::CONTENT_TYPE, media_type)?.body(body);
        let (endpoint, request, url) = (&endpoint, &request, &url);
        let response = retried(Retries::new(endpoint.options), || async move {
            let response = endpoint.send(request, &|_| {}).await?;
            if response.status() == StatusCode::CREATED || response.status() == StatusCode::OK {
                return Ok(response);
            }
            Err(endpoint.refused(url, response).await)
        })
        .await?;
        let expected = Digest::of(bytes);
        let reported = response.headers().get(DIGEST).and_then(|value| value.to_str().ok()?.parse().ok());
        if let Some(found) = reported.filter(|found| *found != expected) {
            return Err(TransportError::Mismatch { origin: endpoint.place(), expected, found });
        }
        Ok(PushedManifest { digest: expected, keeps_referrers: response.headers().contains_key(SUBJECT) })
    }

    /// The manifest or index of a tag or digest; none when there is none. A digest binds what comes.
    pub async fn manifest(&self, reference: &str) -> Result<Option<RawManifest>, TransportError> {
        let access = Access { session: &self.session, reference: &self.reference };
        let endpoint = self.endpoint(&access);
        let url = self.manifest_url(&endpoint, reference)?;
        let accept = [image::MANIFEST_TYPES[2], image::MANIFEST_TYPES[0]].join(", ");
        let Some(document) = self.document(&endpoint, &url, &accept).await? else { return Ok(None) };
        let Document { media_type, bytes, .. } = document;
        let digest = Digest::of(&bytes);
        if let Some(expected) = reference.parse().ok().filter(|expected| *expected != digest) {
            return Err(TransportError::Mismatch { origin: endpoint.place(), expected, found: digest });
        }
        let descriptor = Descriptor { media_type, digest, size: bytes.len() as u64 };
        Ok(Some(RawManifest { descriptor, bytes }))
    }

    /// What refers to a manifest, of one artifact type (all when empty) where the registry tells them apart: its own list, page by page, else
    /// the one under the tag that the referrers tag schema names; an empty list when there is neither.
    pub async fn referrers(&self, subject: &Digest, artifact_type: &str) -> Result<Referrers, TransportError> {
        let access = Access { session: &self.session, reference: &self.reference };
        let endpoint = self.endpoint(&access);
        let mut url = endpoint.url(&format!("referrers/{subject}"))?;
        if !artifact_type.is_empty() {
            url.query_pairs_mut().append_pair("artifactType", artifact_type);
        }
        let (mut next, mut pages, mut bytes) = (Some(url), Vec::new(), 0);
        while let Some(url) = next.take_if(|_| pages.len() < referrers::PAGES && bytes < referrers::BYTES) {
            let Some(page) = self.document(&endpoint, &url, image::MANIFEST_TYPES[0]).await? else { break };
            next = page.link.and_then(|link| referrers::next_page(&url, &link));
            bytes += page.bytes.len();
            pages.push(page.bytes);
        }
        if !pages.is_empty() {
            return Ok(Referrers { pages, whole: next.is_none(), ordered: false });
        }
        let tag = self.manifest(&referrers_tag(subject)).await?;
        Ok(Referrers { pages: tag.into_iter().map(|raw| raw.bytes).collect(), whole: true, ordered: true })
    }

    /// The address of a manifest by its tag or digest. Anything else could lead out of the repository with this login, as `../`
    /// does.
    pub(super) fn manifest_url(&self, endpoint: &Endpoint<'_>, reference: &str) -> Result<Url, TransportError> {
        if is_tag(reference) || reference.parse::<Digest>().is_ok() {
            return endpoint.url(&format!("manifests/{reference}"));
        }
        let problem = format!("{reference:?} is neither a tag nor a digest");
        Err(TransportError::Setting { what: self.place(), problem })
    }

    /// A small document; none when the registry has no such thing.
    async fn document(
        &self,
        endpoint: &Endpoint<'_>,
        url: &Url,
        accept: &str,
    ) -> Result<Option<Document>, TransportError> {
        let request = Request::new(Method::GET, url.clone()).header(header::ACCEPT, accept)?;
        let request = &request;
        retried(Retries::new(endpoint.options), || async move {
            let response = endpoint.send(request, &|_| {}).await?;
            if !response.status().is_success() {
                return match endpoint.refused(url, response).await {
                    Attempt::Fatal(TransportError::Missing { .. }) => Ok(None),
                    other => Err(other),
                };
            }
            let reported = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let media_type = reported.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_owned();
            let link = response.headers().get(header::LINK).and_then(|value| value.to_str().ok()).map(str::to_owned);
            let bytes = endpoint.body(url, response, image::MANIFEST_LIMIT).await?;
            Ok(Some(Document { media_type, link, bytes }))
        })
        .await
    }

    pub(super) fn login(&self) -> Login<'_> {
        Login {
            options: &self.registry.http.clients().options,
            session: &self.session,
            reference: &self.reference,
            actions: "pull,push",
            mount_from: &self.mount_from,
            shown: &self.login,
        }
    }

    pub(super) fn endpoint<'a>(&'a self, authorize: &'a dyn Authorize) -> Endpoint<'a> {
        Endpoint {
            options: &self.registry.http.clients().options,
            session: &self.session,
            reference: &self.reference,
            authorize,
        }
    }
}
