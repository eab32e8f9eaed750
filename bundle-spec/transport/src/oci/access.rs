//! Reading of one repository: its login, and its documents.

use async_trait::async_trait;
use kubexm_spec::Digest;
use oci_distribution::Reference;
use reqwest::header::HeaderValue;
use reqwest::{Method, StatusCode, Url};

use super::endpoint::Endpoint;
use super::image;
use super::login::Login;
use super::session::Session;
use crate::TransportError;
use crate::attempt::Attempt;
use crate::retries::retried;
use crate::schedule::RetryPolicy;
use crate::source::{Authorize, Source};

/// The login of one repository, to read it.
pub(crate) struct Access<'a> {
    pub session: &'a Session,
    pub reference: &'a Reference,
}

#[async_trait]
impl Authorize for Access<'_> {
    async fn authorization(&self, refused: Option<&Option<HeaderValue>>) -> Result<Option<HeaderValue>, Attempt> {
        let shown = self.session.shown(self.reference);
        let login = Login {
            options: &self.session.clients.options,
            session: self.session,
            reference: self.reference,
            actions: "pull",
            mount_from: &[],
            shown: &shown,
        };
        login.authorization(refused).await
    }
}

impl Session {
    /// The raw bytes of a manifest or index; none when there is no such thing.
    pub async fn manifest(&self, reference: &Reference, retry_policy: RetryPolicy) -> Result<Vec<u8>, TransportError> {
        let asked = reference.digest().or(reference.tag()).unwrap_or("latest");
        let url = self.url(reference, &format!("manifests/{asked}"))?;
        let accept = image::MANIFEST_TYPES.join(", ");
        let (_, bytes) = self.document(reference, url, Method::GET, &accept, retry_policy).await?;
        Ok(bytes)
    }

    /// A small document (none of it for a HEAD) with the digest that the registry says it has.
    pub async fn document(
        &self,
        reference: &Reference,
        url: Url,
        method: Method,
        accept: &str,
        retry_policy: RetryPolicy,
    ) -> Result<(Option<Digest>, Vec<u8>), TransportError> {
        let access = Access { session: self, reference };
        let options = &self.clients.options;
        let source = Source::new(self.reach.clone(), url.clone(), Some(&access)).known(&self.clients, retry_policy);
        let source = source.counted(options).accepting(accept);
        let endpoint = Endpoint { options, session: self, reference, authorize: &access };
        let (source, endpoint, url, method) = (&source, &endpoint, &url, &method);
        let _permit = self.clients.schedule.permit(&source.host(), Some(0)).await?;
        retried(source.retries(options), || async move {
            let response = source.send(options, method.clone(), None).await?;
            if response.status() != StatusCode::OK {
                return Err(endpoint.refused(url, response).await);
            }
            let reported =
                response.headers().get("docker-content-digest").and_then(|value| value.to_str().ok()?.parse().ok());
            Ok((reported, endpoint.body(url, response, image::MANIFEST_LIMIT).await?))
        })
        .await
    }
}
