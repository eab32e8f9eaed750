//! The login for a push: one token for the repository that is written and for those that blobs are mounted from.
//!
//! oci-client asks for one repository at a time, and a registry mounts only from what the token may read (distribution,
//! "Token Scope"): its token would turn every mount into an upload.

use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use http_auth::parser::ChallengeParser;
use oci_distribution::Reference;
use oci_distribution::secrets::RegistryAuth;
use reqwest::header::{self, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::session::Session;
use crate::TransportError;
use crate::clients::HttpOptions;
use crate::source::{Attempt, Authorize, Source, next_chunk};

/// The largest answer of a token service that is read, in bytes.
const TOKEN_LIMIT: usize = 1 << 20;

/// A login that may write one repository and read others.
pub(crate) struct PushLogin<'a> {
    pub options: &'a HttpOptions,
    pub session: &'a Session,
    pub reference: &'a Reference,
    /// Repositories that blobs are mounted from.
    pub mount_from: &'a [String],
    /// What was given last; none before the first login.
    pub header: &'a Mutex<Option<Option<HeaderValue>>>,
}

/// How a registry wants to be asked.
enum Challenge {
    Open,
    Basic,
    Bearer { realm: Url, service: Option<String> },
}

#[async_trait]
impl Authorize for PushLogin<'_> {
    async fn authorization(&self, fresh: bool) -> Result<Option<HeaderValue>, Attempt> {
        let mut header = self.header.lock().await;
        if let Some(header) = header.as_ref().filter(|_| !fresh) {
            return Ok(header.clone());
        }
        let text = match (self.challenge().await?, &self.session.auth) {
            (Challenge::Bearer { realm, service }, _) => Some(format!("Bearer {}", self.token(realm, service).await?)),
            (Challenge::Basic, RegistryAuth::Basic(user, password)) => Some(basic(user, password)),
            _ => None,
        };
        let value = text.map(HeaderValue::try_from).transpose().map_err(|_| {
            self.denied("its token or our credentials hold characters that no header may have".to_owned())
        })?;
        let value = value.map(|mut value| {
            value.set_sensitive(true);
            value
        });
        *header = Some(value.clone());
        Ok(value)
    }
}

impl PushLogin<'_> {
    fn denied(&self, reason: String) -> TransportError {
        TransportError::Denied { origin: self.reference.resolve_registry().to_owned(), reason }
    }

    /// Asks for `/v2/`, where every registry says how it wants to be asked (distribution-spec, "Determining Support").
    async fn challenge(&self) -> Result<Challenge, Attempt> {
        let text = format!("{}://{}/v2/", self.session.scheme, self.reference.resolve_registry());
        let url = Url::parse(&text).map_err(|e| TransportError::Setting {
            what: format!("registry {}", self.reference.resolve_registry()),
            problem: format!("makes no address: {e}"),
        })?;
        let source = Source::new(self.session.http.clone(), url.clone(), None);
        let response = source.send(self.options, Method::GET, None).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            if response.status().is_server_error() || response.status() == StatusCode::TOO_MANY_REQUESTS {
                return Err(source.refused(response.status(), response.headers()));
            }
            return Ok(Challenge::Open);
        }
        let told = response.headers().get_all(header::WWW_AUTHENTICATE);
        let challenge = told.iter().filter_map(|value| value.to_str().ok()).find_map(|text| read(text, &url));
        challenge.ok_or_else(|| self.denied("it wants a login of a kind that is not known".to_owned()).into())
    }

    async fn token(&self, mut realm: Url, service: Option<String>) -> Result<String, Attempt> {
        let scopes = std::iter::once(format!("repository:{}:pull,push", self.reference.repository()))
            .chain(self.mount_from.iter().map(|from| format!("repository:{from}:pull")));
        for scope in scopes {
            realm.query_pairs_mut().append_pair("scope", &scope);
        }
        if let Some(service) = service {
            realm.query_pairs_mut().append_pair("service", &service);
        }
        let source = Source::new(self.session.http.clone(), realm.clone(), None);
        let mut request = self.session.http.get(realm);
        if let RegistryAuth::Basic(user, password) = &self.session.auth {
            request = request.basic_auth(user, Some(password));
        }
        let waited: Duration = self.options.connect_timeout + self.options.stall_timeout;
        let response = match tokio::time::timeout(waited, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(source.failed(&error)),
            Err(_) => return Err(source.again(format!("no answer for {} s", waited.as_secs()), None)),
        };
        match response.status() {
            StatusCode::OK => {}
            // An error of the token service as it is: it may show what it was asked with.
            StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(self.denied(format!("the login failed ({})", response.status())).into());
            }
            status => return Err(source.refused(status, response.headers())),
        }
        let mut stream = response.bytes_stream();
        let mut body = Vec::new();
        while let Some(chunk) = next_chunk(&source, self.options, &mut stream).await? {
            body.extend_from_slice(&chunk);
            if body.len() > TOKEN_LIMIT {
                break;
            }
        }
        #[derive(Deserialize)]
        struct Token {
            token: Option<String>,
            access_token: Option<String>,
        }
        let token = serde_json::from_slice::<Token>(&body).ok().and_then(|all| all.token.or(all.access_token));
        token.ok_or_else(|| self.denied("the login gave no token".to_owned()).into())
    }
}

/// What one `WWW-Authenticate` says (RFC 9110, 11.6.1).
fn read(text: &str, asked: &Url) -> Option<Challenge> {
    let mut basic = None;
    for challenge in ChallengeParser::new(text).map_while(Result::ok) {
        let value = |name: &str| {
            let found = challenge.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_unescaped())
        };
        if challenge.scheme.eq_ignore_ascii_case("bearer") {
            let realm = asked.join(&value("realm")?).ok()?;
            return Some(Challenge::Bearer { realm, service: value("service") });
        }
        if challenge.scheme.eq_ignore_ascii_case("basic") {
            basic = Some(Challenge::Basic);
        }
    }
    basic
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let asked = Url::parse("https://r.example/v2/").unwrap();
        let bearer = r#"Bearer realm="https://auth.example/token",service="r.example",scope="x""#;
        assert!(matches!(read(bearer, &asked), Some(Challenge::Bearer { realm, service: Some(service) })
            if realm.as_str() == "https://auth.example/token" && service == "r.example"));
        assert!(matches!(read(r#"Basic realm="r""#, &asked), Some(Challenge::Basic)));
        assert!(matches!(read(r#"Basic realm="r", Bearer realm="/token""#, &asked), Some(Challenge::Bearer { .. })));
        assert!(read("Negotiate", &asked).is_none());
    }
}
