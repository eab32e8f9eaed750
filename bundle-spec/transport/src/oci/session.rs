//! One registry: how it is spoken to, and who we are to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use async_trait::async_trait;
use kubexm_spec::Digest;
use oci_distribution::Reference;
use reqwest::header::HeaderValue;
use reqwest::{Method, StatusCode, Url};
use tokio::sync::Mutex;

use super::credentials::Auth;
use super::endpoint::Endpoint;
use super::image;
use super::login::{Challenge, Login, Shown};
use super::{Credentials, ImageCandidate};
use crate::TransportError;
use crate::clients::{Clients, Reach, Trusts};
use crate::retries::retried;
use crate::schedule::Chance;
use crate::source::{Attempt, Authorize, Source};

/// A registry that was spoken to, with its login.
pub(crate) struct Session {
    pub(super) reach: Reach,
    pub(super) auth: Auth,
    pub(super) scheme: &'static str,
    pub(super) challenge: Mutex<Option<Challenge>>,
    pub(super) clients: Arc<Clients>,
    /// What is shown, by repository: a token is good for one.
    shown: StdMutex<HashMap<String, Arc<Shown>>>,
}

impl Session {
    pub async fn open(
        clients: &Arc<Clients>,
        credentials: &Credentials,
        candidate: &ImageCandidate,
        scope: &str,
    ) -> Result<Self, TransportError> {
        let (credentials, registry, scope) = (credentials.clone(), candidate.registry.clone(), scope.to_owned());
        let auth = tokio::task::spawn_blocking(move || credentials.of(&registry, &scope))
            .await
            .map_err(|e| TransportError::Worker(e.to_string()))??;
        let trusts = Trusts { ca_file: candidate.ca_file.clone(), identity: None, plain_http: candidate.plain_http };
        Ok(Self {
            reach: clients.get(&trusts)?,
            auth,
            scheme: if candidate.plain_http { "http" } else { "https" },
            challenge: Mutex::default(),
            clients: Arc::clone(clients),
            shown: StdMutex::default(),
        })
    }

    /// The raw bytes of a manifest or index; none when there is no such thing.
    pub async fn manifest(&self, reference: &Reference, chance: Chance) -> Result<Vec<u8>, TransportError> {
        let asked = reference.digest().or(reference.tag()).unwrap_or("latest");
        let url = self.url(reference, &format!("manifests/{asked}"))?;
        let accept = image::MANIFEST_TYPES.join(", ");
        let (_, bytes) = self.document(reference, url, Method::GET, &accept, chance).await?;
        Ok(bytes)
    }

    /// A small document (none of it for a HEAD) with the digest that the registry says it has.
    pub async fn document(
        &self,
        reference: &Reference,
        url: Url,
        method: Method,
        accept: &str,
        chance: Chance,
    ) -> Result<(Option<Digest>, Vec<u8>), TransportError> {
        let access = Access { session: self, reference };
        let options = &self.clients.options;
        let source = Source::new(self.reach.clone(), url.clone(), Some(&access)).known(&self.clients, chance);
        let source = source.counted(options).accepting(accept);
        let endpoint = Endpoint { options, session: self, reference, authorize: &access };
        let (source, endpoint, url, method) = (&source, &endpoint, &url, &method);
        let _permit = self.clients.schedule.permit(&source.host(), Some(0)).await?;
        retried(source.retries(options), || async move {
            let response = source.send(options, method.clone(), None).await?;
            if response.status() != StatusCode::OK {
                return Err(endpoint.refused(url, response).await);
            }
            let told =
                response.headers().get("docker-content-digest").and_then(|value| value.to_str().ok()?.parse().ok());
            Ok((told, endpoint.body(url, response, image::MANIFEST_LIMIT).await?))
        })
        .await
    }

    /// The address of `/v2/<repository>/<path>`.
    pub fn url(&self, reference: &Reference, path: &str) -> Result<Url, TransportError> {
        let registry = reference.resolve_registry();
        let text = format!("{}://{registry}/v2/{}/{path}", self.scheme, reference.repository());
        Url::parse(&text).map_err(|e| TransportError::Setting {
            what: format!("registry {registry}"),
            problem: format!("makes no address: {e}"),
        })
    }

    /// Where a blob of a repository is fetched from. `access` logs in.
    pub fn blob<'a>(
        &self,
        reference: &Reference,
        digest: &Digest,
        access: &'a dyn Authorize,
        chance: Chance,
    ) -> Result<Source<'a>, TransportError> {
        let url = self.url(reference, &format!("blobs/{digest}"))?;
        let source = Source::new(self.reach.clone(), url, Some(access)).known(&self.clients, chance);
        Ok(source.counted(&self.clients.options))
    }

    fn shown(&self, reference: &Reference) -> Arc<Shown> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(shown.entry(reference.repository().to_owned()).or_default())
    }
}

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

/// One line of a body that came with an error.
pub(crate) fn short(text: &str) -> String {
    // Control characters of a registry are none of our terminal's business.
    let printable: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    printable.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect()
}
