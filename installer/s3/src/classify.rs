//! What failed requests and refusals mean: which may be tried again, and which mend themselves by no trying.

use std::time::{Duration, SystemTime};

use kubexm_spec::{error_chain, one_line};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use crate::call::Call;
use crate::error::S3Error;
use crate::options::S3Options;
use crate::xml;

/// Of what a server says of itself, in characters.
const LONGEST_LINE: usize = 300;

/// A try that failed.
#[derive(Debug)]
pub struct Failed {
    pub error: S3Error,
    /// Whether another try may succeed.
    pub again: bool,
    /// How long the server asks to be left alone.
    pub after: Option<Duration>,
}

impl From<S3Error> for Failed {
    fn from(error: S3Error) -> Self {
        Self { error, again: false, after: None }
    }
}

/// Who is asked, and in which bucket.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub options: &'a S3Options,
    pub bucket: &'a str,
}

/// A refusal as it came.
pub struct Refusal<'a> {
    pub status: StatusCode,
    pub headers: &'a HeaderMap,
    /// The beginning of its body.
    pub body: &'a [u8],
}

impl Asked<'_> {
    fn at(&self) -> String {
        self.options.endpoint.shown().to_owned()
    }

    /// What a server said, in one short line, without what we have sent it in secret.
    pub fn shown(&self, text: &str) -> String {
        let credentials = &self.options.credentials;
        let token = credentials.session_token.as_ref().map(|token| token.as_str());
        let secrets = [Some(credentials.secret_key.as_str()), token, Some(credentials.access_key.as_str())];
        let mut text = text.to_owned();
        for secret in secrets.into_iter().flatten() {
            text = text.replace(secret, "…");
        }
        let line: String = one_line(text.trim()).chars().take(LONGEST_LINE).collect();
        line
    }

    /// A request that got no answer, or whose answer broke off.
    pub fn broken(&self, error: &reqwest::Error) -> Failed {
        let text = chain_of(error);
        let at = self.at();
        // A certificate does not become right by asking again, and neither does a port that does not speak TLS.
        if text.contains("invalid peer certificate") {
            let reason = match text.contains("CaUsedAsEndEntity") {
                true => {
                    "it is a CA's own, which a server does not show: have one for the server signed by it".to_owned()
                }
                false => self.shown(&text),
            };
            return S3Error::Certificate { at, reason }.into();
        }
        if text.contains("InvalidContentType") {
            return S3Error::NotTls { at }.into();
        }
        if error.is_timeout() {
            return self.silent();
        }
        let reason = self.shown(&text);
        let again = !error.is_builder() && !error.is_redirect();
        Failed { error: S3Error::Down { at, reason }, again, after: None }
    }

    /// Nothing came for too long.
    pub fn silent(&self) -> Failed {
        let reason = "nothing came in time".to_owned();
        Failed { error: S3Error::Down { at: self.at(), reason }, again: true, after: None }
    }

    /// What a status and the document with it mean.
    pub fn refused(&self, call: &Call, refusal: &Refusal<'_>) -> Failed {
        let document = xml::read(refusal.body, "").ok().filter(|document| document.root == "Error");
        let fields = document.map(|document| document.fields).unwrap_or_default();
        let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
        let (code, message) = (self.shown(field("Code")), self.shown(field("Message")));
        let status = refusal.status;
        let reason = match (code.as_str(), message.as_str()) {
            ("", _) => status.to_string(),
            (code, "") => format!("{code} ({status})"),
            (code, message) => format!("{code} ({status}): {message}"),
        };
        let (what, at) = (call.what.clone(), self.at());
        let header = |name: &str| refusal.headers.get(name).and_then(|value| value.to_str().ok());
        let again = |reason: String| Failed {
            error: S3Error::Down { at: at.clone(), reason },
            again: true,
            after: header("retry-after").and_then(|text| text.trim().parse().ok()).map(Duration::from_secs),
        };
        // By code first, since servers do not agree on the status of some.
        let known = match code.as_str() {
            "SignatureDoesNotMatch" => Some(S3Error::Signature { at: at.clone() }),
            "InvalidAccessKeyId" => Some(S3Error::UnknownKey { at: at.clone() }),
            "ExpiredToken" | "InvalidToken" | "InvalidTokenId" | "TokenRefreshRequired" => {
                Some(S3Error::Token { at: at.clone() })
            }
            "RequestTimeTooSkewed" => {
                Some(S3Error::Clock { at: at.clone(), difference: difference(header("date"), SystemTime::now()) })
            }
            "NoSuchBucket" => Some(S3Error::NoBucket { at: at.clone(), bucket: self.bucket.to_owned() }),
            "NoSuchKey" | "NoSuchUpload" => Some(S3Error::NoObject { what: what.clone() }),
            "XMinioStorageFull" | "QuotaExceeded" | "XMinioAdminBucketQuotaExceeded" => {
                Some(S3Error::Full { what: what.clone(), code: code.clone() })
            }
            "PermanentRedirect"
            | "AuthorizationHeaderMalformed"
            | "IllegalLocationConstraintException"
            | "InvalidRegion" => Some(self.region(&what, header("x-amz-bucket-region").unwrap_or(field("Region")))),
            _ => None,
        };
        if let Some(error) = known {
            return error.into();
        }
        match (status.as_u16(), code.as_str()) {
            (
                _,
                "SlowDown"
                | "RequestTimeout"
                | "InternalError"
                | "OperationAborted"
                | "BadDigest"
                | "IncompleteBody"
                | "XAmzContentSHA256Mismatch"
                | "ServiceUnavailable",
            ) => again(reason),
            (408 | 429 | 500 | 502 | 503 | 504, _) => again(reason),
            (507, _) => S3Error::Full { what, code: reason }.into(),
            (300..=399, _) => match header("x-amz-bucket-region") {
                Some(region) => self.region(&what, region).into(),
                None => {
                    let to = header("location").and_then(|to| to.parse::<reqwest::Url>().ok());
                    let to = to.and_then(|to| to.host_str().map(|host| format!(" ({})", self.shown(host))));
                    S3Error::Redirect { what, at, to: to.unwrap_or_default() }.into()
                }
            },
            (401 | 403, _) => {
                let resource = match call.key {
                    Some(_) => "its objects".to_owned(),
                    None => format!("the bucket {}", self.bucket),
                };
                let said = if message.is_empty() { String::new() } else { format!(". It says: {message}") };
                let code = if code.is_empty() { status.to_string() } else { code };
                S3Error::Denied { what, code, permission: call.permission, resource, said }.into()
            }
            (404, _) if call.key.is_none() => S3Error::NoBucket { at, bucket: self.bucket.to_owned() }.into(),
            (404, _) => S3Error::NoObject { what }.into(),
            (412, _) => S3Error::Changed { what }.into(),
            _ => S3Error::Refused { what, reason }.into(),
        }
    }

    /// With the region that the server names.
    fn region(&self, what: &str, region: &str) -> S3Error {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let hint = match !region.is_empty() && region.len() <= 64 && region.chars().all(plain) {
            true => format!(" but in {region}: give --s3-region {region} (or AWS_REGION)"),
            false => "; give its region with --s3-region (or AWS_REGION)".to_owned(),
        };
        S3Error::Region { what: what.to_owned(), used: self.options.region.clone(), hint }
    }
}

/// By how much the clocks differ, as far as the server says.
fn difference(date: Option<&str>, now: SystemTime) -> String {
    let Some(theirs) = date.and_then(|text| httpdate::parse_http_date(text).ok()) else {
        return "the clocks differ".to_owned();
    };
    let minutes = |by: Duration| format!("{} minutes", (by.as_secs() + 30) / 60);
    match now.duration_since(theirs) {
        Ok(by) => format!("the clock of this machine is {} ahead of it", minutes(by)),
        Err(error) => format!("the clock of this machine is {} behind it", minutes(error.duration())),
    }
}

/// What `reqwest` says, without the address.
fn chain_of(error: &reqwest::Error) -> String {
    let text = error_chain(error);
    match (text.find(" for url ("), text.find("): ")) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &text[..from], &text[to + 1..]),
        (Some(from), _) => text[..from].to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_how_much_the_clocks_differ_is_said() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let theirs = httpdate::fmt_http_date(at(1_000_000));
        assert!(difference(Some(&theirs), at(1_001_800)).ends_with("30 minutes ahead of it"));
        assert!(difference(Some(&theirs), at(996_400)).ends_with("60 minutes behind it"));
        assert_eq!(difference(Some("noon"), at(0)), "the clocks differ");
    }
}
