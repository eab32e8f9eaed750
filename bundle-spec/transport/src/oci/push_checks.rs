//! What is asked of a registry before anything is pushed to it: whether it is one, what a tag names, whether these
//! credentials may write.

use kubexm_spec::Digest;
use reqwest::header::{self, HeaderName};
use reqwest::{Method, Response, StatusCode, Url};

use super::endpoint::Request;
use super::image;
use super::push::Repository;
use crate::TransportError;
use crate::attempt::Attempt;
use crate::retries::{Retries, retried};

const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

impl Repository {
    /// Whether a registry answers there, and takes our login (distribution-spec, "Determining Support"). A page for people is
    /// none.
    pub async fn check_api(&self) -> Result<(), TransportError> {
        let login = self.login();
        let endpoint = self.endpoint(&login);
        let url = endpoint.url("")?.join("/v2/").map_err(|e| TransportError::Setting {
            what: format!("registry {}", self.reference.resolve_registry()),
            problem: format!("makes no address: {e}"),
        })?;
        let request = Request::new(Method::GET, url.clone());
        let (endpoint, request, url) = (&endpoint, &request, &url);
        retried(Retries::new(endpoint.options), || async move {
            let response = endpoint.send(request, &|_| {}).await?;
            page(endpoint.source(url).origin(), &response)?;
            match response.status() {
                status if status.is_success() => Ok(()),
                _ => Err(endpoint.refused(url, response).await),
            }
        })
        .await
    }

    /// The digest of what a tag or digest names; none when there is no such thing.
    pub async fn find(&self, reference: &str) -> Result<Option<Digest>, TransportError> {
        let login = self.login();
        let endpoint = self.endpoint(&login);
        let url = self.manifest_url(&endpoint, reference)?;
        let accept = image::MANIFEST_TYPES.join(", ");
        let request = Request::new(Method::HEAD, url.clone()).header(header::ACCEPT, &accept)?;
        let in_words = Request::new(Method::GET, url.clone()).header(header::ACCEPT, &accept)?;
        let (endpoint, request, in_words, url) = (&endpoint, &request, &in_words, &url);
        let found = retried(Retries::new(endpoint.options), || async move {
            let response = endpoint.send(request, &|_| {}).await?;
            page(endpoint.source(url).origin(), &response)?;
            match response.status() {
                status if status.is_success() => Ok(Some(reported(&response))),
                StatusCode::NOT_FOUND => Ok(None),
                // To HEAD nobody says why, and Harbor answers so for a project that is not there, too.
                StatusCode::UNAUTHORIZED => {
                    let response = endpoint.send(in_words, &|_| {}).await?;
                    match response.status() {
                        status if status.is_success() => Ok(Some(reported(&response))),
                        StatusCode::NOT_FOUND => Ok(None),
                        _ => Err(endpoint.refused(url, response).await),
                    }
                }
                _ => Err(endpoint.refused(url, response).await),
            }
        });
        match found.await? {
            None => Ok(None),
            Some(Some(digest)) => Ok(Some(digest)),
            // The header is not required of a registry.
            Some(None) => Ok(self.manifest(reference).await?.map(|raw| raw.descriptor.digest)),
        }
    }

    /// Whether the repository has a blob.
    pub async fn has_blob(&self, digest: &Digest) -> Result<bool, TransportError> {
        let login = self.login();
        let endpoint = self.endpoint(&login);
        let url = endpoint.url(&format!("blobs/{digest}"))?;
        let request = Request::new(Method::HEAD, url.clone());
        let (endpoint, request, url) = (&endpoint, &request, &url);
        retried(Retries::new(endpoint.options), || async move {
            let response = endpoint.send(request, &|_| {}).await?;
            match response.status() {
                status if status.is_success() => Ok(true),
                StatusCode::NOT_FOUND => Ok(false),
                _ => Err(endpoint.refused(url, response).await),
            }
        })
        .await
    }

    /// Asks whether these credentials may push: opens an upload, and cancels it.
    pub async fn check_push(&self) -> Result<(), TransportError> {
        let login = self.login();
        let endpoint = self.endpoint(&login);
        let url = endpoint.url("blobs/uploads/")?;
        let request = Request::new(Method::POST, url.clone());
        let (endpoint, request, url) = (&endpoint, &request, &url);
        let opened: Option<Url> = retried(Retries::new(endpoint.options), || async move {
            let response = endpoint.send(request, &|_| {}).await?;
            page(endpoint.source(url).origin(), &response)?;
            match response.status() {
                StatusCode::ACCEPTED => {
                    let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
                    Ok(location.and_then(|location| url.join(location).ok()))
                }
                _ => Err(endpoint.refused(url, response).await),
            }
        })
        .await?;
        if let Some(opened) = opened {
            // Registries drop open uploads by themselves: whether this one is dropped at once does not matter.
            let _ = endpoint.send(&Request::new(Method::DELETE, opened), &|_| {}).await;
        }
        Ok(())
    }
}

fn reported(response: &Response) -> Option<Digest> {
    response.headers().get(DIGEST).and_then(|value| value.to_str().ok()?.parse().ok())
}

/// A page for people, with a status that means something to programs.
fn page(origin: String, response: &Response) -> Result<(), Attempt> {
    let reported =
        response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if response.status().is_success() && reported.trim_start().to_ascii_lowercase().starts_with("text/html") {
        let found = "a page (text/html)".to_owned();
        return Err(TransportError::NotTheFile { origin, found }.into());
    }
    Ok(())
}
