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

/// How long an origin asks to be left alone: `Retry-After`, in seconds or as a date (RFC 9110, 10.2.3), or the second at which the
/// limit of requests starts anew (`X-RateLimit-Reset` of GitHub's REST API).
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(text) = text(header::RETRY_AFTER.as_str()) {
        return match text.parse() {
            Ok(seconds) => Some(Duration::from_secs(seconds)),
            Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok(),
        };
    }
    if !limit_is_reached(headers) {
        return None;
    }
    let reset = Duration::from_secs(text(LIMIT_RESET)?.parse().ok()?);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    // The clocks may differ by a part of the second that the origin does not name.
    Some(reset.saturating_sub(now) + Duration::from_secs(1))
}

/// Whether an answer says that no request is left before the limit starts anew.
pub(crate) fn limit_is_reached(headers: &HeaderMap) -> bool {
    headers.get(LIMIT_REMAINING).is_some_and(|left| left.as_bytes().trim_ascii() == b"0")
}

const LIMIT_REMAINING: &str = "x-ratelimit-remaining";
const LIMIT_RESET: &str = "x-ratelimit-reset";
