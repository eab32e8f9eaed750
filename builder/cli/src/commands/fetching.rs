//! How things are fetched: the cache, how many at once, and where `kubexm-install` lies.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kubexm_builder::origins::Origins;
use kubexm_builder::origins::installer::Installers;
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;
use kubexm_transport::{HttpClient, HttpOptions, OciRegistry, Store, TransportError};

use super::{network, size};
use crate::home;

/// For every verb that asks origins.
#[derive(Clone, Debug, clap::Args)]
pub struct Fetching {
    /// Folder of the cache [default: $KUBEXM_HOME/cache]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// How many transfers at once; at most 16 of one host, and fewer of large files
    #[arg(short = 'j', long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// Bytes a second over all transfers, at most; K, M, G are powers of 1024
    #[arg(long, value_name = "RATE", value_parser = size::parse)]
    pub limit_rate: Option<u64>,
    /// Ask nobody: only what the cache holds. What lacks is named
    #[arg(long)]
    pub offline: bool,
    /// Leave out what registries have attached to images: signatures, attestations, SBOMs
    #[arg(long)]
    pub no_referrers: bool,
    /// registries.conf with mirrors of registries [default: the places of podman and skopeo]
    #[arg(long, value_name = "FILE", env = "CONTAINERS_REGISTRIES_CONF")]
    pub registries_conf: Option<PathBuf>,
    /// kubexm-install of a platform, when it does not lie beside this program; may be given several times
    #[arg(long, value_name = "FILE")]
    pub installer: Vec<PathBuf>,
    /// The helm that charts are rendered with, to learn their images [default: the catalogue's, fetched]
    #[arg(long, value_name = "FILE")]
    pub helm: Option<PathBuf>,
}

impl Fetching {
    /// Clients, cache and installers.
    pub fn origins(&self) -> Result<Origins, Failure> {
        self.origins_with(network::options(true))
    }

    /// Clients for questions rather than transfers: who does not answer soon is passed over.
    pub fn quick_origins(&self) -> Result<Origins, Failure> {
        self.origins_with(HttpOptions {
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(10),
            retries: 1,
            backoff_max: Duration::from_secs(2),
            ..network::options(false)
        })
    }

    /// Where `kubexm-install` of each platform lies.
    pub fn installers(&self) -> Result<Installers, Failure> {
        let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
        Installers::look(&self.installer, beside.as_deref()).map_err(|e| Failure::from_error(e.exit_code(), &e))
    }

    fn origins_with(&self, options: HttpOptions) -> Result<Origins, Failure> {
        let store = store(self.cache.as_deref())?;
        let jobs = usize::from(self.jobs);
        let options = HttpOptions {
            parallel: jobs,
            parallel_per_host: options.parallel_per_host.min(jobs),
            limit_rate: self.limit_rate,
            offline: self.offline,
            ..options
        };
        let http = HttpClient::new(options).map_err(transport)?;
        let registries = network::registries(self.registries_conf.as_deref())?;
        let registry = OciRegistry::new(http.clone(), network::credentials())
            .with_registries(registries)
            .with_store(store.clone());
        let lease = store.lease().map_err(transport)?;
        let installers = self.installers()?;
        let referrers = !self.no_referrers;
        Ok(Origins { http, registry, store, referrers, lease: Some(lease), installers, helm: self.helm.clone() })
    }
}

/// The cache: in this folder, or in the usual one.
pub fn store(folder: Option<&Path>) -> Result<Store, Failure> {
    Store::open(cache_folder(folder)?).map_err(transport)
}

/// Where the cache is.
pub fn cache_folder(folder: Option<&Path>) -> Result<PathBuf, Failure> {
    match folder {
        Some(folder) => Ok(folder.to_owned()),
        None => Ok(home::kubexm_home()?.join("cache")),
    }
}

/// How a program ends that cannot go on for this.
pub fn transport(error: TransportError) -> Failure {
    Failure::from_error(error.exit_code(), &error)
}

/// Threads for what goes over the network.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Runtime::new()
        .map_err(|e| Failure::new(ExitCode::Internal, format!("cannot start worker threads: {e}")))
}
