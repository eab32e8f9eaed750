//! What failed requests and answers mean: which may be tried again, when, and which may not; and whose doing it is, the
//! origin's or that of a proxy before it.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode, Url};

use crate::address::host_of;
use crate::attempt::{Attempt, Why};
use crate::proxy::Proxy;
use crate::response::{limit_is_reached, retry_after, text_of};
use crate::source::Source;
use crate::watch::seconds;
use crate::{HttpOptions, TransportError};

/// No limit of requests lasts longer.
const LONGEST_LIMIT: Duration = Duration::from_secs(30 * 86_400);
/// What rustls says of an answer that is no TLS.
pub(crate) const NOT_TLS: &str = "InvalidContentType";
/// rustls's message for a certificate that is not the origin's, or not by a trusted CA.
const WRONG_CERTIFICATE: &str = "invalid peer certificate";
/// What [`NOT_TLS`] is for people.
pub(crate) const NOT_TLS_TEXT: &str =
    "it does not speak https there; if plain http is intended, allow it (--plain-http; plainHttp in a zone)";

/// What hyper writes before the error of the resolver, and what the system says where no route leads there (ENETUNREACH).
const NO_NETWORK: [&str; 2] = ["dns error", "Network is unreachable"];

/// What rustls writes before an alert of the other side.
const ALERT: &str = "received fatal alert: ";
/// Alerts that are about the certificate of a client, or that there is none (RFC 8446, 6.2).
const OF_CLIENTS: [&str; 7] = [
    "CertificateRequired",
    "BadCertificate",
    "CertificateUnknown",
    "CertificateExpired",
    "CertificateRevoked",
    "UnknownCA",
    "AccessDenied",
];

/// The alert by which an origin refuses us for our certificate.
fn alert_of(text: &str) -> Option<&'static str> {
    let (_, alert) = text.split_once(ALERT)?;
    OF_CLIENTS.into_iter().find(|known| alert.starts_with(known))
}

impl Source<'_> {
    /// What a request that got no answer means; `patience` is the time limit for asking the proxy why it refuses.
    pub async fn failed_to_send(&self, error: &reqwest::Error, patience: Duration) -> Attempt {
        let to = error.url().unwrap_or(&self.url);
        match self.reach.proxies.of(to) {
            Some(proxy) if error.is_connect() => self.failed_at(&proxy, to, error, patience).await,
            _ => self.failed(error),
        }
    }

    /// The same through a proxy: what is its doing is reported as that.
    async fn failed_at(&self, proxy: &Proxy, to: &Url, error: &reqwest::Error, patience: Duration) -> Attempt {
        let text = text_of(error);
        if text.contains(WRONG_CERTIFICATE) {
            return self.unusable(format!(
                "{text}; the connection goes through the proxy {proxy}: if that inspects TLS, its CA is the one to trust (caFile)"
            ));
        }
        let reported = |reason: String, denied| TransportError::Proxy {
            origin: self.origin(),
            proxy: proxy.to_string(),
            reason,
            denied,
        };
        if text.contains("proxy authorization required") {
            let reason = "requires another login (407 Proxy Authentication Required)".to_owned();
            return Attempt::Fatal(reported(reason, true));
        }
        // The way was there, and what is at its other end is no TLS.
        if text.contains(NOT_TLS) {
            return self.failed(error);
        }
        if error.is_timeout() {
            let error = reported("does not connect to it in time".to_owned(), false);
            return Attempt::Again { error, why: Why::Silent };
        }
        if !text.contains("tunnel error: unsuccessful") {
            let does = if text.contains("tcp connect error") { "does not answer" } else { "does not connect to it" };
            let error = reported(format!("{does}: {text}"), false);
            return Attempt::Again { error, why: Why::Failed };
        }
        let refuses = format!("refuses the connection to {}", host_of(to));
        match proxy.refusal(to, patience).await {
            Some(status) if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS => {
                Attempt::Fatal(reported(format!("{refuses}: {status}"), true))
            }
            Some(status) => Attempt::Again { error: reported(format!("{refuses}: {status}"), false), why: Why::Failed },
            None => Attempt::Again { error: reported(refuses, false), why: Why::Failed },
        }
    }

    /// What a request that got no answer means, where no proxy is in question.
    pub fn failed(&self, error: &reqwest::Error) -> Attempt {
        let text = text_of(error);
        // A certificate does not become right by asking again.
        if text.contains(WRONG_CERTIFICATE) {
            return self.unusable(format!("{text}; give its CA (caFile), if it is meant to have one of its own"));
        }
        if let Some(alert) = alert_of(&text) {
            let (origin, alert) = (self.origin(), alert.to_owned());
            return Attempt::Fatal(TransportError::ClientCertificate { origin, alert });
        }
        // Nor does a port that answers TLS with something else.
        if text.contains(NOT_TLS) {
            return self.unusable(NOT_TLS_TEXT.to_owned());
        }
        if error.is_builder() || error.is_redirect() {
            return self.unusable(text);
        }
        // Most likely there is no network, and then nobody waits for it for long.
        let unreachable = NO_NETWORK.iter().any(|known| text.contains(known));
        if error.is_timeout() || (unreachable && self.is_alone()) { self.silent(text) } else { self.again(text) }
    }

    /// The response when it is a success, else what its status means.
    pub fn answered(&self, options: &HttpOptions, response: Response) -> Result<Response, Attempt> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        Err(self.refused(options, status, response.headers()))
    }

    /// Through which proxy it is asked, where nobody can tell which of the two it is that answers or does not.
    pub(crate) fn through(&self) -> String {
        match self.reach.proxies.of(&self.url) {
            Some(proxy) if self.url.scheme() == "http" => format!(", asked through the proxy {proxy}"),
            _ => String::new(),
        }
    }

    pub fn refused(&self, options: &HttpOptions, status: StatusCode, headers: &HeaderMap) -> Attempt {
        let proxy = self.reach.proxies.of(&self.url);
        if let Some(proxy) = proxy.as_ref().filter(|_| status == StatusCode::PROXY_AUTHENTICATION_REQUIRED) {
            let (origin, proxy) = (self.origin(), proxy.to_string());
            let reason = format!("requires another login ({status})");
            return Attempt::Fatal(TransportError::Proxy { origin, proxy, reason, denied: true });
        }
        let (origin, reason) = (self.origin(), format!("{status}{}", self.through()));
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => Attempt::Fatal(TransportError::Missing { origin, reason }),
            // GitHub's REST API refuses so what is over its limit; no login is missing.
            StatusCode::FORBIDDEN if limit_is_reached(headers) => self.over_the_limit(options, &reason, headers),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Attempt::Fatal(TransportError::Denied { origin, reason })
            }
            // It will not know how the next time either.
            StatusCode::NOT_IMPLEMENTED => self.unusable(reason),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                self.later(options, reason, headers)
            }
            _ if status.is_server_error() => self.later(options, reason, headers),
            _ => self.unusable(format!("unexpected status {reason}")),
        }
    }

    /// What it says that it cannot do now.
    fn later(&self, options: &HttpOptions, reason: String, headers: &HeaderMap) -> Attempt {
        let longest = options.backoff_max;
        match retry_after(headers) {
            Some(after) if after > longest => {
                let asked = format!("it requests a pause of {} s (Retry-After)", after.as_secs());
                let reason = format!("{reason}; {asked}, and no wait is longer than {}", seconds(longest));
                self.attempt(reason, Why::Reported(after))
            }
            Some(after) => self.attempt(reason, Why::Reported(after)),
            None => self.again(reason),
        }
    }

    /// A limit of requests that starts anew at a known time. Where that is later than any wait, asking before it is of no use.
    fn over_the_limit(&self, options: &HttpOptions, reason: &str, headers: &HeaderMap) -> Attempt {
        match retry_after(headers) {
            Some(after) if after > options.backoff_max => {
                // A header may hold any number, and a date has no more than four digits for its year.
                let after = after.min(LONGEST_LIMIT);
                let until = httpdate::fmt_http_date(SystemTime::now() + after);
                Attempt::Fatal(TransportError::Limited {
                    origin: self.origin(),
                    reason: reason.to_owned(),
                    until,
                    after,
                })
            }
            _ => self.later(options, format!("{reason}: its limit of requests is reached"), headers),
        }
    }
}
