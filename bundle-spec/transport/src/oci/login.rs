//! Logins: how a registry wants to be asked, and the token or name that it is then shown.
//!
//! For a push one token is for the repository that is written and for those that blobs are mounted from: a registry mounts
//! only from what the token may read (distribution, "Token Scope"). oci-client asks for one repository at a time, takes a
//! failed login for an anonymous one, and knows no identity tokens.

use async_trait::async_trait;
use base64::Engine;
use http_auth::parser::ChallengeParser;
use oci_distribution::Reference;
use reqwest::header::{self, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;

use super::credentials::Auth;
use super::session::{Challenge, Session, Shown};
use crate::attempt::Attempt;
use crate::schedule::RetryPolicy;
use crate::source::{Authorize, Source, next_chunk};
use crate::{HttpOptions, TransportError};

/// The largest answer of a token service that is read, in bytes.
const TOKEN_LIMIT: usize = 1 << 20;

/// A login for one repository, and to read others.
pub(crate) struct Login<'a> {
    pub options: &'a HttpOptions,
    pub session: &'a Session,
    pub reference: &'a Reference,
    /// `pull`, or `pull,push`.
    pub actions: &'static str,
    /// Repositories that blobs are mounted from.
    pub mount_from: &'a [String],
    pub shown: &'a Shown,
}

#[async_trait]
impl Authorize for Login<'_> {
    async fn authorization(&self, refused: Option<&Option<HeaderValue>>) -> Result<Option<HeaderValue>, Attempt> {
        let known = |shown: &Option<Option<HeaderValue>>| shown.clone().filter(|header| refused != Some(header));
        if let Some(header) = known(&*self.shown.lock().await) {
            return Ok(header);
        }
        // Without the lock: at a registry that does not answer, nobody is to wait for the tries of the others.
        let challenge = self.challenge(refused.is_some()).await?;
        let mut shown = self.shown.lock().await;
        // Of many transfers whose token has run out, the first asks for a new one.
        if let Some(header) = known(&shown) {
            return Ok(header);
        }
        let text = match (challenge, &self.session.auth) {
            (Challenge::Bearer { realm, service }, _) => Some(format!("Bearer {}", self.token(realm, service).await?)),
            (Challenge::Basic, Auth::Basic(user, password)) => Some(basic(user, password)),
            (Challenge::Basic, Auth::IdentityToken(_)) => {
                let reason =
                    "it has no token service, and we have an identity token for it; log in with name and password";
                return Err(self.denied(reason.to_owned()).into());
            }
            _ => None,
        };
        let value = text.map(HeaderValue::try_from).transpose().map_err(|_| {
            self.denied("its token or our credentials hold characters that no header may have".to_owned())
        })?;
        let value = value.map(|mut value| {
            value.set_sensitive(true);
            value
        });
        *shown = Some(value.clone());
        Ok(value)
    }
}

impl Login<'_> {
    fn denied(&self, reason: String) -> TransportError {
        TransportError::Denied { origin: self.reference.resolve_registry().to_owned(), reason }
    }

    /// Asks for `/v2/`, where every registry says how it wants to be asked (distribution-spec, "Determining Support"); once
    /// for all its repositories, unless `anew`.
    async fn challenge(&self, anew: bool) -> Result<Challenge, Attempt> {
        let known = self.session.challenge.lock().await.clone();
        if let Some(challenge) = known.filter(|_| !anew) {
            return Ok(challenge);
        }
        let challenge = self.ask().await?;
        *self.session.challenge.lock().await = Some(challenge.clone());
        Ok(challenge)
    }

    async fn ask(&self) -> Result<Challenge, Attempt> {
        let text = format!("{}://{}/v2/", self.session.scheme, self.reference.resolve_registry());
        let url = Url::parse(&text).map_err(|e| TransportError::Setting {
            what: format!("registry {}", self.reference.resolve_registry()),
            problem: format!("makes no address: {e}"),
        })?;
        let source = Source::new(self.session.reach.clone(), url.clone(), None);
        let host = self.session.clients.schedule.host(&source.host());
        let source = source.known(&self.session.clients, RetryPolicy { once: host.is_down(), others: false });
        let response = source.send(self.options, Method::GET, None).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            if response.status().is_server_error() || response.status() == StatusCode::TOO_MANY_REQUESTS {
                return Err(source.refused(self.options, response.status(), response.headers()));
            }
            return Ok(Challenge::Open);
        }
        let reported = response.headers().get_all(header::WWW_AUTHENTICATE);
        let challenge = reported.iter().filter_map(|value| value.to_str().ok()).find_map(|text| read(text, &url));
        challenge.ok_or_else(|| self.denied("it wants a login of a kind that is not known".to_owned()).into())
    }

    async fn token(&self, realm: Url, service: Option<String>) -> Result<String, Attempt> {
        let scopes = std::iter::once(format!("repository:{}:{}", self.reference.repository(), self.actions))
            .chain(self.mount_from.iter().map(|from| format!("repository:{from}:pull")));
        let request = match &self.session.auth {
            Auth::IdentityToken(token) => {
                let scopes: Vec<String> = scopes.collect();
                let mut form = realm.clone();
                form.query_pairs_mut()
                    .clear()
                    .append_pair("grant_type", "refresh_token")
                    .append_pair("client_id", "kubexm")
                    .append_pair("service", service.as_deref().unwrap_or_default())
                    .append_pair("scope", &scopes.join(" "))
                    .append_pair("refresh_token", token);
                let body = form.query().unwrap_or_default().to_owned();
                // A redirect with 307 or 308 asks for the body again.
                self.session
                    .reach_with_secret
                    .client
                    .post(realm.clone())
                    .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                    .body(body)
            }
            auth => {
                let mut address = realm.clone();
                for scope in scopes {
                    address.query_pairs_mut().append_pair("scope", &scope);
                }
                if let Some(service) = service {
                    address.query_pairs_mut().append_pair("service", &service);
                }
                let request = self.session.reach.client.get(address);
                match auth {
                    Auth::Basic(user, password) => request.basic_auth(user, Some(password)),
                    _ => request,
                }
            }
        };
        let source = Source::new(self.session.reach.clone(), realm, None);
        let response = source.answer(self.options, request.send()).await?;
        match response.status() {
            StatusCode::OK => {}
            // An error of the token service as it is: it may show what it was asked with.
            StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(self.denied(format!("the login failed ({})", response.status())).into());
            }
            status => return Err(source.refused(self.options, status, response.headers())),
        }
        let mut stream = response.bytes_stream();
        let mut body = Vec::new();
        while let Some(chunk) = next_chunk(&source, self.options, &mut stream).await? {
            body.extend_from_slice(&chunk);
            if body.len() > TOKEN_LIMIT {
                break;
            }
        }
        token(&body).ok_or_else(|| self.denied("the login gave no token".to_owned()).into())
    }
}

/// The token in an answer of a token service.
pub(super) fn token(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Token {
        token: Option<String>,
        access_token: Option<String>,
    }
    serde_json::from_slice::<Token>(body).ok().and_then(|all| all.token.or(all.access_token))
}

/// What one `WWW-Authenticate` says (RFC 9110, 11.6.1).
pub(super) fn read(text: &str, asked: &Url) -> Option<Challenge> {
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

pub(super) fn basic(user: &str, password: &str) -> String {
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
