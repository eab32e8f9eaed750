//! Small files that change, asked for only when they did (RFC 9110, 13): the indexes of repositories.

use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use serde::{Deserialize, Serialize};

use crate::attempt::Attempt;
use crate::http::read_body;
use crate::retries::retried;
use crate::source::Source;
use crate::{FileCandidate, HttpClient, HttpOptions, TransportError, medium};

/// What an address said of a file, to ask it later whether it is still that one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Validators {
    /// `ETag`, as it was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// `Last-Modified`, as it was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

/// The answer of an address to a conditional request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is still the same.
    Same,
    /// It changed, or the address has no validators.
    Fresh {
        /// All of it.
        body: Vec<u8>,
        /// To be shown next time.
        validators: Validators,
    },
}

impl Validators {
    fn of(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Self { etag: text(header::ETAG), last_modified: text(header::LAST_MODIFIED) }
    }

    fn conditions(&self) -> Vec<(HeaderName, HeaderValue)> {
        let pairs = [(header::IF_NONE_MATCH, &self.etag), (header::IF_MODIFIED_SINCE, &self.last_modified)];
        let readable = |(name, value): (HeaderName, &Option<String>)| Some((name, value.as_deref()?.parse().ok()?));
        pairs.into_iter().filter_map(readable).collect()
    }
}

impl HttpClient {
    /// A body of at most `limit` bytes, unless it is still the one that `known` was reported about.
    pub async fn get_if_changed(
        &self,
        candidate: &FileCandidate,
        limit: u64,
        known: &Validators,
    ) -> Result<Answer, TransportError> {
        // A file of this machine is read as quickly as it is looked at.
        if self.reads(candidate)? {
            let body = medium::read_small(candidate, limit).await?;
            return Ok(Answer::Fresh { body, validators: Validators::default() });
        }
        let source = self.only(candidate)?.under(known.conditions());
        let clients = self.clients();
        let _permit = clients.schedule.permit(&source.host(), Some(0)).await?;
        retried(source.retries(&clients.options), || once(&clients.options, &source, limit)).await
    }
}

async fn once(options: &HttpOptions, source: &Source<'_>, limit: u64) -> Result<Answer, Attempt> {
    let response = source.send(options, Method::GET, None).await?;
    if response.status() == StatusCode::NOT_MODIFIED {
        return Ok(Answer::Same);
    }
    let response = source.answered(options, response)?;
    let validators = Validators::of(response.headers());
    Ok(Answer::Fresh { body: read_body(options, source, response, limit).await?, validators })
}
