//! Requests to one bucket: signed, with limits on what is answered, tried again where that may help.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use kubexm_spec::Digest;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url, redirect};
use rustls_pki_types::CertificateDer;
use time::OffsetDateTime;

use crate::address::S3Address;
use crate::call::Call;
use crate::classify::{Asked, Failed, Refusal};
use crate::encode::encode;
use crate::error::S3Error;
use crate::options::S3Options;
use crate::sign::{ToSign, amz_date, authorization};
use crate::watch::Watch;

/// Of an answer that is a document, in bytes. A page of a listing has some 600 KiB.
const DOCUMENT_LIMIT: usize = 8 << 20;
/// Of a refusal, in bytes.
const REFUSAL_LIMIT: usize = 64 << 10;
/// Of a body that is sent at once, whatever the connection is, in bytes.
const SHORT: usize = 64 << 10;

/// A client of one bucket.
#[derive(Clone, Debug)]
pub struct S3Client {
    http: reqwest::Client,
    options: S3Options,
    bucket: String,
}

/// A short answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl S3Client {
    /// Asks nobody yet.
    ///
    /// # Errors
    /// The client cannot be made.
    pub fn new(options: S3Options, address: &S3Address) -> Result<Self, S3Error> {
        let failed = |error: reqwest::Error| S3Error::Setting {
            what: "the HTTP client".to_owned(),
            problem: format!("cannot be made: {}", kubexm_spec::error_chain(&error)),
        };
        let certificate = |der: &CertificateDer<'_>| reqwest::Certificate::from_der(der).map_err(failed);
        let builder = reqwest::Client::builder();
        let builder = match &options.authorities {
            Some((_, all)) => builder.tls_certs_only(all.iter().map(certificate).collect::<Result<Vec<_>, _>>()?),
            // Named one by one: a machine without a folder of CAs otherwise gets no client at all, not even for http.
            None => {
                let all = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
                builder.tls_certs_merge(all.map(certificate).collect::<Result<Vec<_>, _>>()?)
            }
        };
        let http = builder
            // A signed request goes to nobody else.
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(options.patience.silence.min(Duration::from_secs(20)))
            .user_agent(&options.user_agent)
            .build()
            .map_err(failed)?;
        Ok(Self { http, options, bucket: address.bucket().to_owned() })
    }

    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { options: &self.options, bucket: &self.bucket }
    }

    /// `s3://bucket/key`, for people.
    pub(crate) fn shown(&self, key: &str) -> String {
        format!("s3://{}/{}", self.bucket, kubexm_spec::one_line(key))
    }

    /// What a server answered is none. The reason may repeat what it wrote.
    pub(crate) fn misfit(&self, call: &Call, reason: impl Into<String>) -> S3Error {
        let (what, at) = (call.what.clone(), self.options.endpoint.shown().to_owned());
        let reason: String = reason.into();
        S3Error::Answer { what, at, reason: self.asked().shown(&reason) }
    }

    /// How long one try may take, its answer included. (`reqwest`'s limit of silence counts what is sent as silence.)
    fn limit(&self, call: &Call) -> Duration {
        let patience = &self.options.patience;
        match call.body.len() > SHORT || call.method == Method::POST {
            true => patience.request,
            false => patience.silence,
        }
    }

    /// The same for what can wait for ever: it may for as long as nothing comes.
    pub(crate) async fn patiently<T>(&self, work: impl Future<Output = T>) -> Result<T, Failed> {
        let silent = |_| self.asked().silent();
        tokio::time::timeout(self.options.patience.silence, work).await.map_err(silent)
    }

    /// One try; the answer's body is not read yet. A refusal is an error.
    pub(crate) async fn send(&self, call: &Call, limit: Option<Duration>) -> Result<Response, Failed> {
        let pairs: Vec<(String, String)> =
            call.query.iter().map(|(name, value)| (encode(name, false), encode(value, false))).collect();
        let url = self.options.endpoint.address(&self.bucket, call.key.as_deref(), &pairs)?;
        let headers = self.signed(call, &url, &pairs);
        let mut request = self.http.request(call.method.clone(), url).body(call.body.clone());
        for (name, value) in headers {
            let mut value = HeaderValue::try_from(value).map_err(|_| S3Error::Setting {
                what: format!("the header {name}"),
                problem: "cannot be sent: it has a character that no header has".to_owned(),
            })?;
            // No log of a client shows them.
            value.set_sensitive(["authorization", "x-amz-security-token"].contains(&name.as_str()));
            request = request.header(name, value);
        }
        if let Some(limit) = limit {
            request = request.timeout(limit);
        }
        let response = request.send().await.map_err(|error| self.asked().broken(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, headers) = (response.status(), response.headers().clone());
        // What it says beside its status is of use, and not needed.
        let body = self.read(response, REFUSAL_LIMIT).await.ok().flatten().unwrap_or_default();
        Err(self.asked().refused(call, &Refusal { status, headers: &headers, body: &body }))
    }

    /// Headers with their signature. `host` is signed, and sent by the client.
    fn signed(&self, call: &Call, url: &Url, query: &[(String, String)]) -> Vec<(String, String)> {
        let time = OffsetDateTime::from(SystemTime::now());
        let payload = Digest::of(&call.body).hex();
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let mut headers: Vec<(String, String)> =
            call.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        headers.push(("host".to_owned(), host));
        headers.push(("x-amz-date".to_owned(), amz_date(time)));
        headers.push(("x-amz-content-sha256".to_owned(), payload.clone()));
        if let Some(token) = &self.options.credentials.session_token {
            headers.push(("x-amz-security-token".to_owned(), token.to_string()));
        }
        let method = call.method.as_str();
        let to_sign = ToSign { method, path: url.path(), query, headers: &headers, payload: &payload, time };
        let value = authorization(&to_sign, &self.options.credentials, &self.options.region);
        headers.retain(|(name, _)| name != "host");
        headers.push(("authorization".to_owned(), value));
        headers
    }

    /// A body up to a limit; none if it is longer.
    async fn read(&self, mut response: Response, limit: usize) -> Result<Option<Bytes>, Failed> {
        let mut body = Vec::new();
        while let Some(piece) = self.patiently(response.chunk()).await?.map_err(|error| self.asked().broken(&error))? {
            if body.len() + piece.len() > limit {
                return Ok(None);
            }
            body.extend_from_slice(&piece);
        }
        Ok(Some(body.into()))
    }

    async fn answered(&self, call: &Call) -> Result<Answer, Failed> {
        let response = self.send(call, Some(self.limit(call))).await?;
        let headers = response.headers().clone();
        match self.read(response, DOCUMENT_LIMIT).await? {
            // Some operations answer 200 before they know how they end.
            Some(body) if is_error(&body) => {
                let refusal = Refusal { status: StatusCode::OK, headers: &headers, body: &body };
                Err(self.asked().refused(call, &refusal))
            }
            Some(body) => Ok(Answer { headers, body }),
            None => Err(self.misfit(call, format!("its answer has more than {DOCUMENT_LIMIT} bytes")).into()),
        }
    }

    /// A request with a short answer, tried again where that may help.
    pub(crate) async fn call(&self, call: &Call, watch: &dyn Watch) -> Result<Answer, S3Error> {
        let mut tries = Tries::new(self, watch);
        loop {
            match self.answered(call).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => tries.wait(failed).await?,
            }
        }
    }

    /// Tries of one request.
    pub(crate) fn tries<'a>(&'a self, watch: &'a dyn Watch) -> Tries<'a> {
        Tries::new(self, watch)
    }
}

/// Whether a document says that something failed.
fn is_error(body: &[u8]) -> bool {
    let start = body.get(..body.len().min(1024)).unwrap_or_default();
    let start = String::from_utf8_lossy(start);
    start.contains("<Error>") || start.contains("<Error ")
}

/// Tries of one request: how many are left, and the pause before the next.
pub(crate) struct Tries<'a> {
    client: &'a S3Client,
    watch: &'a dyn Watch,
    done: u32,
}

impl<'a> Tries<'a> {
    fn new(client: &'a S3Client, watch: &'a dyn Watch) -> Self {
        Self { client, watch, done: 0 }
    }

    /// Bytes came: the server is alive.
    pub fn progress(&mut self) {
        self.done = 0;
    }

    /// Waits before the next try, or gives the error back when there is none.
    pub async fn wait(&mut self, failed: Failed) -> Result<(), S3Error> {
        let patience = &self.client.options.patience;
        self.done += 1;
        if self.watch.is_stopped() {
            return Err(S3Error::Stopped);
        }
        if !failed.again || self.done >= patience.tries {
            return Err(failed.error);
        }
        let pause = patience.first_pause.saturating_mul(1 << (self.done - 1).min(16));
        let pause = pause.max(failed.after.unwrap_or_default()).min(patience.longest_pause);
        tracing::debug!(error = %failed.error, pause_ms = pause.as_millis(), "trying again");
        let at = self.client.options.endpoint.shown();
        let reason = match &failed.error {
            S3Error::Down { reason, .. } => reason.clone(),
            error => error.to_string(),
        };
        self.watch.waiting(at, &reason, (self.done, patience.tries), pause);
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
