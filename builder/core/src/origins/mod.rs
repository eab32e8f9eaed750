//! Where artifacts come from: one origin a file. Each can lock (learn digests and sizes) and fetch (fill the store).

pub mod file;
pub mod image;
pub mod installer;
pub mod local;

use kubexm_transport::{HttpClient, OciRegistry, Store};

/// What the origins need: clients and the content-addressed cache.
pub struct Origins {
    /// HTTP files.
    pub http: HttpClient,
    /// OCI registries.
    pub registry: OciRegistry,
    /// The cache, shared by builds.
    pub store: Store,
    /// Where `kubexm-install` of each platform lies.
    pub installers: installer::Installers,
}
