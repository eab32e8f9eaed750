//! What answers and errors of `reqwest` say.

use std::time::{Duration, SystemTime};

use reqwest::header::{self, HeaderMap};

use kubexm_spec::error_chain;

/// What `reqwest` says, with its causes. It puts the whole address into its text, query and all; the origin is named by us.
pub(crate) fn text_of(error: &reqwest::Error) -> String {
    error_chain(&WithoutUrl(error))
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

/// `Retry-After`, in seconds or as a date (RFC 9110, 10.2.3).
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok(),
    }
}
