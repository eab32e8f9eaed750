//! Where artifacts come from: one origin a file. Each can lock (learn digests and sizes) and fetch (fill the store).

pub mod chart;
pub mod file;
pub mod image;
pub mod in_place;
pub mod installer;
pub mod local;
pub mod packages;

use std::sync::Arc;

use kubexm_transport::{HttpClient, Lease, OciRegistry, Store};

use crate::BuildError;
use crate::clock::{Clock, unix_seconds};

/// What the origins need: clients and the content-addressed cache.
pub struct Origins {
    /// HTTP files.
    pub http: HttpClient,
    /// OCI registries.
    pub registry: OciRegistry,
    /// The cache, shared by builds.
    pub store: Store,
    /// Whether signatures, attestations and SBOMs of images are looked for and carried.
    pub referrers: bool,
    /// While it is held, `cache gc` removes nothing that was found in the cache.
    pub lease: Option<Lease>,
    /// Where `kubexm-install` of each platform lies.
    pub installers: installer::Installers,
    /// The helm that charts are rendered with; the catalogue's when none.
    pub helm: Option<std::path::PathBuf>,
    /// What is packed from where it lies.
    pub in_place: in_place::InPlace,
    /// Keys and signatures have ends.
    pub clock: Arc<dyn Clock>,
}

impl Origins {
    /// The time, in seconds of Unix time.
    pub fn now(&self) -> i64 {
        unix_seconds(&*self.clock)
    }

    /// Copying into the store is disk work and stays off the async threads.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, BuildError> + Send + 'static,
    ) -> Result<T, BuildError> {
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || work(&store)).await.map_err(|e| BuildError::Worker(e.to_string()))?
    }
}
