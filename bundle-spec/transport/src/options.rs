//! How origins are talked to: timeouts, tries, limits.

use std::time::Duration;

use zeroize::Zeroizing;

use crate::watch::Watch;

/// Certificates that were made for one run, in PEM; they are in no file.
#[derive(Clone)]
pub struct MutualTls {
    /// The authority, instead of all others.
    pub ca: Vec<u8>,
    /// Our certificate, followed by its key.
    pub identity: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for MutualTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<certificates of a run>")
    }
}

/// How to talk to origins. The defaults suit the internet.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Between hosts of one run: the only authority that is trusted, and what is shown to a server.
    pub mutual: Option<MutualTls>,
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
    /// How long an origin may be waited for before [`HttpOptions::watch`] is reported, and how often of one host.
    pub notice_after: Duration,
    /// Who is reported when a transfer waits.
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
            mutual: None,
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
