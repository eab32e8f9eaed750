//! The one way bytes get from an address into the store: resumed, watched, verified. Files and image layers alike.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kubexm_spec::Digest;
use reqwest::{Method, Response, StatusCode, header};

use crate::attempt::Attempt;
use crate::clients::Clients;
use crate::partial::{Came, Partial};
use crate::sniff;
use crate::source::{Source, next_chunk};
use crate::{Fetched, HttpOptions, Progress, Store, TransportError, Want};

/// Bytes gathered before they are hashed and written; also what a kill can lose of a transfer.
const GATHER: usize = 16 << 10;
/// Below this many bytes, where a file came from is not noted: continuing with it would save less than the note costs.
const SMALL: u64 = 1 << 20;
/// Between two looks whether another writer of the same blob has finished.
const POLL: Duration = Duration::from_millis(50);

/// The file, when the store has it already.
pub(crate) fn in_store(store: &Store, want: &Want) -> Result<Option<Fetched>, TransportError> {
    let Some(digest) = want.digest else { return Ok(None) };
    let here = match want.size {
        Some(size) => store.holds(&digest, size)?,
        None => store.contains(&digest),
    };
    Ok(here.then(|| Fetched { digest, size: store.size(&digest).unwrap_or_default(), url: None }))
}

/// Fetches one file from one address. What came stays for the next try, unless it turned out wrong.
pub(crate) async fn fetch(
    clients: &Clients,
    source: &Source<'_>,
    want: &Want,
    store: &Store,
    progress: &Progress<'_>,
) -> Result<Fetched, TransportError> {
    want.check_bound(&source.origin(), None)?;
    let key = match want.digest {
        Some(digest) => digest.hex(),
        None => format!("address-{}", Digest::of(source.origin()).hex()),
    };
    let partial = lock(store, key).await?;
    // Whoever held the lock may have finished the very blob.
    if let Some(fetched) = in_store(store, want)? {
        partial.discard()?;
        progress(fetched.size, Some(fetched.size));
        return Ok(fetched);
    }
    let left = want.size.map(|size| size.saturating_sub(partial.length()));
    let _permit = clients.schedule.permit(&source.host(), left).await?;
    let mut download = Download {
        clients,
        options: &clients.options,
        source,
        want,
        progress,
        partial,
        fresh: false,
        pieced: false,
        anew: false,
        total: None,
        looks_like: None,
        crawls: false,
    };
    download.run().await?;
    let Download { partial, .. } = download;
    let (digest, size) = blocking(move || partial.commit()).await?;
    Ok(Fetched { digest, size, url: Some(source.origin()) })
}

/// The part file, once no other program or task writes it. Polled, so that a cancelled fetch leaves no waiting thread.
async fn lock(store: &Store, key: String) -> Result<Partial, TransportError> {
    loop {
        let (store, key) = (store.clone(), key.clone());
        if let Some(partial) = blocking(move || store.try_partial(&key)).await? {
            return Ok(partial);
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TransportError> + Send + 'static,
) -> Result<T, TransportError> {
    tokio::task::spawn_blocking(work).await.map_err(|e| TransportError::Worker(e.to_string()))?
}

struct Download<'a> {
    clients: &'a Clients,
    options: &'a HttpOptions,
    source: &'a Source<'a>,
    want: &'a Want,
    progress: &'a Progress<'a>,
    partial: Partial,
    /// Every byte of the part file came from this address in this run: if it is wrong, this address is.
    fresh: bool,
    /// The bytes came in several answers, between which the file may have become another one.
    pieced: bool,
    /// It was begun again for that.
    anew: bool,
    /// Size of the whole, in bytes, when anyone told.
    total: Option<u64>,
    /// What the head or the first bytes say that a program or archive is not; tells why a digest does not fit.
    looks_like: Option<&'static str>,
    /// The last try was given up since hardly anything came.
    crawls: bool,
}

impl Download<'_> {
    async fn run(&mut self) -> Result<(), TransportError> {
        let mut retries = self.source.retries(self.options);
        loop {
            let before = self.partial.length();
            match self.attempt().await {
                Ok(()) if self.is_right()? => return Ok(()),
                // Bytes of an earlier run or of another origin were in it, or of what the file was before: once more from the
                // first byte.
                Ok(()) => self.partial.clear()?,
                Err(attempt) => {
                    // What crawls would otherwise be tried for ever.
                    if self.partial.length() > before && !std::mem::take(&mut self.crawls) {
                        retries.progress();
                    }
                    retries.wait(attempt).await?;
                }
            }
        }
    }

    /// Whether the finished part file is what is wanted; false when it may be the fault of an earlier run.
    fn is_right(&mut self) -> Result<bool, TransportError> {
        let (found, length) = (self.partial.digest(), self.partial.length());
        let origin = self.source.origin();
        let error = match *self.want {
            Want { size: Some(expected), .. } if expected != length => {
                TransportError::WrongSize { origin, expected, found: length }
            }
            Want { digest: Some(expected), .. } if expected != found => {
                TransportError::Mismatch { origin, expected, found }
            }
            _ => return Ok(true),
        };
        if !self.fresh || (self.pieced && !self.anew) {
            self.anew = self.fresh;
            return Ok(false);
        }
        self.partial.clear()?;
        match (error, self.looks_like) {
            // Of JSON or XML, another version is as likely as an error message.
            (TransportError::Mismatch { origin, .. }, Some(sniff::PAGE)) => {
                Err(TransportError::NotTheFile { origin, found: sniff::PAGE.to_owned() })
            }
            (error, _) => Err(error),
        }
    }

    async fn attempt(&mut self) -> Result<(), Attempt> {
        if self.partial.length() > self.want.bound() {
            self.partial.clear()?;
        }
        if self.partial.length() > 0 && self.want.size == Some(self.partial.length()) {
            return Ok(());
        }
        let etag = self.resumable()?;
        let offset = self.partial.length();
        self.fresh |= offset == 0;
        self.pieced = offset > 0;
        let range = (offset > 0).then_some((offset, etag.as_deref()));
        let response = self.source.send(self.options, Method::GET, range).await?;
        let response = match response.status() {
            StatusCode::PARTIAL_CONTENT if offset > 0 => {
                self.total = Some(self.check_range(&response, offset)?);
                response
            }
            StatusCode::RANGE_NOT_SATISFIABLE if offset > 0 => return self.past_the_end(&response, offset),
            StatusCode::OK => {
                self.partial.clear()?;
                self.fresh = true;
                self.pieced = false;
                self.total = response.content_length();
                response
            }
            _ => self
                .source
                .answered(self.options, response)
                .and_then(|response| Err(self.source.again(format!("unexpected status {}", response.status()))))?,
        };
        self.check_head(&response)?;
        let small = self.want.digest.is_some() && self.want.size.or(self.total).is_some_and(|size| size < SMALL);
        if self.partial.length() == 0 && !small {
            self.partial.note_came(&Came { url: self.source.origin(), etag: strong_etag(&response) })?;
        }
        self.body(response).await
    }

    /// Clears what cannot be resumed; the entity tag that must still hold for the rest.
    fn resumable(&mut self) -> Result<Option<String>, TransportError> {
        if self.partial.length() == 0 {
            return Ok(None);
        }
        let came = self.partial.came().filter(|came| came.url == self.source.origin());
        let etag = came.and_then(|came| came.etag);
        // Without a digest to check, only the tag says that the rest belongs to the beginning.
        if etag.is_none() && self.want.digest.is_none() {
            self.partial.clear()?;
        }
        Ok(etag)
    }

    /// Checks that a 206 continues where we are; the size of the whole.
    fn check_range(&mut self, response: &Response, offset: u64) -> Result<u64, Attempt> {
        let text = header_text(response, header::CONTENT_RANGE).unwrap_or_default();
        let parsed = text.strip_prefix("bytes ").and_then(|rest| {
            let (range, total) = rest.split_once('/')?;
            let (first, last) = range.split_once('-')?;
            Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?, total.parse::<u64>().ok()?))
        });
        match parsed {
            Some((first, last, total)) if first == offset && last.checked_add(1) == Some(total) => Ok(total),
            _ => {
                self.partial.clear()?;
                Err(self.source.again(format!("asked from byte {offset} on, got Content-Range {text:?}")))
            }
        }
    }

    /// A 416: either we have it all, or what we have is of another file.
    fn past_the_end(&mut self, response: &Response, offset: u64) -> Result<(), Attempt> {
        let total = header_text(response, header::CONTENT_RANGE).unwrap_or_default();
        if self.want.size.is_none() && total.strip_prefix("bytes */").and_then(|t| t.parse().ok()) == Some(offset) {
            return Ok(());
        }
        self.partial.clear()?;
        Err(self.source.again("the rest is no longer there"))
    }

    /// Refuses by its head what cannot be the file, before any byte is written.
    fn check_head(&mut self, response: &Response) -> Result<(), TransportError> {
        let origin = self.source.origin();
        if let Some(encoding) = header_text(response, header::CONTENT_ENCODING).filter(|e| *e != "identity") {
            return Err(TransportError::NotTheFile { origin, found: format!("a body encoded with {encoding}") });
        }
        self.looks_like = header_text(response, header::CONTENT_TYPE).and_then(sniff::by_content_type);
        if self.want.refuse_html
            && let Some(found) = self.looks_like
        {
            return Err(TransportError::NotTheFile { origin, found: found.to_owned() });
        }
        if let (Some(expected), Some(found)) = (self.want.size, self.total)
            && expected != found
        {
            return Err(TransportError::WrongSize { origin, expected, found });
        }
        let checked = self.want.check_bound(&origin, self.total);
        if checked.is_err() {
            self.partial.clear()?;
        }
        checked
    }

    async fn body(&mut self, response: Response) -> Result<(), Attempt> {
        let mut stream = response.bytes_stream();
        let mut gathered = Gathered { bytes: Vec::with_capacity(GATHER), begun: self.partial.length() > 0 };
        let mut crawl = Crawl::default();
        let end = loop {
            let asked = Instant::now();
            match next_chunk(self.source, self.options, &mut stream).await {
                Ok(Some(chunk)) => {
                    self.take(&mut gathered, &chunk).await?;
                    if let Some(rate) = crawl.came(chunk.len(), asked.elapsed(), self.options) {
                        self.crawls = true;
                        break Err(self.source.again(format!("only {rate} bytes a second")));
                    }
                    self.clients.schedule.pace(chunk.len()).await;
                }
                Ok(None) => break Ok(()),
                Err(attempt) => break Err(attempt),
            }
        };
        // What came before a break is good: the next try continues behind it.
        self.flush(&mut gathered).await?;
        end?;
        match self.total {
            Some(total) if self.partial.length() < total => {
                let reason = format!("cut off after {} of {total} bytes", self.partial.length());
                Err(self.source.again(reason))
            }
            _ => Ok(()),
        }
    }

    async fn take(&mut self, gathered: &mut Gathered, chunk: &Bytes) -> Result<(), Attempt> {
        gathered.bytes.extend_from_slice(chunk);
        let length = self.partial.length() + gathered.bytes.len() as u64;
        if length > self.want.bound() {
            self.partial.clear()?;
            let origin = self.source.origin();
            return Err(match self.want.size {
                Some(expected) => TransportError::WrongSize { origin, expected, found: length },
                None => TransportError::TooLarge { origin, most: self.want.bound() },
            }
            .into());
        }
        if !gathered.begun && gathered.bytes.len() >= sniff::HEAD {
            self.sniff(gathered)?;
        }
        (self.progress)(length, self.want.size.or(self.total));
        if gathered.bytes.len() >= GATHER {
            self.flush(gathered).await?;
        }
        Ok(())
    }

    fn sniff(&mut self, gathered: &mut Gathered) -> Result<(), TransportError> {
        gathered.begun = true;
        let head = &gathered.bytes[..gathered.bytes.len().min(sniff::HEAD)];
        self.looks_like = self.looks_like.or(sniff::by_first_bytes(head));
        match self.looks_like.filter(|_| self.want.refuse_html) {
            Some(found) => Err(TransportError::NotTheFile { origin: self.source.origin(), found: found.to_owned() }),
            None => Ok(()),
        }
    }

    async fn flush(&mut self, gathered: &mut Gathered) -> Result<(), TransportError> {
        if gathered.bytes.is_empty() {
            return Ok(());
        }
        if !gathered.begun {
            self.sniff(gathered)?;
        }
        self.partial.write(&gathered.bytes, self.want.size.or(self.total))?;
        gathered.bytes.clear();
        // So much is hashed and written in well under a millisecond; the other transfers get their turn here.
        tokio::task::yield_now().await;
        Ok(())
    }
}

/// Tells a connection that crawls from one that works: by the time that was spent waiting for it, not by what we took our
/// time for ourselves.
#[derive(Default)]
struct Crawl {
    waited: Duration,
    bytes: u64,
}

impl Crawl {
    /// Bytes a second, when that is too few.
    fn came(&mut self, bytes: usize, waited: Duration, options: &HttpOptions) -> Option<u64> {
        self.bytes += bytes as u64;
        self.waited += waited;
        if self.waited < 2 * options.stall_timeout {
            return None;
        }
        let rate = (self.bytes as f64 / self.waited.as_secs_f64()) as u64;
        *self = Self::default();
        (rate < options.slowest).then_some(rate)
    }
}

/// Bytes on their way to the disk, and whether the first ones have been looked at.
struct Gathered {
    bytes: Vec<u8>,
    begun: bool,
}

fn header_text(response: &Response, name: header::HeaderName) -> Option<&str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// A weak tag does not promise the same bytes (RFC 9110, 13.1.5).
fn strong_etag(response: &Response) -> Option<String> {
    header_text(response, header::ETAG).filter(|etag| etag.starts_with('"')).map(str::to_owned)
}
