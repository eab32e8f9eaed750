//! One address, and what its answers mean: which may be tried again, when, and which may not.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use backon::BackoffBuilder;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};

use crate::TransportError;
use crate::clients::HttpOptions;
use crate::error::chain;
use crate::http::shown;
use crate::schedule::{Chance, Host};

/// What rustls says of an answer that is no TLS.
pub(crate) const NOT_TLS: &str = "InvalidContentType";
/// The same for people.
pub(crate) const NOT_TLS_TEXT: &str =
    "it does not speak https there; where plain http is meant, allow it (--plain-http; plainHttp in a zone)";

/// How one try failed.
pub(crate) enum Attempt {
    /// Another try may help, not before `after`.
    Again { error: TransportError, after: Option<Duration> },
    /// The answer is final.
    Fatal(TransportError),
}

impl From<TransportError> for Attempt {
    fn from(error: TransportError) -> Self {
        Self::Fatal(error)
    }
}

/// Gives the `Authorization` header of a request.
#[async_trait]
pub(crate) trait Authorize: Send + Sync {
    /// The header; none for an open origin. `refused` after a 401: what was shown is no longer good.
    async fn authorization(&self, refused: Option<&Option<HeaderValue>>) -> Result<Option<HeaderValue>, Attempt>;
}

/// An address to fetch from.
pub(crate) struct Source<'a> {
    client: reqwest::Client,
    url: Url,
    authorize: Option<&'a dyn Authorize>,
    accept: Option<String>,
    conditions: Vec<(HeaderName, HeaderValue)>,
    host: Option<Arc<Host>>,
    chance: Chance,
}

impl<'a> Source<'a> {
    pub fn new(client: reqwest::Client, url: Url, authorize: Option<&'a dyn Authorize>) -> Self {
        Self { client, url, authorize, accept: None, conditions: Vec::new(), host: None, chance: Chance::default() }
    }

    /// With what all transfers of a run know of its host, and how much patience is had with it.
    pub fn known(self, clients: &crate::clients::Clients, chance: Chance) -> Self {
        let host = Some(clients.schedule.host(&self.host()));
        Self { host, chance, ..self }
    }

    /// With the media types that are understood.
    pub fn accepting(self, types: &str) -> Self {
        Self { accept: Some(types.to_owned()), ..self }
    }

    /// Asked for under conditions (RFC 9110, 13.1).
    pub fn under(self, conditions: Vec<(HeaderName, HeaderValue)>) -> Self {
        Self { conditions, ..self }
    }

    /// The waits between tries at this address.
    pub fn retries(&self, options: &HttpOptions) -> Retries {
        Retries {
            host: self.host.clone().map(|host| (host.answers(), host)),
            chance: self.chance,
            ..Retries::new(options)
        }
    }

    /// The address for people, without credentials.
    pub fn origin(&self) -> String {
        shown(self.url.as_str())
    }

    /// Host and port, for the limit of transfers from one host.
    pub fn host(&self) -> String {
        host_of(&self.url)
    }

    pub fn again(&self, reason: impl Into<String>, after: Option<Duration>) -> Attempt {
        Attempt::Again { error: TransportError::Down { origin: self.origin(), reason: reason.into() }, after }
    }

    /// Sends a request and waits for the head of its answer; asks for new credentials once when they are refused.
    pub async fn send(
        &self,
        options: &HttpOptions,
        method: Method,
        range: Option<(u64, Option<&str>)>,
    ) -> Result<Response, Attempt> {
        let mut refused: Option<Option<HeaderValue>> = None;
        loop {
            // An encoded body would have other offsets and another digest than the file.
            let mut request =
                self.client.request(method.clone(), self.url.clone()).header(header::ACCEPT_ENCODING, "identity");
            if let Some((offset, etag)) = range {
                request = request.header(header::RANGE, format!("bytes={offset}-"));
                if let Some(etag) = etag {
                    request = request.header(header::IF_RANGE, etag);
                }
            }
            if let Some(accept) = &self.accept {
                request = request.header(header::ACCEPT, accept);
            }
            for (name, value) in &self.conditions {
                request = request.header(name, value);
            }
            let shown = match self.authorize {
                Some(authorize) => authorize.authorization(refused.as_ref()).await?,
                None => None,
            };
            if let Some(value) = &shown {
                request = request.header(header::AUTHORIZATION, value);
            }
            if let Some(host) = &self.host {
                host.rested().await;
            }
            let waited = options.connect_timeout + options.stall_timeout;
            let response = match tokio::time::timeout(waited, request.send()).await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => {
                    self.no_connection();
                    return Err(self.failed(&error));
                }
                Err(_) => {
                    self.no_connection();
                    return Err(self.again(format!("no answer for {} s", waited.as_secs()), None));
                }
            };
            self.note(options, &response);
            if response.status() == StatusCode::UNAUTHORIZED && self.authorize.is_some() && refused.is_none() {
                refused = Some(shown);
                continue;
            }
            return Ok(response);
        }
    }

    fn no_connection(&self) {
        if let Some(host) = &self.host {
            host.failed();
        }
    }

    /// Keeps what an answer says of its host.
    fn note(&self, options: &HttpOptions, response: &Response) {
        let Some(host) = &self.host else { return };
        let status = response.status();
        match retry_after(response.headers()) {
            Some(after) if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE => {
                host.rest(after.min(options.backoff_max));
            }
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {}
            _ => host.answered(),
        }
    }

    /// What a request that got no answer means.
    pub fn failed(&self, error: &reqwest::Error) -> Attempt {
        let text = chain(&error_without_url(error));
        // A certificate does not become right by asking again.
        if text.contains("invalid peer certificate") {
            let reason = format!("{text}; give its CA (caFile), if it is meant to have one of its own");
            return Attempt::Fatal(TransportError::Down { origin: self.origin(), reason });
        }
        // Nor does a port that answers TLS with something else.
        if text.contains(NOT_TLS) {
            return Attempt::Fatal(TransportError::Down { origin: self.origin(), reason: NOT_TLS_TEXT.to_owned() });
        }
        if error.is_builder() || error.is_redirect() {
            return Attempt::Fatal(TransportError::Down { origin: self.origin(), reason: text });
        }
        self.again(text, None)
    }

    /// The response when it is a success, else what its status means.
    pub fn answered(&self, response: Response) -> Result<Response, Attempt> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        Err(self.refused(status, response.headers()))
    }

    pub fn refused(&self, status: StatusCode, headers: &HeaderMap) -> Attempt {
        let (origin, reason) = (self.origin(), status.to_string());
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => Attempt::Fatal(TransportError::Missing { origin, reason }),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Attempt::Fatal(TransportError::Denied { origin, reason })
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                self.again(reason, retry_after(headers))
            }
            _ if status.is_server_error() => self.again(reason, retry_after(headers)),
            _ => Attempt::Fatal(TransportError::Down { origin, reason: format!("unexpected status {reason}") }),
        }
    }
}

/// `reqwest` puts the whole address into its text, query and all; the origin is named by us.
fn error_without_url(error: &reqwest::Error) -> WithoutUrl<'_> {
    WithoutUrl(error)
}

#[derive(Debug)]
struct WithoutUrl<'a>(&'a reqwest::Error);

impl std::fmt::Display for WithoutUrl<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.0.to_string();
        f.write_str(text.split(" for url (").next().unwrap_or(&text))
    }
}

impl std::error::Error for WithoutUrl<'_> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Host and port of an address.
pub(crate) fn host_of(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(0))
}

/// `Retry-After`, in seconds or as a date (RFC 9110, 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok(),
    }
}

/// The next bytes of a body; an error when none come for the stall time or the connection breaks.
pub(crate) async fn next_chunk<S>(
    source: &Source<'_>,
    options: &HttpOptions,
    stream: &mut S,
) -> Result<Option<Bytes>, Attempt>
where
    S: Stream<Item = reqwest::Result<Bytes>> + Unpin,
{
    match tokio::time::timeout(options.stall_timeout, stream.next()).await {
        Ok(None) => Ok(None),
        Ok(Some(Ok(chunk))) => Ok(Some(chunk)),
        Ok(Some(Err(error))) => {
            Err(source.again(format!("the connection broke: {}", chain(&error_without_url(&error))), None))
        }
        Err(_) => Err(source.again(format!("no bytes for {:.1} s", options.stall_timeout.as_secs_f64()), None)),
    }
}

/// The waits between tries. [`Retries::progress`] starts them anew.
pub(crate) struct Retries {
    builder: backon::ExponentialBuilder,
    waits: backon::ExponentialBackoff,
    longest: Duration,
    /// Whom it is about, and how often that had answered when it began.
    host: Option<(u64, Arc<Host>)>,
    chance: Chance,
}

impl Retries {
    pub fn new(options: &HttpOptions) -> Self {
        let builder = backon::ExponentialBuilder::new()
            .with_jitter()
            .with_min_delay(options.backoff_min)
            .with_max_delay(options.backoff_max)
            .with_max_times(options.retries);
        Self { builder, waits: builder.build(), longest: options.backoff_max, host: None, chance: Chance::default() }
    }

    /// Bytes came: the origin is alive.
    pub fn progress(&mut self) {
        self.waits = self.builder.build();
        self.chance.once = false;
        if let Some((before, host)) = &mut self.host {
            host.answered();
            *before = host.answers();
        }
    }

    /// Waits before the next try, or gives the error back when there is none.
    pub async fn wait(&mut self, attempt: Attempt) -> Result<(), TransportError> {
        let (error, after) = match attempt {
            Attempt::Fatal(error) => return Err(error),
            Attempt::Again { error, after } => (error, after),
        };
        let next = self.waits.next().filter(|_| !self.chance.once);
        let Some(wait) = next else {
            // Where others were served meanwhile, it is about this file and not about the host.
            if let Some((before, host)) = &self.host
                && host.answers() == *before
            {
                host.give_up();
            }
            return Err(error);
        };
        let wait = wait.max(after.unwrap_or_default().min(self.longest));
        tracing::debug!(%error, wait_ms = wait.as_millis(), "trying again");
        match &self.host {
            Some((_, host)) if !host.wait(wait, self.chance.others).await => Err(error),
            Some(_) => Ok(()),
            None => {
                tokio::time::sleep(wait).await;
                Ok(())
            }
        }
    }
}

/// Tries until it succeeds, fails for good, or the tries are used up.
pub(crate) async fn retried<T, F, Fut>(mut retries: Retries, mut once: F) -> Result<T, TransportError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, Attempt>>,
{
    loop {
        match once().await {
            Ok(value) => return Ok(value),
            Err(attempt) => retries.wait(attempt).await?,
        }
    }
}
