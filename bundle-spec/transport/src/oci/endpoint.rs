//! One repository at one registry, spoken to request by request (distribution-spec 1.1, "Endpoints").
//!
//! oci-client 0.18 is not used here: it exposes neither the `Location` of an upload, so that a broken one cannot be
//! resumed
//! , nor `OCI-Subject`; it sends no second scope for a mount; takes a mount that became an upload for an error; knows
//! no `Retry-After`; reads a manifest of any length; and panics when a registry answers a manifest without a `Location`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use oci_distribution::Reference;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Deserialize;

use super::body::Body;
use super::session::Session;
use crate::attempt::Attempt;
use crate::source::{Authorize, Source, next_chunk};
use crate::watch::seconds;
use crate::{HttpOptions, TransportError};

/// How often progress is reported and a stall is looked for.
const TICK: Duration = Duration::from_millis(100);
/// The most of an error's body that is read.
const ERROR_LIMIT: usize = 16 << 10;
/// Bytes a second that a registry takes at least when it checks and stores what it was sent.
const SETTLED_PER_SECOND: u64 = 8 << 20;

/// A repository and how to log in to it.
pub(crate) struct Endpoint<'a> {
    pub options: &'a HttpOptions,
    pub session: &'a Session,
    pub reference: &'a Reference,
    pub authorize: &'a dyn Authorize,
}

/// A request of the distribution API.
pub(crate) struct Request {
    pub method: Method,
    pub url: Url,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Body,
    /// Bytes that the registry has to check and store before it answers, besides the body.
    pub settles: u64,
}

impl Request {
    pub fn new(method: Method, url: Url) -> Self {
        Self { method, url, headers: Vec::new(), body: Bytes::new().into(), settles: 0 }
    }

    /// Adds a header whose value this program made.
    pub fn header(mut self, name: HeaderName, value: &str) -> Result<Self, TransportError> {
        let value = HeaderValue::from_str(value).map_err(|_| TransportError::Setting {
            what: format!("header {name}"),
            problem: "its value holds characters that no header may have".to_owned(),
        })?;
        self.headers.push((name, value));
        Ok(self)
    }

    pub fn body(self, body: impl Into<Body>) -> Self {
        Self { body: body.into(), ..self }
    }
}

impl Endpoint<'_> {
    /// `registry/repository`, for people.
    pub fn place(&self) -> String {
        format!("{}/{}", self.reference.registry(), self.reference.repository())
    }

    /// The address of `/v2/<repository>/<path>`.
    pub fn url(&self, path: &str) -> Result<Url, TransportError> {
        self.session.url(self.reference, path)
    }

    /// Sends a request and waits for the head of its answer, whatever its status; logs in again once when it is refused.
    /// `sent` gets the bytes of the body that have left.
    pub async fn send(&self, request: &Request, sent: &(dyn Fn(u64) + Send + Sync)) -> Result<Response, Attempt> {
        // Credentials of the registry are not shown to a store that it sends uploads to.
        let ours = request.url.origin() == self.url("")?.origin();
        let mut refused = None;
        loop {
            let authorization = if ours { self.authorize.authorization(refused.as_ref()).await? } else { None };
            let response = self.send_once(request, authorization.clone(), sent).await?;
            if response.status() == StatusCode::UNAUTHORIZED && ours && refused.is_none() {
                refused = Some(authorization);
                continue;
            }
            return Ok(response);
        }
    }

    /// The same with this login, once.
    pub(super) async fn send_once(
        &self,
        request: &Request,
        authorization: Option<HeaderValue>,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Response, Attempt> {
        let source = self.source(&request.url);
        let mut headers = HeaderMap::new();
        // An encoded body would have another digest.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.extend(request.headers.iter().cloned());
        headers.extend(authorization.map(|value| (header::AUTHORIZATION, value)));
        let left = Arc::new(AtomicU64::new(0));
        let mut builder =
            self.session.reach.client.request(request.method.clone(), request.url.clone()).headers(headers);
        if request.method != Method::GET && request.method != Method::HEAD {
            builder = builder.header(header::CONTENT_LENGTH, request.body.len());
            if request.body.len() > 0 {
                builder = builder.body(request.body.stream(&left));
            }
        }
        let answer = builder.send();
        tokio::pin!(answer);
        let length = request.body.len();
        let patience = self.options.connect_timeout + self.options.stall_timeout;
        let settling = patience + Duration::from_secs((length + request.settles) / SETTLED_PER_SECOND);
        let (mut seen, mut since, mut reported) = (0, tokio::time::Instant::now(), false);
        loop {
            match tokio::time::timeout(TICK, &mut answer).await {
                Ok(Ok(response)) => {
                    sent(length);
                    return Ok(response);
                }
                Ok(Err(error)) => {
                    return Err(match request.body.failure() {
                        Some(unreadable) => unreadable.into(),
                        None => source.failed_to_send(&error, patience).await,
                    });
                }
                Err(_) => {}
            }
            let now = left.load(Ordering::Relaxed);
            if now != seen || request.body.waits() {
                (seen, since, reported) = (now, tokio::time::Instant::now(), false);
                sent(seen);
            }
            let limit = if seen < length { patience } else { settling };
            let what = if seen < length { "takes no bytes" } else { "no answer" };
            if since.elapsed() > limit {
                return Err(source.silent(format!("{what} for {}", seconds(limit))));
            }
            if !reported && since.elapsed() >= self.options.notice_after {
                reported = true;
                let reason = format!("{what} for {}", seconds(self.options.notice_after));
                source.tell(self.options, reason, limit.saturating_sub(self.options.notice_after));
            }
        }
    }

    /// The address with what its answers mean.
    pub fn source(&self, url: &Url) -> Source<'static> {
        Source::new(self.session.reach.clone(), url.clone(), None)
    }

    /// What an answer means that is not the wanted one; reads what the registry says about it.
    pub async fn refused(&self, url: &Url, response: Response) -> Attempt {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = self.error_body(url, response).await;
        let said = |reason: &mut String| {
            if let Some(said) = message(&body) {
                *reason = format!("{reason}: {said}");
            }
        };
        let mut attempt = self.source(url).refused(self.options, status, &headers);
        let reported = message(&body).unwrap_or_default();
        if is_full(status, &reported) {
            let reason = if reported.is_empty() { status.to_string() } else { format!("{status}: {reported}") };
            return TransportError::NoRoom { origin: self.source(url).origin(), reason }.into();
        }
        if lacks_project(status, &reported) {
            let reason = format!("{status}: {reported}");
            return TransportError::Missing { origin: self.source(url).origin(), reason }.into();
        }
        match &mut attempt {
            Attempt::Again { error, .. } | Attempt::Fatal(error) => match error {
                TransportError::Down { reason, .. }
                | TransportError::Unusable { reason, .. }
                | TransportError::Missing { reason, .. }
                | TransportError::Denied { reason, .. } => said(reason),
                _ => {}
            },
        }
        attempt
    }

    async fn error_body(&self, url: &Url, response: Response) -> Vec<u8> {
        let source = self.source(url);
        let mut stream = response.bytes_stream();
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = next_chunk(&source, self.options, &mut stream).await {
            body.extend_from_slice(&chunk);
            if body.len() > ERROR_LIMIT {
                body.truncate(ERROR_LIMIT);
                break;
            }
        }
        body
    }

    /// A body of at most `limit` bytes.
    pub async fn body(&self, url: &Url, response: Response, limit: u64) -> Result<Vec<u8>, Attempt> {
        let source = self.source(url);
        let mut stream = response.bytes_stream();
        let mut body = Vec::new();
        while let Some(chunk) = next_chunk(&source, self.options, &mut stream).await? {
            if (body.len() + chunk.len()) as u64 > limit {
                let found = format!("more than {limit} bytes");
                return Err(TransportError::NotTheFile { origin: source.origin(), found }.into());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Code and message of the first error in a body (distribution-spec, "Error Codes").
pub(super) fn message(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<Reported>,
    }
    #[derive(Deserialize)]
    struct Reported {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let errors: Errors = serde_json::from_slice(body).ok()?;
    let first = errors.errors.first()?;
    Some(short(&format!("{} {}", first.code, first.message)))
}

/// Whether a registry refuses for lack of room: of its disk, or of a quota (Harbor answers 403 or 412 then). Words decide only where the
/// status alone does not: "quota" in an answer to too many requests, or in the name of an image that is not there, is not about room.
fn is_full(status: StatusCode, reported: &str) -> bool {
    let reported = reported.to_ascii_lowercase();
    let unclear = status.is_server_error()
        || matches!(status, StatusCode::FORBIDDEN | StatusCode::PRECONDITION_FAILED | StatusCode::PAYLOAD_TOO_LARGE);
    let words = ["quota", "no space left", "storage resource", "storage limit"];
    status == StatusCode::INSUFFICIENT_STORAGE || unclear && words.iter().any(|word| reported.contains(word))
}

/// Whether it has no such project. Harbor answers 401 then, with `project NAME not found`, to whomever it is (goharbor/harbor,
/// server/middleware/v2auth).
fn lacks_project(status: StatusCode, reported: &str) -> bool {
    let reported = reported.to_ascii_lowercase();
    status == StatusCode::UNAUTHORIZED && reported.contains("unauthorized project ") && reported.contains(" not found")
}

/// One line of a body that came with an error.
pub(crate) fn short(text: &str) -> String {
    // What a registry says may not write to the terminal, nor turn other text around.
    kubexm_spec::printable(text)
        .replace('\u{fffd}', " ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(200)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_about_room_count_only_where_the_status_can_mean_it() {
        for status in [403, 412, 413, 500, 503, 507] {
            assert!(
                is_full(StatusCode::from_u16(status).unwrap(), "DENIED will exceed the configured Storage Quota"),
                "{status}"
            );
        }
        assert!(is_full(StatusCode::INSUFFICIENT_STORAGE, ""));
        for (status, reported) in [
            (429, "TOOMANYREQUESTS Quota exceeded for quota metric 'Requests'"),
            (404, "NOT_FOUND artifact mirror/x/quota-service:1 not found"),
            (401, "UNAUTHORIZED quota"),
            (403, "DENIED requested access to the resource is denied"),
        ] {
            assert!(!is_full(StatusCode::from_u16(status).unwrap(), reported), "{status}");
        }
        assert_eq!(short("a\u{202e}b\u{7}c"), "a b c");
    }

    #[test]
    fn a_project_that_is_not_there_is_no_wrong_login() {
        assert!(lacks_project(
            StatusCode::UNAUTHORIZED,
            "UNAUTHORIZED project mirror not found: project mirror not found"
        ));
        let no_right = "UNAUTHORIZED unauthorized to access repository: mirror/app, action: push";
        assert!(!lacks_project(StatusCode::UNAUTHORIZED, no_right));
        assert!(!lacks_project(StatusCode::UNAUTHORIZED, "UNAUTHORIZED authentication required"));
    }

    #[test]
    fn what_a_registry_says_is_one_line_without_control_characters() {
        let body = br#"{"errors":[{"code":"DENIED","message":"no\n\u001b[31mway"}]}"#;
        assert_eq!(message(body).as_deref(), Some("DENIED no [31mway"));
        assert_eq!(message(b"<html>"), None);
        assert_eq!(message(br#"{"errors":[]}"#), None);
    }
}
