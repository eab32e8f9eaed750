//! One registry: its oci-client, which logs in and reads manifests, and the HTTP client that its blobs are fetched with.
//!
//! Blobs do not go through oci-client because a partial pull there is neither digest-checked nor resumed by entity tag,
//! and knows no `Retry-After`; both share the token that oci-client got.

use std::collections::HashMap;

use async_trait::async_trait;
use base64::Engine;
use kubexm_spec::Digest;
use oci_distribution::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_distribution::errors::{DigestError, OciDistributionError, OciErrorCode};
use oci_distribution::secrets::RegistryAuth;
use oci_distribution::{Client, Reference, RegistryOperation};
use reqwest::Url;
use reqwest::header::HeaderValue;
use tokio::sync::Mutex;

use super::image;
use super::{Credentials, ImageCandidate};
use crate::TransportError;
use crate::clients::{Clients, Trusts};
use crate::error::chain;
use crate::source::{Attempt, Authorize, NOT_TLS, NOT_TLS_TEXT, Source};

/// A registry that was spoken to, with its login.
pub(crate) struct Session {
    client: Client,
    pub(super) http: reqwest::Client,
    pub(super) auth: RegistryAuth,
    pub(super) scheme: &'static str,
    /// The `Authorization` header by repository; a token is good for one.
    headers: Mutex<HashMap<String, Option<HeaderValue>>>,
}

impl Session {
    pub async fn open(
        clients: &Clients,
        credentials: &Credentials,
        candidate: &ImageCandidate,
    ) -> Result<Self, TransportError> {
        let (credentials, registry) = (credentials.clone(), candidate.registry.clone());
        let auth = tokio::task::spawn_blocking(move || credentials.of(&registry))
            .await
            .map_err(|e| TransportError::Worker(e.to_string()))??;
        let roots = clients.roots(candidate.ca_file.as_deref())?;
        let certificate = |der: &rustls_pki_types::CertificateDer<'_>| Certificate {
            encoding: CertificateEncoding::Der,
            data: der.to_vec(),
        };
        let config = ClientConfig {
            protocol: if candidate.plain_http { ClientProtocol::Http } else { ClientProtocol::Https },
            extra_root_certificates: roots.iter().map(certificate).collect(),
            platform_resolver: None,
            connect_timeout: Some(clients.options.connect_timeout),
            read_timeout: Some(clients.options.stall_timeout),
            user_agent: concat!("kubexm/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        // Not Client::new: on a config it cannot use it quietly makes a client without the CA.
        let client = Client::try_from(config).map_err(|e| TransportError::Setting {
            what: format!("registry {}", candidate.registry),
            problem: chain(&e),
        })?;
        let trusts = Trusts { ca_file: candidate.ca_file.clone(), plain_http: candidate.plain_http };
        let scheme = if candidate.plain_http { "http" } else { "https" };
        Ok(Self { client, http: clients.get(&trusts)?, auth, scheme, headers: Mutex::default() })
    }

    /// The raw bytes of a manifest or index.
    pub async fn manifest(&self, reference: &Reference) -> Result<Vec<u8>, Attempt> {
        let mut fresh = false;
        loop {
            // Logging in is done here and not left to oci-client, which takes a failed login for an anonymous one.
            self.header(reference, fresh).await?;
            match self.client.pull_manifest_raw(reference, &self.auth, &image::MANIFEST_TYPES).await {
                Ok((bytes, _)) if bytes.len() as u64 > image::MANIFEST_LIMIT => {
                    let problem = format!("its manifest has {} bytes, more than a manifest may have", bytes.len());
                    return Err(TransportError::Image { reference: reference.whole(), problem }.into());
                }
                Ok((bytes, _)) => return Ok(bytes.to_vec()),
                // A token that has run out.
                Err(OciDistributionError::UnauthorizedError { .. }) if !fresh => fresh = true,
                Err(error) => return Err(meaning(&reference.whole(), error)),
            }
        }
    }

    /// Where a blob of a repository is fetched from. `access` logs in.
    pub fn blob<'a>(
        &self,
        reference: &Reference,
        digest: &Digest,
        access: &'a dyn Authorize,
    ) -> Result<Source<'a>, TransportError> {
        let registry = reference.resolve_registry();
        let text = format!("{}://{registry}/v2/{}/blobs/{digest}", self.scheme, reference.repository());
        let url = Url::parse(&text).map_err(|e| TransportError::Setting {
            what: format!("registry {registry}"),
            problem: format!("makes no address: {e}"),
        })?;
        Ok(Source::new(self.http.clone(), url, Some(access)))
    }

    async fn header(&self, reference: &Reference, fresh: bool) -> Result<Option<HeaderValue>, Attempt> {
        let mut headers = self.headers.lock().await;
        if !fresh && let Some(header) = headers.get(reference.repository()) {
            return Ok(header.clone());
        }
        let registry = reference.resolve_registry();
        let token = self.client.auth(reference, &self.auth, RegistryOperation::Pull).await;
        let text = match (token.map_err(|error| meaning(registry, error))?, &self.auth) {
            (Some(token), _) => Some(format!("Bearer {token}")),
            (None, RegistryAuth::Basic(user, password)) => {
                let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
                Some(format!("Basic {pair}"))
            }
            (None, _) => None,
        };
        let header = match text.map(HeaderValue::try_from).transpose() {
            Ok(header) => header,
            Err(_) => {
                let reason = "its token or our credentials hold characters that no header may have".to_owned();
                return Err(TransportError::Denied { origin: registry.to_owned(), reason }.into());
            }
        };
        let header = header.map(|mut value| {
            value.set_sensitive(true);
            value
        });
        headers.insert(reference.repository().to_owned(), header.clone());
        Ok(header)
    }
}

/// The login of one repository.
pub(crate) struct Access<'a> {
    pub session: &'a Session,
    pub reference: &'a Reference,
}

#[async_trait]
impl Authorize for Access<'_> {
    async fn authorization(&self, fresh: bool) -> Result<Option<HeaderValue>, Attempt> {
        self.session.header(self.reference, fresh).await
    }
}

/// What an error of oci-client means.
fn meaning(origin: &str, error: OciDistributionError) -> Attempt {
    let origin = origin.to_owned();
    let down = |reason: String| TransportError::Down { origin: origin.clone(), reason };
    let again = |reason: String| Attempt::Again { error: down(reason), after: None };
    Attempt::Fatal(match error {
        OciDistributionError::UnauthorizedError { .. } => {
            TransportError::Denied { origin, reason: "401 Unauthorized".to_owned() }
        }
        OciDistributionError::AuthenticationFailure(reason) => {
            TransportError::Denied { origin, reason: format!("the login failed ({})", short(&reason)) }
        }
        OciDistributionError::RegistryTokenDecodeError(reason) => {
            TransportError::Denied { origin, reason: format!("the login gave no token ({})", short(&reason)) }
        }
        OciDistributionError::RegistryError { envelope, .. } => {
            let reason = short(&envelope.to_string());
            match envelope.errors.first().map(|error| &error.code) {
                Some(
                    OciErrorCode::ManifestUnknown
                    | OciErrorCode::NameUnknown
                    | OciErrorCode::NotFound
                    | OciErrorCode::ManifestBlobUnknown
                    | OciErrorCode::BlobUnknown,
                ) => TransportError::Missing { origin, reason },
                Some(OciErrorCode::Unauthorized | OciErrorCode::Denied) => TransportError::Denied { origin, reason },
                Some(OciErrorCode::Toomanyrequests) => return again(reason),
                _ => down(reason),
            }
        }
        OciDistributionError::ServerError { code, message, .. } => {
            let reason = format!("status {code} {}", short(&message));
            match code {
                404 | 410 => TransportError::Missing { origin, reason },
                403 => TransportError::Denied { origin, reason },
                408 | 429 | 500.. => return again(reason),
                _ => down(reason),
            }
        }
        OciDistributionError::DigestError(DigestError::VerificationError { expected, actual }) => {
            match (expected.parse(), actual.parse()) {
                (Ok(expected), Ok(found)) => TransportError::Mismatch { origin, expected, found },
                _ => TransportError::Image { reference: origin, problem: format!("wanted {expected}, found {actual}") },
            }
        }
        OciDistributionError::RequestError(error) => {
            let reason = chain(&error.without_url());
            if reason.contains(NOT_TLS) {
                down(NOT_TLS_TEXT.to_owned())
            } else if reason.contains("invalid peer certificate") {
                down(format!("{reason}; give its CA (caFile), if it is meant to have one of its own"))
            } else {
                return again(reason);
            }
        }
        other => TransportError::Image { reference: origin, problem: short(&chain(&other)) },
    })
}

/// One line of a body that came with an error.
pub(crate) fn short(text: &str) -> String {
    // Control characters of a registry are none of our terminal's business.
    let printable: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    printable.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect()
}
