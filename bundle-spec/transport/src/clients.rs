//! HTTP clients by trust: one for each set of CA files and plain-http permission, made when first needed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::redirect;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::error::chain;
use crate::proxy::Proxies;
use crate::schedule::Schedule;
use crate::source::host_of;
use crate::watch::Watch;
use crate::{Identity, TransportError};

/// Redirects that are followed.
const REDIRECTS: usize = 10;

/// How to talk to origins. The defaults suit the internet.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// CA certificates (PEM) to trust besides the system's roots and Mozilla's.
    pub ca_pem: Vec<Vec<u8>>,
    /// For a connection to be made.
    pub connect_timeout: Duration,
    /// From a request to the head of its answer, connecting included; a quarter of it for a host that did not answer before.
    pub answer_timeout: Duration,
    /// Without a single byte of a body before a connection is given up and the transfer resumed.
    pub stall_timeout: Duration,
    /// Tries after the first one that brought nothing new; a try that brought bytes starts the count anew.
    pub retries: usize,
    /// Tries in a row, the first one included, in which nothing came at all; whoever has another place to ask makes one.
    pub silent_tries: usize,
    /// The first wait between two tries; doubled each time, with jitter.
    pub backoff_min: Duration,
    /// The longest wait between two tries, and the longest `Retry-After` that is honoured. Who asks for more is asked once
    /// more after it, or not at all where another place can be asked.
    pub backoff_max: Duration,
    /// How long an origin may be waited for before [`HttpOptions::watch`] is told, and how often of one host.
    pub notice_after: Duration,
    /// Who is told when a transfer waits.
    pub watch: Watch,
    /// Transfers at the same time.
    pub parallel: usize,
    /// Transfers at the same time from one host.
    pub parallel_per_host: usize,
    /// Bytes that are asked for and not here yet, over all transfers; one transfer counts for at most 8 MiB. What makes
    /// many small files run at once, and few large ones.
    pub bytes_in_flight: u64,
    /// Bytes a second over all transfers of files and blobs, at most.
    pub limit_rate: Option<u64>,
    /// Bytes a second below which, over [`HttpOptions::stall_timeout`] twice, a connection counts as stalled.
    pub slowest: u64,
    /// Nothing goes over the network: what the store does not hold cannot be had.
    pub offline: bool,
    /// What we call ourselves.
    pub user_agent: String,
    /// Whether the environment's proxies are used (`HTTPS_PROXY` and its kin). Not between the hosts of a cluster.
    pub proxies: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            ca_pem: Vec::new(),
            connect_timeout: Duration::from_secs(15),
            answer_timeout: Duration::from_secs(20),
            stall_timeout: Duration::from_secs(30),
            retries: 5,
            silent_tries: 3,
            backoff_min: Duration::from_millis(500),
            backoff_max: Duration::from_secs(60),
            notice_after: Duration::from_secs(5),
            watch: Watch::default(),
            parallel: 32,
            parallel_per_host: 16,
            bytes_in_flight: 64 << 20,
            limit_rate: None,
            slowest: 512,
            offline: false,
            user_agent: concat!("kubexm/", env!("CARGO_PKG_VERSION")).to_owned(),
            proxies: true,
        }
    }
}

/// What a client trusts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trusts {
    /// A file of CA certificates besides the usual roots.
    pub ca_file: Option<PathBuf>,
    /// Who we are to whoever asks.
    pub identity: Option<Identity>,
    /// Whether `http://` may be used at all, redirects included.
    pub plain_http: bool,
}

/// How an origin is reached: the client, and the proxies that it goes through.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub client: reqwest::Client,
    pub proxies: Arc<Proxies>,
}

/// The clients and the limits that all transfers share.
#[derive(Debug)]
pub(crate) struct Clients {
    pub options: HttpOptions,
    pub schedule: Schedule,
    clients: Mutex<HashMap<Trusts, Reach>>,
    proxies: Arc<Proxies>,
}

impl Clients {
    /// Reads the CA certificates of the options, so that a wrong one is told before any transfer.
    pub fn new(options: HttpOptions) -> Result<Self, TransportError> {
        for (index, pem) in options.ca_pem.iter().enumerate() {
            certificates(pem, &format!("CA certificate {}", index + 1))?;
        }
        let schedule = Schedule::new(&options);
        let proxies = Arc::new(Proxies::of_environment(options.proxies));
        Ok(Self { options, schedule, clients: Mutex::default(), proxies })
    }

    /// Every extra root of a client, as DER.
    pub fn roots(&self, ca_file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, TransportError> {
        let mut roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.to_vec();
        for pem in &self.options.ca_pem {
            roots.extend(certificates(pem, "CA certificate")?);
        }
        if let Some(path) = ca_file {
            let what = format!("CA file {}", path.display());
            let pem = std::fs::read(path)
                .map_err(|e| TransportError::Setting { what: what.clone(), problem: format!("cannot be read: {e}") })?;
            roots.extend(certificates(&pem, &what)?);
        }
        Ok(roots)
    }

    /// The client that trusts just this.
    pub fn get(&self, trusts: &Trusts) -> Result<Reach, TransportError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reach) = clients.get(trusts) {
            return Ok(reach.clone());
        }
        let failed = |e: reqwest::Error| TransportError::Setting { what: "HTTP client".into(), problem: chain(&e) };
        let mut roots = Vec::new();
        for der in self.roots(trusts.ca_file.as_deref())? {
            roots.push(reqwest::Certificate::from_der(&der).map_err(failed)?);
        }
        // The roots are named one by one because a machine without a CA folder otherwise gets no client at all,
        // not even for http (reqwest#2988). No decoding of bodies: it would break ranges and digests.
        let mut builder = reqwest::Client::builder();
        if !self.options.proxies {
            builder = builder.no_proxy();
        }
        let mut redirects = redirect::Policy::limited(REDIRECTS);
        if let Some(identity) = &trusts.identity {
            builder = builder.identity(identity.read()?);
            redirects = redirect::Policy::custom(at_home);
        }
        let client = builder
            .tls_certs_merge(roots)
            .https_only(!trusts.plain_http)
            .redirect(redirects)
            .referer(false)
            .connect_timeout(self.options.connect_timeout)
            .user_agent(&self.options.user_agent)
            .build()
            .map_err(failed)?;
        let reach = Reach { client, proxies: Arc::clone(&self.proxies) };
        clients.insert(trusts.clone(), reach.clone());
        Ok(reach)
    }
}

/// A client certificate is for the host that it was named for: no other learns who we are.
fn at_home(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let asked = attempt.previous().first().map(host_of);
    if attempt.previous().len() > REDIRECTS {
        return attempt.error("too many redirects");
    }
    if asked == Some(host_of(attempt.url())) {
        return attempt.follow();
    }
    let reason =
        format!("it leads on to {}, and the client certificate is shown to no other host", host_of(attempt.url()));
    attempt.error(reason)
}

/// Every certificate of a PEM text; a text without one is an error.
pub(crate) fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, TransportError> {
    let wrong = |problem: String| TransportError::Setting { what: what.to_owned(), problem };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|e| wrong(format!("is not PEM: {e}")))?;
    if found.is_empty() {
        return Err(wrong("holds no certificate (wanted PEM, `-----BEGIN CERTIFICATE-----`)".to_owned()));
    }
    Ok(found)
}
