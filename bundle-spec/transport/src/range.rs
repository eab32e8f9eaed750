//! A file on a web server, read from any place (RFC 9110, 14): only what is asked for moves.
//!
//! What was opened is held by its entity tag or date: a file that is replaced while it is read is an error and never a
//! mixture of two. Reads block; the requests run on a thread of their own, so that they may be made from anywhere.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use bytes::{Bytes, BytesMut};
use kubexm_archive::ReadAt;
use kubexm_spec::ExitCode;
use reqwest::header::{self, HeaderName};
use reqwest::{Response, StatusCode, Url};
use tokio::runtime::Runtime;

use crate::attempt::Attempt;
use crate::clients::{Clients, Reach};
use crate::retries::{Retries, retried};
use crate::source::{Source, next_chunk};
use crate::{FileCandidate, HttpOptions, TransportError};

/// Bytes that are fetched at least: a read of a few bytes is seldom the last one there.
const WINDOW: u64 = 128 << 10;
/// How many of those are kept.
const WINDOWS: usize = 16;

/// A file on a web server. Threads may read at once.
pub struct HttpFile {
    inner: Arc<Inner>,
    /// None only while it is dropped.
    runtime: Option<Runtime>,
}

struct Inner {
    options: HttpOptions,
    reach: Reach,
    url: Url,
    held: Held,
    windows: Mutex<VecDeque<(u64, Bytes)>>,
    moved: AtomicU64,
    changed: AtomicBool,
    /// The last read that failed permanently.
    failed: Mutex<Option<(ExitCode, String)>>,
}

/// What says that a file is still the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    len: u64,
    etag: Option<String>,
    modified: Option<String>,
}

impl Held {
    fn of(response: &Response, len: u64) -> Self {
        let owned = |name| text(response, name).map(str::to_owned);
        Self { len, etag: owned(header::ETAG), modified: owned(header::LAST_MODIFIED) }
    }

    /// Whether an answer is of the same file. A part may come without a date (RFC 9110, 15.3.7), never with another one.
    fn is_still(&self, answer: &Self) -> bool {
        let same = |held: &Option<String>, reported: &Option<String>| reported.is_none() || reported == held;
        self.len == answer.len && same(&self.etag, &answer.etag) && same(&self.modified, &answer.modified)
    }

    /// For `If-Range`: a weak tag does not promise the same bytes (RFC 9110, 13.1.5), so then the date has to do.
    fn validator(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| etag.starts_with('"')).or(self.modified.as_deref())
    }
}

impl HttpFile {
    /// Asks for the first bytes: how long the file is, whether ranges are supported, and its validators.
    pub fn open(address: &FileCandidate, options: HttpOptions) -> Result<Self, TransportError> {
        let (url, trusts) = address.parse()?;
        let clients = Clients::new(options)?;
        let reach = clients.get(&trusts)?;
        let options = clients.options.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("http-file")
            .enable_all()
            .build()
            .map_err(|e| TransportError::Worker(format!("no thread for it: {e}")))?;
        let held = Held { len: 0, etag: None, modified: None };
        let unopened = Arc::new(Inner {
            options,
            reach,
            url,
            held,
            windows: Mutex::default(),
            moved: AtomicU64::new(0),
            changed: AtomicBool::new(false),
            failed: Mutex::default(),
        });
        let asking = Arc::clone(&unopened);
        let opened = wait(&runtime, async move { asking.open().await });
        let (held, first) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let inner = Inner {
            held,
            windows: Mutex::new(VecDeque::from([(0, first)])),
            options: unopened.options.clone(),
            reach: unopened.reach.clone(),
            url: unopened.url.clone(),
            moved: AtomicU64::new(unopened.moved.load(Ordering::Relaxed)),
            changed: AtomicBool::new(false),
            failed: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner), runtime: Some(runtime) })
    }

    /// The address for people, without credentials and query.
    pub fn name(&self) -> String {
        self.inner.source().origin()
    }

    /// Bytes of bodies that came over the network so far.
    pub fn moved(&self) -> u64 {
        self.inner.moved.load(Ordering::Relaxed)
    }

    /// Why a read failed that was given up, with the exit code: whoever reads through several layers may have taken it for
    /// damage of the file.
    pub fn failure(&self) -> Option<(ExitCode, String)> {
        self.inner.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fetch(&self, start: u64, end: u64) -> io::Result<Bytes> {
        let Some(runtime) = &self.runtime else { return Err(io::Error::other("the file is closed")) };
        let inner = Arc::clone(&self.inner);
        wait(runtime, async move { inner.fetch(start, end).await }).map_err(|error| {
            let reported = (error.exit_code(), error.to_string());
            *self.inner.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(reported);
            io::Error::other(error)
        })
    }
}

/// Runs something on the file's own thread and waits for it, wherever the caller is.
fn wait<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = Result<T, TransportError>> + Send + 'static,
) -> Result<T, TransportError> {
    let (give, take) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // Nobody waits any more: then nobody needs it.
        let _ = give.send(work.await);
    });
    take.recv().map_err(|_| TransportError::Worker("a request was given up".to_owned()))?
}

impl ReadAt for HttpFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = self.inner.held.len;
        let wanted = (buffer.len() as u64).min(len.saturating_sub(offset));
        if wanted == 0 {
            return Ok(0);
        }
        let bytes = match self.inner.cached(offset) {
            Some(bytes) => bytes,
            None if wanted >= WINDOW => self.fetch(offset, offset + wanted)?,
            None => {
                // At the end of the file the window reaches back: its tail is read first, and from behind.
                let start = offset.min(len.saturating_sub(WINDOW));
                let window = self.fetch(start, len.min(start + WINDOW))?;
                self.inner.keep(start, &window);
                window.slice(usize::try_from(offset - start).unwrap_or(usize::MAX).min(window.len())..)
            }
        };
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn len(&self) -> u64 {
        self.inner.held.len
    }

    fn has_changed(&self) -> bool {
        self.inner.changed.load(Ordering::Relaxed)
    }
}

impl Inner {
    fn source(&self) -> Source<'static> {
        Source::new(self.reach.clone(), self.url.clone(), None)
    }

    /// What is kept from a byte on.
    fn cached(&self, offset: u64) -> Option<Bytes> {
        let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let inside = |start: u64, bytes: &Bytes| offset >= start && offset - start < bytes.len() as u64;
        let (start, bytes) = windows.iter().find(|(start, bytes)| inside(*start, bytes))?;
        Some(bytes.slice(usize::try_from(offset - start).ok()?..))
    }

    fn keep(&self, start: u64, window: &Bytes) {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        windows.push_back((start, window.clone()));
        while windows.len() > WINDOWS {
            windows.pop_front();
        }
    }

    async fn open(&self) -> Result<(Held, Bytes), TransportError> {
        retried(Retries::new(&self.options), || self.open_once()).await
    }

    async fn open_once(&self) -> Result<(Held, Bytes), Attempt> {
        let response = self.ask(0, WINDOW).await?;
        let source = self.source();
        let (first, end, len) = match response.status() {
            StatusCode::PARTIAL_CONTENT => {
                range(&response).ok_or_else(|| lies(&source, &response, "bytes 0- were asked for"))?
            }
            // An empty file has no range that could be sent.
            StatusCode::RANGE_NOT_SATISFIABLE if text(&response, header::CONTENT_RANGE) == Some("bytes */0") => {
                return Ok((Held::of(&response, 0), Bytes::new()));
            }
            status if status.is_success() => {
                return Err(TransportError::NoRanges { origin: source.origin() }.into());
            }
            status => return Err(source.refused(&self.options, status, response.headers())),
        };
        plain(&source, &response)?;
        let held = Held::of(&response, len);
        if held.validator().is_none() {
            return Err(TransportError::NotHeld { origin: source.origin() }.into());
        }
        if first != 0 || end != len.min(WINDOW) {
            return Err(lies(&source, &response, "bytes 0- were asked for").into());
        }
        let mut bytes = BytesMut::new();
        self.body(response, end, &mut bytes).await?;
        Ok((held, bytes.freeze()))
    }

    /// The bytes from `start` up to `end`; a connection that broke is resumed where it was.
    async fn fetch(&self, start: u64, end: u64) -> Result<Bytes, TransportError> {
        let mut retries = Retries::new(&self.options);
        let mut bytes = BytesMut::new();
        loop {
            let before = bytes.len();
            match self.fetch_once(start, end, &mut bytes).await {
                Ok(()) if bytes.len() as u64 == end - start => return Ok(bytes.freeze()),
                // A server may send less than was asked for.
                Ok(()) => {}
                Err(attempt) => {
                    if bytes.len() > before {
                        retries.progress();
                    }
                    retries.wait(attempt).await?;
                }
            }
        }
    }

    async fn fetch_once(&self, start: u64, end: u64, bytes: &mut BytesMut) -> Result<(), Attempt> {
        let from = start + bytes.len() as u64;
        let response = self.ask(from, end).await?;
        let source = self.source();
        match response.status() {
            StatusCode::PARTIAL_CONTENT => {}
            // With `If-Range`, all of it means that it is another one.
            StatusCode::OK | StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::PRECONDITION_FAILED => {
                return Err(self.has_changed(&source));
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => return Err(self.has_changed(&source)),
            status => return Err(source.refused(&self.options, status, response.headers())),
        }
        plain(&source, &response)?;
        let asked = format!("bytes {from} up to {end} were asked for");
        let (first, last, len) = range(&response).ok_or_else(|| lies(&source, &response, &asked))?;
        if !self.held.is_still(&Held::of(&response, len)) {
            return Err(self.has_changed(&source));
        }
        if first != from || last > end {
            return Err(lies(&source, &response, &asked).into());
        }
        self.body(response, last - first, bytes).await
    }

    async fn ask(&self, from: u64, end: u64) -> Result<Response, Attempt> {
        let source = self.source();
        let mut request = self
            .reach
            .client
            .get(self.url.clone())
            .header(header::ACCEPT_ENCODING, "identity")
            .header(header::RANGE, format!("bytes={from}-{}", end.saturating_sub(1)));
        if let Some(validator) = self.held.validator() {
            request = request.header(header::IF_RANGE, validator);
        }
        source.answer(&self.options, request.send()).await
    }

    /// Takes exactly what the head promised; what came before a break is kept.
    async fn body(&self, response: Response, promised: u64, bytes: &mut BytesMut) -> Result<(), Attempt> {
        let source = self.source();
        let mut stream = response.bytes_stream();
        let mut left = promised;
        while let Some(chunk) = next_chunk(&source, &self.options, &mut stream).await? {
            self.moved.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            let Some(rest) = left.checked_sub(chunk.len() as u64) else {
                let reason = format!("sent more than the {promised} bytes that its Content-Range states");
                return Err(TransportError::Down { origin: source.origin(), reason }.into());
            };
            left = rest;
            bytes.extend_from_slice(&chunk);
        }
        match left {
            0 => Ok(()),
            _ => Err(source.again(format!("cut off, {left} of {promised} bytes are missing"))),
        }
    }

    fn has_changed(&self, source: &Source<'_>) -> Attempt {
        self.changed.store(true, Ordering::Relaxed);
        TransportError::Changed { origin: source.origin() }.into()
    }
}

impl Drop for HttpFile {
    fn drop(&mut self) {
        // Waits for nothing, so that it may be dropped anywhere.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for HttpFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpFile").field("name", &self.name()).field("held", &self.inner.held).finish_non_exhaustive()
    }
}

fn text(response: &Response, name: HeaderName) -> Option<&str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// First byte, the byte after the last, and the length of the whole, of a `Content-Range` that makes sense.
fn range(response: &Response) -> Option<(u64, u64, u64)> {
    let (range, len) = text(response, header::CONTENT_RANGE)?.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, len) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?, len.parse::<u64>().ok()?);
    (first <= last && last < len).then_some((first, last.checked_add(1)?, len))
}

/// An encoded body has other offsets than the file.
fn plain(source: &Source<'_>, response: &Response) -> Result<(), TransportError> {
    match text(response, header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
        Some(encoding) => {
            let found = format!("a body encoded with {encoding}");
            Err(TransportError::NotTheFile { origin: source.origin(), found })
        }
        None => Ok(()),
    }
}

fn lies(source: &Source<'_>, response: &Response, asked: &str) -> TransportError {
    let reported = text(response, header::CONTENT_RANGE).map(crate::oci::short);
    let reason = match reported {
        Some(reported) => format!("{asked}, its Content-Range states {reported:?}"),
        None => format!("{asked}, and it sent a part without a Content-Range"),
    };
    TransportError::Down { origin: source.origin(), reason }
}
