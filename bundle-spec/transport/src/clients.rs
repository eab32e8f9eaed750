//! HTTP clients by trust: one for each set of CA files and plain-http permission, made when first needed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::redirect;
use rustls_pki_types::CertificateDer;

use crate::address::host_of;
use crate::bounded;
use crate::pem::certificates;
use crate::proxy::Proxies;
use crate::schedule::Schedule;
use crate::{HttpOptions, Identity, TransportError};
use kubexm_spec::error_chain;

/// Redirects that are followed.
const REDIRECTS: usize = 10;

/// What a client trusts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trusts {
    /// A file of CA certificates besides the usual roots.
    pub ca_file: Option<PathBuf>,
    /// The client certificate, presented to servers that request one.
    pub identity: Option<Identity>,
    /// Whether what is sent is a secret, so that no redirect takes it to another host.
    pub secret_body: bool,
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
    /// Reads the CA certificates of the options, so that a wrong one is reported before any transfer.
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
        if let Some(mutual) = &self.options.mutual {
            return certificates(&mutual.ca, "the run's CA certificate");
        }
        let mut roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.to_vec();
        for pem in &self.options.ca_pem {
            roots.extend(certificates(pem, "CA certificate")?);
        }
        if let Some(path) = ca_file {
            let what = format!("CA file {}", path.display());
            let pem = bounded::read(path)
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
        let failed =
            |e: reqwest::Error| TransportError::Setting { what: "HTTP client".into(), problem: error_chain(&e) };
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
            redirects = redirect::Policy::custom(|attempt| at_home(attempt, "the client certificate is shown"));
        } else if trusts.secret_body {
            redirects = redirect::Policy::custom(|attempt| at_home(attempt, "the login is sent"));
        }
        builder = match &self.options.mutual {
            Some(mutual) => {
                redirects = redirect::Policy::none();
                builder.identity(reqwest::Identity::from_pem(&mutual.identity).map_err(failed)?).tls_certs_only(roots)
            }
            None => builder.tls_certs_merge(roots),
        };
        let client = builder
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

/// A client certificate, or a secret in a body, is for the host that it was named for: no other learns who we are.
fn at_home(attempt: redirect::Attempt<'_>, what: &str) -> redirect::Action {
    let asked = attempt.previous().first().map(host_of);
    if attempt.previous().len() > REDIRECTS {
        return attempt.error("too many redirects");
    }
    if asked == Some(host_of(attempt.url())) {
        return attempt.follow();
    }
    let reason = format!("it leads on to {}, and {what} to no other host", host_of(attempt.url()));
    attempt.error(reason)
}
