//! One registry: how it is spoken to, and who we are to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use kubexm_spec::Digest;
use oci_distribution::Reference;
use reqwest::Url;
use reqwest::header::HeaderValue;
use tokio::sync::Mutex;

use super::credentials::Auth;
use super::{Credentials, ImageCandidate};
use crate::TransportError;
use crate::clients::{Clients, Reach, Trusts};
use crate::schedule::RetryPolicy;
use crate::source::{Authorize, Source};

/// A registry that was spoken to, with its login.
pub(crate) struct Session {
    pub(super) reach: Reach,
    /// For requests with a secret in their body.
    pub(super) reach_with_secret: Reach,
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
        let trusts = Trusts {
            ca_file: candidate.ca_file.clone(),
            identity: None,
            secret_body: false,
            plain_http: candidate.plain_http,
        };
        Ok(Self {
            reach: clients.get(&trusts)?,
            reach_with_secret: clients.get(&Trusts { secret_body: true, ..trusts })?,
            auth,
            scheme: if candidate.plain_http { "http" } else { "https" },
            challenge: Mutex::default(),
            clients: Arc::clone(clients),
            shown: StdMutex::default(),
        })
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
        retry_policy: RetryPolicy,
    ) -> Result<Source<'a>, TransportError> {
        let url = self.url(reference, &format!("blobs/{digest}"))?;
        let source = Source::new(self.reach.clone(), url, Some(access)).known(&self.clients, retry_policy);
        Ok(source.counted(&self.clients.options))
    }

    pub(super) fn shown(&self, reference: &Reference) -> Arc<Shown> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(shown.entry(reference.repository().to_owned()).or_default())
    }
}

/// What was given last; none before the first login, and nothing in it where the registry is open.
pub(crate) type Shown = Mutex<Option<Option<HeaderValue>>>;

/// How a registry wants to be asked.
#[derive(Clone)]
pub(crate) enum Challenge {
    Open,
    Basic,
    Bearer { realm: Url, service: Option<String> },
}
