//! How things are fetched: the cache, how many at once, and where `kubexm-install` lies.

use std::path::{Path, PathBuf};

use kubexm_builder::origins::Origins;
use kubexm_builder::origins::installer::Installers;
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;
use kubexm_transport::{HttpClient, HttpOptions, OciRegistry, Store};

use super::network;
use crate::home;

/// For every verb that asks origins.
#[derive(Clone, Debug, clap::Args)]
pub struct Fetching {
    /// Folder of the cache [default: $KUBEXM_HOME/cache]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// How many artifacts are fetched at once
    #[arg(short = 'j', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// kubexm-install of a platform, when it does not lie beside this program; may be given several times
    #[arg(long, value_name = "FILE")]
    pub installer: Vec<PathBuf>,
}

impl Fetching {
    /// Clients, cache and installers.
    pub fn origins(&self) -> Result<Origins, Failure> {
        let cache = match &self.cache {
            Some(cache) => cache.clone(),
            None => home::kubexm_home()?.join("cache"),
        };
        let transport = |e: kubexm_transport::TransportError| Failure::from_error(e.exit_code(), &e);
        let http = HttpClient::new(HttpOptions::default()).map_err(transport)?;
        let registry = OciRegistry::new(http.clone(), network::credentials());
        let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
        let installers =
            Installers::look(&self.installer, beside.as_deref()).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
        Ok(Origins { http, registry, store: Store::open(cache).map_err(transport)?, installers })
    }
}

/// Threads for what goes over the network.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Runtime::new()
        .map_err(|e| Failure::new(ExitCode::Internal, format!("cannot start worker threads: {e}")))
}
