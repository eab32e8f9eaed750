//! How the registry is reached, and who we are to it.

use std::path::PathBuf;

use kubexm_transport::{Credentials, HttpClient, HttpOptions, ImageCandidate, OciRegistry, Repository, Watch};

use crate::error::SeedError;

/// Repositories that are asked, or get manifests, at once.
pub(crate) const AT_ONCE: usize = 8;

/// The way to a registry. The credentials are the operator's: nothing of a bundle is shown to it.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Logins.
    pub credentials: Credentials,
    /// CA certificates (PEM) to trust besides the usual ones.
    pub ca_file: Option<PathBuf>,
    /// Whether http is spoken, credentials included.
    pub plain_http: bool,
    /// Whether the environment's proxies are used.
    pub proxies: bool,
    /// Requests at once, and so blobs.
    pub parallel: usize,
    /// Called when the registry is waited for.
    pub watch: Watch,
}

impl Default for Connection {
    fn default() -> Self {
        let (credentials, watch) = (Credentials::anonymous(), Watch::default());
        Self { credentials, ca_file: None, plain_http: false, proxies: true, parallel: 4, watch }
    }
}

/// A registry that is spoken to.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    registry: OciRegistry,
    at: ImageCandidate,
}

impl Connection {
    pub(crate) fn open(&self, host: &str) -> Result<Registry, SeedError> {
        let parallel = self.parallel.max(1);
        let options = HttpOptions {
            parallel,
            parallel_per_host: parallel,
            watch: self.watch.clone(),
            proxies: self.proxies,
            ..HttpOptions::default()
        };
        let http = HttpClient::new(options).map_err(|e| SeedError::registry("reach", host.to_owned(), e))?;
        let at = ImageCandidate {
            plain_http: self.plain_http,
            ca_file: self.ca_file.clone(),
            ..ImageCandidate::new(host, "")
        };
        Ok(Registry { registry: OciRegistry::new(http, self.credentials.clone()), at })
    }
}

impl Registry {
    /// A repository; its login is good to mount from those others.
    pub async fn repository(&self, name: &str, mount_from: &[String]) -> Result<Repository, SeedError> {
        let at = ImageCandidate { repository: name.to_owned(), ..self.at.clone() };
        let opened = self.registry.repository(&at, mount_from).await;
        opened.map_err(|e| SeedError::registry("log in to", at.place(), e))
    }
}
