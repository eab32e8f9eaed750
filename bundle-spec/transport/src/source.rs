//! One address, and how it is asked: with which login, how long it is waited for, and who is reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use kubexm_spec::event::Next;
use reqwest::header::{self, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use tokio::time::Instant;

use crate::address::{host_of, shown};
use crate::attempt::{Attempt, Why};
use crate::clients::Reach;
use crate::response::{retry_after, text_of};
use crate::retries::Retries;
use crate::schedule::{Host, RetryPolicy};
use crate::watch::{Seen, seconds};
use crate::{BasicLogin, Bearer, FileCandidate, HttpOptions, TransportError};

/// Gives the `Authorization` header of a request.
#[async_trait]
pub(crate) trait Authorize: Send + Sync {
    /// The header; none for an open origin. `refused` after a 401: what was shown is no longer good.
    async fn authorization(&self, refused: Option<&Option<HeaderValue>>) -> Result<Option<HeaderValue>, Attempt>;
}

/// An address to fetch from.
pub(crate) struct Source<'a> {
    pub(crate) reach: Reach,
    pub(crate) url: Url,
    authorize: Option<&'a dyn Authorize>,
    credentials: Option<HeaderValue>,
    accept: Option<String>,
    conditions: Vec<(HeaderName, HeaderValue)>,
    host: Option<Arc<Host>>,
    retry_policy: RetryPolicy,
    /// Tries that failed since something came last; shared with the [`Retries`] that count them.
    failed: Arc<AtomicUsize>,
    /// How many tries it is given; none where nobody counts them.
    tries: Option<usize>,
}

impl<'a> Source<'a> {
    pub fn new(reach: Reach, url: Url, authorize: Option<&'a dyn Authorize>) -> Self {
        Self {
            reach,
            url,
            authorize,
            credentials: None,
            accept: None,
            conditions: Vec::new(),
            host: None,
            retry_policy: RetryPolicy::default(),
            failed: Arc::default(),
            tries: None,
        }
    }

    /// With what all transfers of a run know of its host, and how much patience is had with it.
    pub fn known(self, clients: &crate::clients::Clients, retry_policy: RetryPolicy) -> Self {
        let host = Some(clients.schedule.host(&self.host()));
        Self { host, retry_policy, ..self }
    }

    /// With the token or the login of a candidate. A client removes it when it follows a redirect to another host.
    pub fn with_credentials(self, candidate: &FileCandidate) -> Self {
        let bearer = candidate.bearer.as_ref().and_then(Bearer::header);
        let credentials = bearer.or_else(|| candidate.login.as_ref().and_then(BasicLogin::header));
        Self { credentials, ..self }
    }

    /// As one whose tries are counted, for those who are reported.
    pub fn counted(self, options: &HttpOptions) -> Self {
        let tries = 1 + options.retries.min(options.silent_tries.saturating_sub(1));
        Self { tries: Some(tries), ..self }
    }

    /// One try is all it gets: it was given up before, or while leave was waited for.
    fn is_once(&self) -> bool {
        self.retry_policy.once || self.host.as_ref().is_some_and(|host| host.is_down())
    }

    /// Whether no origin has given anything in this run.
    pub fn is_alone(&self) -> bool {
        self.host.as_ref().is_some_and(|host| !host.is_online())
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
        Retries::new(options).at(self.host.clone(), self.retry_policy, Arc::clone(&self.failed))
    }

    /// The address for people, without credentials.
    pub fn origin(&self) -> String {
        shown(self.url.as_str())
    }

    /// Host and port, for the limit of transfers from one host.
    pub fn host(&self) -> String {
        host_of(&self.url)
    }

    pub fn again(&self, reason: impl Into<String>) -> Attempt {
        self.attempt(reason.into(), Why::Failed)
    }

    /// Nothing came for so long.
    pub fn silent(&self, reason: impl Into<String>) -> Attempt {
        self.attempt(reason.into(), Why::Silent)
    }

    pub(crate) fn attempt(&self, reason: String, why: Why) -> Attempt {
        Attempt::Again { error: TransportError::Down { origin: self.origin(), reason }, why }
    }

    /// It answers, and in no way that could be used.
    pub fn unusable(&self, reason: String) -> Attempt {
        Attempt::Fatal(TransportError::Unusable { origin: self.origin(), reason })
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
                self.reach.client.request(method.clone(), self.url.clone()).header(header::ACCEPT_ENCODING, "identity");
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
            if let Some(value) = shown.as_ref().or(self.credentials.as_ref()) {
                request = request.header(header::AUTHORIZATION, value);
            }
            self.leave(options).await?;
            let response = self.answer(options, request.send()).await?;
            self.note(options, &response);
            if response.status() == StatusCode::UNAUTHORIZED && self.authorize.is_some() && refused.is_none() {
                refused = Some(shown);
                continue;
            }
            return Ok(response);
        }
    }

    /// Waits until the host may be asked; an error where there is no sense in that.
    async fn leave(&self, options: &HttpOptions) -> Result<(), Attempt> {
        let Some(host) = &self.host else { return Ok(()) };
        let longest = options.backoff_max;
        if let Some(left) = host.wants_rest().filter(|left| self.is_once() && *left > longest) {
            let left = Duration::from_secs(left.as_secs());
            let reason = format!("it requested a pause of {} more (Retry-After)", seconds(left));
            return Err(Attempt::Fatal(TransportError::Down { origin: self.origin(), reason }));
        }
        if host.rested(self.retry_policy.others).await {
            return Ok(());
        }
        let reason = "it requests a pause (Retry-After), and another source is tried".to_owned();
        Err(Attempt::Fatal(TransportError::Down { origin: self.origin(), reason }))
    }

    /// The head of an answer to a request that is on its way; says so when that takes long.
    pub async fn answer(
        &self,
        options: &HttpOptions,
        request: impl Future<Output = reqwest::Result<Response>>,
    ) -> Result<Response, Attempt> {
        // Of who did not answer before, less is expected.
        let patience = if self.is_once() { options.answer_timeout / 4 } else { options.answer_timeout };
        match self.within(options, patience, ("no answer", &self.through()), request).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                self.no_connection();
                Err(self.failed_to_send(&error, patience).await)
            }
            Err(silent) => {
                self.no_connection();
                Err(silent)
            }
        }
    }

    /// Waits for something of the origin, and says so when it takes long.
    async fn within<T>(
        &self,
        options: &HttpOptions,
        patience: Duration,
        (what, how): (&str, &str),
        coming: impl Future<Output = T>,
    ) -> Result<T, Attempt> {
        let nothing = |time| format!("{what} for {}{how}", seconds(time));
        tokio::pin!(coming);
        let end = Instant::now() + patience;
        let early = options.notice_after;
        if early < patience {
            match tokio::time::timeout(early, &mut coming).await {
                Ok(came) => return Ok(came),
                Err(_) => self.tell(options, nothing(early), patience - early),
            }
        }
        tokio::time::timeout_at(end, coming).await.map_err(|_| self.silent(nothing(patience)))
    }

    /// Tells that this try still waits, and how much longer it will.
    pub fn tell(&self, options: &HttpOptions, reason: String, left: Duration) {
        if self.host.as_ref().is_none_or(|host| host.is_news(options.notice_after, left)) {
            let failed = self.failed.load(Ordering::Relaxed);
            let all = |tries: usize| if self.is_once() { failed + 1 } else { tries.max(failed + 1) };
            let tries = self.tries.map(|tries| (failed + 1, all(tries)));
            options.watch.tell(self.origin(), Seen { reason, tries, retry_after: None }, Next::GiveUp, left);
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
                host.rest(after, options.backoff_max);
            }
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {}
            _ => host.answered(),
        }
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
    match source.within(options, options.stall_timeout, ("no bytes", ""), stream.next()).await? {
        None => Ok(None),
        Some(Ok(chunk)) => Ok(Some(chunk)),
        Some(Err(error)) => Err(source.again(format!("the connection broke: {}", text_of(&error)))),
    }
}
