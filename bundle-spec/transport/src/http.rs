//! Files over HTTP(S): several candidates in order, resumed, verified, into the store.

use std::sync::Arc;

use reqwest::header::{self, HeaderValue};
use reqwest::{Method, Response, StatusCode};

pub use crate::address::shown;
use crate::attempt::Attempt;
use crate::clients::Clients;
use crate::retries::retried;
use crate::schedule::RetryPolicy;
use crate::source::{Source, next_chunk};
use crate::{
    Fetched, FileCandidate, Head, HttpOptions, LOCAL_FOLDER, Progress, Store, TransportError, Want, medium, transfer,
};

/// Fetches files. Cheap to clone; clones share connections and limits.
#[derive(Clone, Debug)]
pub struct HttpClient {
    clients: Arc<Clients>,
}

impl HttpClient {
    /// A client. The program must have installed rustls' provider before the first https request:
    /// `rustls::crypto::ring::default_provider().install_default()`.
    pub fn new(options: HttpOptions) -> Result<Self, TransportError> {
        Ok(Self { clients: Arc::new(Clients::new(options)?) })
    }

    pub(crate) fn clients(&self) -> &Arc<Clients> {
        &self.clients
    }

    /// Brings a file into the store: from there if it is there, else from the first candidate that sends the right
    /// bytes. `progress` gets bytes so far and in all. The error names what each candidate did.
    pub async fn fetch(
        &self,
        candidates: &[FileCandidate],
        want: &Want,
        store: &Store,
        progress: &Progress<'_>,
    ) -> Result<Fetched, TransportError> {
        if let Some(fetched) = transfer::in_store(store, want)? {
            progress(fetched.size, Some(fetched.size));
            return Ok(fetched);
        }
        if self.clients.options.offline {
            return Err(TransportError::NotCached { what: what(candidates, want) });
        }
        let mut tried: Vec<(Option<&str>, TransportError)> = Vec::new();
        let mut left: Vec<&FileCandidate> = candidates.iter().collect();
        while let Some((candidate, retry_policy)) = self.clients.schedule.next(&mut left, |candidate| candidate.host())
        {
            match self.fetch_one(candidate, retry_policy, want, store, progress).await {
                Ok(fetched) => return Ok(fetched),
                Err(error) if error.is_ours() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "a candidate is skipped");
                    tried.push((candidate.folder.as_deref(), error));
                }
            }
        }
        Err(TransportError::AllFailed { what: what(candidates, want), tried: medium::failures_by_folder(tried) })
    }

    async fn fetch_one(
        &self,
        candidate: &FileCandidate,
        retry_policy: RetryPolicy,
        want: &Want,
        store: &Store,
        progress: &Progress<'_>,
    ) -> Result<Fetched, TransportError> {
        if candidate.is_local() {
            let fetched = medium::fetch(candidate, want, store, progress).await?;
            store.note_from(&fetched.digest, LOCAL_FOLDER);
            return Ok(fetched);
        }
        let source = self.source(candidate, retry_policy)?;
        let fetched = transfer::fetch(&self.clients, &source, want, store, progress).await?;
        if fetched.url.is_some() {
            store.note_from(&fetched.digest, &shown(&candidate.url));
        }
        Ok(fetched)
    }

    fn source(&self, candidate: &FileCandidate, retry_policy: RetryPolicy) -> Result<Source<'static>, TransportError> {
        let (url, trusts) = candidate.parse()?;
        let source = Source::new(self.clients.get(&trusts)?, url, None).known(&self.clients, retry_policy);
        let source = source.with_credentials(candidate);
        Ok(source.counted(&self.clients.options))
    }

    /// The source of what is asked of one address alone; one whose host is down is tried once.
    pub(crate) fn only(&self, candidate: &FileCandidate) -> Result<Source<'static>, TransportError> {
        if self.clients.options.offline {
            return Err(TransportError::NotCached { what: shown(&candidate.url) });
        }
        let once = candidate.host().is_some_and(|host| self.clients.schedule.host(&host).is_down());
        self.source(candidate, RetryPolicy { once, others: false })
    }

    /// Whether it is a file of this machine, which is read as long as anything but the cache may be.
    pub(crate) fn reads(&self, candidate: &FileCandidate) -> Result<bool, TransportError> {
        if candidate.is_local() && self.is_offline() {
            return Err(TransportError::NotCached { what: shown(&candidate.url) });
        }
        Ok(candidate.is_local())
    }

    /// Whether nothing goes over the network.
    pub fn is_offline(&self) -> bool {
        self.clients.options.offline
    }

    /// A small body (a checksum file, a version list), at most `limit` bytes, kept nowhere.
    pub async fn get_small(&self, candidate: &FileCandidate, limit: u64) -> Result<Vec<u8>, TransportError> {
        if self.reads(candidate)? {
            return medium::read_small(candidate, limit).await;
        }
        let source = self.only(candidate)?;
        read_small(&self.clients, &source, limit).await
    }

    /// Asks about a file without fetching it: by HEAD, and where that is refused by a GET of its first byte. Some mirrors
    /// and gateways know no HEAD, or sign addresses for GET only.
    pub async fn head(&self, candidate: &FileCandidate) -> Result<Head, TransportError> {
        if self.reads(candidate)? {
            return medium::head(candidate).await;
        }
        let source = &self.only(candidate)?;
        let options = &self.clients.options;
        let _permit = self.clients.schedule.permit(&source.host(), Some(0)).await?;
        let reported = retried(source.retries(options), || async move {
            let response = source.send(options, Method::HEAD, None).await?;
            if NO_HEAD.contains(&response.status()) {
                return Ok(None);
            }
            Ok(Some(Head::of(&source.answered(options, response)?)))
        });
        if let Some(head) = reported.await? {
            return Ok(head);
        }
        let first = HeaderValue::from_static("bytes=0-0");
        let source = &self.only(candidate)?.under(vec![(header::RANGE, first)]);
        retried(source.retries(options), || async move {
            let response = source.send(options, Method::GET, None).await?;
            match response.status() {
                // An empty file has no first byte.
                StatusCode::RANGE_NOT_SATISFIABLE => Ok(Head::of(&response)),
                // The body, all of it where ranges are not known, is not read.
                _ => Ok(Head::of(&source.answered(options, response)?)),
            }
        })
        .await
    }
}

/// What says that a HEAD is not wanted, and nothing of the file.
const NO_HEAD: [StatusCode; 3] = [StatusCode::FORBIDDEN, StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_IMPLEMENTED];

impl Head {
    fn of(response: &Response) -> Self {
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let whole = match response.status() {
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                text(header::CONTENT_RANGE).and_then(|range| range.rsplit_once('/')).map(|(_, whole)| whole)
            }
            _ => text(header::CONTENT_LENGTH),
        };
        Self {
            size: whole.and_then(|length| length.parse().ok()),
            etag: text(header::ETAG).map(str::to_owned),
            content_type: text(header::CONTENT_TYPE).map(str::to_owned),
        }
    }
}

/// A body of at most `limit` bytes, tried as often as the options say.
pub(crate) async fn read_small(clients: &Clients, source: &Source<'_>, limit: u64) -> Result<Vec<u8>, TransportError> {
    let _permit = clients.schedule.permit(&source.host(), Some(0)).await?;
    retried(source.retries(&clients.options), || read_small_once(&clients.options, source, limit)).await
}

async fn read_small_once(options: &HttpOptions, source: &Source<'_>, limit: u64) -> Result<Vec<u8>, Attempt> {
    let response = source.answered(options, source.send(options, Method::GET, None).await?)?;
    read_body(options, source, response, limit).await
}

/// The body of an answer, of at most `limit` bytes.
pub(crate) async fn read_body(
    options: &HttpOptions,
    source: &Source<'_>,
    response: Response,
    limit: u64,
) -> Result<Vec<u8>, Attempt> {
    let mut body = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(chunk) = next_chunk(source, options, &mut stream).await? {
        if (body.len() + chunk.len()) as u64 > limit {
            let found = format!("more than {limit} bytes");
            return Err(TransportError::NotTheFile { origin: source.origin(), found }.into());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn what(candidates: &[FileCandidate], want: &Want) -> String {
    let name = candidates.first().map(|c| shown(&c.url)).unwrap_or_else(|| "a file".to_owned());
    let name = name.rsplit('/').next().unwrap_or_default().to_owned();
    match want.digest {
        Some(digest) => format!("{name} ({digest})"),
        None => name,
    }
}
