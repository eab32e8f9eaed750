//! HTTPS requests over connections that stay open: a server that is asked often takes longer to agree on keys than to answer.

use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, USER_AGENT};
use reqwest::redirect::Policy;
use reqwest::{Client, Method};

use super::https::{self, ANSWER_LIMIT, JSON, LIMIT};
use crate::OpError;
use crate::system::{Connections, HttpsAnswer, HttpsRequest};

/// How long a connection stays open that nobody uses. What is on its way to another host, or to none, is soon not used any more.
const IDLE: Duration = Duration::from_secs(2);
/// For a whole request, as kubexm's kubectl has it: a webhook may take ten seconds of that.
const LONGEST: Duration = Duration::from_secs(30);
/// How long nothing of what was sent may be confirmed: then the connection is broken.
const UNCONFIRMED: Duration = Duration::from_secs(5);

/// The answer to a request. Those of one set of connections have one CA and one certificate. One that gets no answer over a connection that
/// was there is sent once more over another: who was at its other end may be gone, and others may have its address.
pub(crate) fn request(connections: &Connections, request: &HttpsRequest<'_>) -> Result<HttpsAnswer, OpError> {
    let begun = Instant::now();
    match connections.run(|| client(request), async |client| ask(client, request).await) {
        Err(_) if begun.elapsed() < LIMIT => https::request(request),
        answer => answer,
    }
}

fn client(request: &HttpsRequest<'_>) -> Result<Client, OpError> {
    let identity = (!request.certificate.is_empty()).then_some((request.certificate, request.key));
    let client = Client::builder()
        .tls_backend_preconfigured(https::config(request.url, request.ca, identity)?)
        .http1_only()
        .no_proxy()
        .redirect(Policy::none())
        .pool_idle_timeout(IDLE)
        .connect_timeout(LIMIT)
        .tcp_user_timeout(UNCONFIRMED)
        .timeout(LONGEST)
        .build();
    client.map_err(|error| OpError::other(format!("{}: {}", request.url, kubexm_spec::error_chain(&error))))
}

async fn ask(client: &Client, request: &HttpsRequest<'_>) -> Result<HttpsAnswer, OpError> {
    let bad = |what: &dyn std::fmt::Display| OpError::other(format!("{}: {what}", request.url));
    let failed = |error: reqwest::Error| bad(&kubexm_spec::error_chain(&error.without_url()));
    let method = Method::from_bytes(request.method.as_bytes()).map_err(|error| bad(&error))?;
    let mut asked = client.request(method, request.url);
    asked = asked.header(USER_AGENT, "kubexm-install").header(ACCEPT, request.accept.unwrap_or(JSON));
    if let Some(login) = request.login {
        asked = asked.header(AUTHORIZATION, login);
    }
    if !request.body.is_empty() {
        asked = asked.header(CONTENT_TYPE, request.content.unwrap_or(JSON)).body(request.body.to_owned());
    }
    let mut answer = asked.send().await.map_err(failed)?;
    let status = answer.status().as_u16();
    let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok()).map(str::to_owned);
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        body.extend_from_slice(&chunk);
        if body.len() as u64 >= ANSWER_LIMIT {
            return Err(bad(&format!("the response is longer than {} MiB", ANSWER_LIMIT >> 20)));
        }
    }
    Ok(HttpsAnswer { status, date, body })
}
