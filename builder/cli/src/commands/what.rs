//! What says which artifacts are needed, and where they may come from: the same words for every verb that asks for it.

use std::path::PathBuf;

use kubexm_manifests::{Catalogue, Requirements, Zone, require};
use kubexm_spec::Cluster;
use kubexm_terminal::Failure;

use super::input;

/// cluster.yaml, the zone and the catalogue.
#[derive(Clone, Debug, clap::Args)]
pub struct What {
    /// cluster.yaml; without it, the defaults for --kubernetes
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Kubernetes version for a bundle from defaults (v1.34.4, or v1.34 for its newest known patch)
    #[arg(long, value_name = "VERSION", conflicts_with = "file")]
    pub kubernetes: Option<String>,
    /// Zone name (global, cn) or a zone file; comes before KMZONE and spec.bundle.zone
    #[arg(long, value_name = "NAME|FILE")]
    pub zone: Option<String>,
    /// Catalogue overlay with own versions, builds and digests; may be given several times
    #[arg(long, value_name = "FILE")]
    pub catalogue: Vec<PathBuf>,
}

/// What is needed, read and computed; nothing was fetched.
pub struct Needed {
    /// The bytes of cluster.yaml.
    pub cluster_yaml: String,
    /// Parsed from them, its paths made ready to be opened.
    pub cluster: Cluster,
    /// With overlays.
    pub catalogue: Catalogue,
    /// The zone that holds.
    pub zone: Zone,
    /// What people should know before anything is done.
    pub warning: Option<String>,
    /// Everything, per platform.
    pub requirements: Requirements,
}

impl What {
    /// Reads the files and computes what is needed.
    pub fn read(&self) -> Result<Needed, Failure> {
        let (cluster_yaml, cluster) = input::cluster(self.file.as_deref(), self.kubernetes.as_deref())?;
        let catalogue = input::catalogue(&self.catalogue)?;
        let (zone, warning) = input::zone(self.zone.as_deref(), &cluster)?;
        let requirements = require(&cluster, &catalogue).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
        Ok(Needed { cluster_yaml, cluster, catalogue, zone, warning, requirements })
    }

    /// The files on this machine that are read.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.file.iter().chain(&self.catalogue)
    }
}
