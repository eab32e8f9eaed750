//! One blob on its way up (distribution-spec 1.1, "Pushing blobs"): in chunks, so that a session that broke is asked how
//! far it came and resumed; begun again where a registry has forgotten it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use kubexm_spec::Digest;
use reqwest::header::{self, HeaderName};
use reqwest::{Method, Response, StatusCode, Url};

use super::body::{Body, Kept};
use super::content::{Content, Outcome};
use super::endpoint::{Endpoint, Request};
use super::open_uploads::{OpenUpload, PushOptions};
use super::pace::{CHUNK_MOST, Pace};
use crate::TransportError;
use crate::attempt::{Attempt, Why};
use crate::retries::Retries;

/// The smallest chunk that is tried where a proxy before the registry refuses larger bodies.
const CHUNK_LEAST: u64 = 256 << 10;
const CHUNK_MIN_LENGTH: HeaderName = HeaderName::from_static("oci-chunk-min-length");

/// Called with the bytes of the blob that the registry has, or is being sent.
pub(crate) type Sent<'a> = &'a (dyn Fn(u64) + Send + Sync);

/// The upload of one blob.
pub(crate) struct Upload<'a> {
    pub endpoint: &'a Endpoint<'a>,
    pub digest: Digest,
    pub size: u64,
    pub content: Arc<dyn Content>,
    pub options: PushOptions<'a>,
    pub sent: Sent<'a>,
    kept: Kept,
    state: State,
}

/// What is known of the registry's side.
#[derive(Default)]
struct State {
    session: Option<Session>,
    /// The session must be asked how far it came before it is resumed.
    ask: bool,
    /// A session was lost: what it had may have become the blob before the answer was lost too.
    lost: bool,
    /// The furthest that any session came; only beyond it is there progress.
    best: u64,
    /// The smallest chunk that the registry takes.
    least: u64,
    /// The largest that what is before the registry takes.
    most: u64,
}

/// An open upload session.
struct Session {
    url: Url,
    /// Bytes that the registry has.
    offset: u64,
}

impl<'a> Upload<'a> {
    pub fn new(
        endpoint: &'a Endpoint<'a>,
        (digest, size): (Digest, u64),
        content: Arc<dyn Content>,
        options: PushOptions<'a>,
        sent: Sent<'a>,
    ) -> Self {
        let state = State { least: CHUNK_LEAST, most: CHUNK_MOST, ..State::default() };
        Self { endpoint, digest, size, content, options, sent, kept: Kept::default(), state }
    }

    /// Brings the blob to the registry, in the cheapest way that works.
    pub async fn run(mut self) -> Result<Outcome, TransportError> {
        let mut retries = Retries::new(self.endpoint.options);
        if self.until(&mut retries, Step::Exists).await? {
            self.forget();
            return Ok(Outcome::Present);
        }
        for from in self.options.mount_from {
            if self.until(&mut retries, Step::Mount(from)).await? {
                if let Some(session) = self.state.session.take() {
                    self.cancel(session).await;
                }
                return Ok(Outcome::Mounted);
            }
        }
        self.take_up();
        self.until(&mut retries, Step::Send).await?;
        self.forget();
        Ok(Outcome::Sent)
    }

    /// Takes up the session that an earlier program left open, in place of one that a mount opened.
    fn take_up(&mut self) {
        let known = self.options.uploads.and_then(|uploads| uploads.known(&self.endpoint.place(), &self.digest));
        let Some(known) = known.filter(|known| known.offset <= self.size) else { return };
        let Ok(url) = Url::parse(&known.url) else { return };
        self.state.session = Some(Session { url, offset: known.offset });
        self.state.ask = true;
    }

    /// Bytes of the next chunk. A blob of no more goes up in one request.
    fn chunk_size(&self) -> u64 {
        self.options.pace.map_or(self.options.chunk, Pace::chunk).max(self.state.least).min(self.state.most)
    }

    fn forget(&self) {
        if let Some(uploads) = self.options.uploads {
            uploads.forget(&self.endpoint.place(), &self.digest);
        }
    }

    /// How far the open session is, for whoever resumes it.
    fn note(&self) {
        if let (Some(uploads), Some(session)) = (self.options.uploads, &self.state.session) {
            let upload = OpenUpload { url: session.url.to_string(), offset: session.offset };
            uploads.note(&self.endpoint.place(), &self.digest, upload);
        }
    }

    async fn until(&mut self, retries: &mut Retries, step: Step<'_>) -> Result<bool, TransportError> {
        loop {
            let before = self.state.best;
            let result = match step {
                Step::Exists => self.exists().await,
                Step::Mount(from) => self.mount(from).await,
                Step::Send => self.send().await,
            };
            if self.state.best > before {
                retries.progress();
            }
            match result {
                Ok(answer) => return Ok(answer),
                Err(attempt) => {
                    self.state.ask = true;
                    self.options.pace.inspect(|pace| pace.broke());
                    // It may hold a window of the bundle, which others wait for.
                    self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
                    retries.wait(attempt).await?;
                }
            }
        }
    }

    async fn exists(&self) -> Result<bool, Attempt> {
        let url = self.endpoint.url(&format!("blobs/{}", self.digest))?;
        let response = self.endpoint.send(&Request::new(Method::HEAD, url.clone()), &|_| {}).await?;
        match response.status() {
            // Some registries send a HEAD to their storage.
            status if status.is_success() || status.is_redirection() => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            _ => Err(self.endpoint.refused(&url, response).await),
        }
    }

    /// A mount that a registry does not make is an upload session; any refusal means to upload.
    async fn mount(&mut self, from: &str) -> Result<bool, Attempt> {
        let mut url = self.endpoint.url("blobs/uploads/")?;
        url.query_pairs_mut().append_pair("mount", &self.digest.to_string()).append_pair("from", from);
        let response = self.endpoint.send(&Request::new(Method::POST, url.clone()), &|_| {}).await?;
        match response.status() {
            StatusCode::CREATED => return Ok(true),
            StatusCode::ACCEPTED => {}
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(self.endpoint.refused(&url, response).await);
            }
            _ => return Ok(false),
        }
        let session = self.opened(&url, &response)?;
        match self.state.session {
            Some(_) => self.cancel(session).await,
            None => {
                self.state.session = Some(session);
                self.state.ask = false;
            }
        }
        Ok(false)
    }

    /// Cancels a session that a mount opened and that is not needed. The answer is ignored: registries drop old ones.
    async fn cancel(&self, session: Session) {
        let _ = self.endpoint.send(&Request::new(Method::DELETE, session.url), &|_| {}).await;
    }

    /// Sends what is missing, from where the session is.
    async fn send(&mut self) -> Result<bool, Attempt> {
        loop {
            if self.options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(TransportError::Stopped.into());
            }
            let Some(session) = self.session().await? else { return Ok(true) };
            let left = self.size - session.offset;
            let chunk = self.chunk_size();
            if left == 0 || (session.offset == 0 && left <= chunk) {
                match self.finish(session, left).await? {
                    Some(()) => return Ok(true),
                    None => continue,
                }
            }
            self.chunk(session, left.min(chunk)).await?;
        }
    }

    /// The open session, asked how far it came when that is not known; a new one where there is none. None when the
    /// registry has the blob meanwhile.
    async fn session(&mut self) -> Result<Option<Session>, Attempt> {
        if let Some(session) = self.state.session.take() {
            if !self.state.ask {
                return Ok(Some(session));
            }
            // Kept until the answer is there: this request may fail too.
            let asked = self.how_far(&session).await;
            match asked {
                Ok(Some(session)) => {
                    self.state.ask = false;
                    return Ok(Some(session));
                }
                Ok(None) => self.state.lost = true,
                Err(attempt) => {
                    self.state.session = Some(session);
                    return Err(attempt);
                }
            }
        }
        if self.state.lost && self.exists().await? {
            return Ok(None);
        }
        let url = self.endpoint.url("blobs/uploads/")?;
        let response = self.endpoint.send(&Request::new(Method::POST, url.clone()), &|_| {}).await?;
        if response.status() != StatusCode::ACCEPTED {
            return Err(self.endpoint.refused(&url, response).await);
        }
        let session = self.opened(&url, &response)?;
        (self.state.ask, self.state.lost) = (false, false);
        (self.sent)(0);
        Ok(Some(session))
    }

    fn opened(&mut self, url: &Url, response: &Response) -> Result<Session, TransportError> {
        if let Some(least) = text(response, CHUNK_MIN_LENGTH).and_then(|text| text.parse::<u64>().ok()) {
            // What goes up in one request needs no chunks.
            if least > CHUNK_MOST && self.size > self.chunk_size() {
                return Err(TransportError::Down {
                    origin: self.endpoint.place(),
                    reason: format!(
                        "it wants chunks of at least {least} bytes (OCI-Chunk-Min-Length), and {CHUNK_MOST} are the most \
                         that are sent at a time"
                    ),
                });
            }
            self.state.least = self.state.least.max(least.min(CHUNK_MOST));
        }
        Ok(Session { url: location(self.endpoint, url, response)?, offset: 0 })
    }

    /// Asks a session for its offset; none when the registry has forgotten it, or can no longer continue with it.
    async fn how_far(&self, session: &Session) -> Result<Option<Session>, Attempt> {
        let response = self.endpoint.send(&Request::new(Method::GET, session.url.clone()), &|_| {}).await?;
        let status = response.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(self.endpoint.refused(&session.url, response).await);
        }
        if !status.is_success() {
            return Ok(None);
        }
        let url = match response.headers().contains_key(header::LOCATION) {
            true => location(self.endpoint, &session.url, &response)?,
            false => session.url.clone(),
        };
        let offset = range_end(&response).filter(|end| *end <= self.size);
        if let Some(offset) = offset {
            (self.sent)(offset);
        }
        Ok(offset.map(|offset| Session { url, offset }))
    }

    async fn chunk(&mut self, session: Session, length: u64) -> Result<(), Attempt> {
        let body = Body::part(&self.content, session.offset, length, &self.kept);
        let end = session.offset + length;
        let request = Request::new(Method::PATCH, session.url.clone())
            .header(header::CONTENT_TYPE, "application/octet-stream")?
            .header(header::CONTENT_RANGE, &format!("{}-{}", session.offset, end - 1))?
            .body(body);
        let (sent, before, begun) = (self.sent, session.offset, Instant::now());
        let result = self.endpoint.send(&request, &|now| sent(before + now)).await;
        let url = session.url.clone();
        self.state.session = Some(session);
        self.state.ask = true;
        let response = result?;
        match response.status() {
            status if status.is_success() => {
                let offset = range_end(&response).unwrap_or(end);
                if offset > before && offset <= end {
                    let url = location(self.endpoint, &url, &response)?;
                    self.state.session = Some(Session { url, offset });
                    self.state.ask = false;
                    self.state.best = self.state.best.max(offset);
                    self.note();
                    self.options.pace.inspect(|pace| pace.took(offset - before, begun.elapsed()));
                    return Ok(());
                }
                Err(self.endpoint.source(&url).again(format!("took bytes up to {offset} of a chunk up to {end}")))
            }
            StatusCode::PAYLOAD_TOO_LARGE => self.smaller(&url, length, response).await,
            // It has other bytes than we thought, or has forgotten them: it is asked.
            StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST => {
                Err(self.again(&url, response).await)
            }
            _ => Err(self.endpoint.refused(&url, response).await),
        }
    }

    /// Closes the session with the bytes that are left. None when it is to be resumed in another way.
    async fn finish(&mut self, session: Session, left: u64) -> Result<Option<()>, Attempt> {
        let body = Body::part(&self.content, session.offset, left, &self.kept);
        let mut url = session.url.clone();
        url.query_pairs_mut().append_pair("digest", &self.digest.to_string());
        let mut request =
            Request::new(Method::PUT, url.clone()).header(header::CONTENT_TYPE, "application/octet-stream")?.body(body);
        request.settles = self.size;
        let (sent, before, begun) = (self.sent, session.offset, Instant::now());
        let result = self.endpoint.send(&request, &|now| sent(before + now)).await;
        self.state.session = Some(session);
        self.state.ask = true;
        let response = result?;
        match response.status() {
            StatusCode::CREATED | StatusCode::NO_CONTENT | StatusCode::OK => {
                self.options.pace.inspect(|pace| pace.took(left, begun.elapsed()));
                Ok(Some(()))
            }
            StatusCode::PAYLOAD_TOO_LARGE => self.smaller(&url, left, response).await.map(|()| None),
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::RANGE_NOT_SATISFIABLE => {
                // What this session has is not the blob, or it is gone: another one, from the first byte.
                self.state.session = None;
                self.state.lost = true;
                Err(self.again(&url, response).await)
            }
            _ => Err(self.endpoint.refused(&url, response).await),
        }
    }

    /// A proxy before the registry takes no body of this size.
    async fn smaller(&mut self, url: &Url, refused: u64, response: Response) -> Result<(), Attempt> {
        // Not of what is sent next: uploads beside this one may have been refused, too.
        let least = refused / 4;
        if least < CHUNK_LEAST {
            return Err(self.endpoint.refused(url, response).await);
        }
        (self.state.least, self.state.most) = (CHUNK_LEAST, least);
        self.options.pace.inspect(|pace| pace.at_most(least));
        Ok(())
    }

    /// An answer that is final elsewhere, but here means that the session is to be asked or begun again.
    async fn again(&self, url: &Url, response: Response) -> Attempt {
        match self.endpoint.refused(url, response).await {
            Attempt::Fatal(error) => Attempt::Again { error, why: Why::Failed },
            other => other,
        }
    }
}

/// What is tried again as a whole.
#[derive(Clone, Copy)]
enum Step<'a> {
    Exists,
    Mount(&'a str),
    Send,
}

fn text(response: &Response, name: HeaderName) -> Option<&str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// Where a session is resumed.
fn location(endpoint: &Endpoint<'_>, asked: &Url, response: &Response) -> Result<Url, TransportError> {
    let reported = text(response, header::LOCATION).and_then(|reported| asked.join(reported).ok());
    reported.ok_or_else(|| TransportError::Down {
        origin: endpoint.place(),
        reason: "it opened an upload without saying where (no usable Location)".to_owned(),
    })
}

/// The byte after the last one that a session has. `0-0` is what registries say of an empty one.
fn range_end(response: &Response) -> Option<u64> {
    let (first, last) = text(response, header::RANGE)?.trim_start_matches("bytes=").split_once('-')?;
    let last: u64 = last.parse().ok()?;
    if first != "0" {
        return None;
    }
    Some(if last == 0 { 0 } else { last.checked_add(1)? })
}
