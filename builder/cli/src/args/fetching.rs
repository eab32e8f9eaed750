//! How things are fetched: the cache, how many at once, and where `kubexm-install` lies.

use std::path::PathBuf;

use kubexm_builder::session;

use super::size;

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
    /// Use no network: only what the cache has. What is missing is named
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
    /// The same, for the library.
    pub fn options(&self) -> session::Fetching {
        session::Fetching {
            cache: self.cache.clone(),
            jobs: self.jobs.into(),
            limit_rate: self.limit_rate,
            offline: self.offline,
            referrers: !self.no_referrers,
            registries_conf: self.registries_conf.clone(),
            installers: self.installer.clone(),
            helm: self.helm.clone(),
        }
    }
}
