//! What says which artifacts are needed, and where they may come from: the same words for every verb that asks for it.

use std::path::{Path, PathBuf};

use kubexm_builder::session::{Needed, Selection, Session};
use kubexm_terminal::Failure;

use crate::environment::source_date;

/// What the file is called when nobody calls it otherwise.
const CLUSTER_YAML: &str = "cluster.yaml";

/// cluster.yaml, the zone and the catalogue.
#[derive(Clone, Debug, clap::Args)]
pub struct What {
    /// cluster.yaml, - for standard input; without it, the defaults for --kubernetes
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Kubernetes version for a bundle from defaults (v1.35.4, or v1.35 for its newest known patch)
    #[arg(long, value_name = "VERSION", conflicts_with = "file")]
    pub kubernetes: Option<String>,
    /// Zone name (global, cn) or a zone file; comes before KMZONE and spec.bundle.zone
    #[arg(long, value_name = "NAME|FILE")]
    pub zone: Option<String>,
    /// Catalogue overlay with own versions, builds and digests; may be given several times
    #[arg(long, value_name = "FILE")]
    pub catalogue: Vec<PathBuf>,
    /// List of images beyond those of cluster.yaml, one a line with # comments; may be given several times
    #[arg(long, value_name = "FILE")]
    pub images_from: Vec<PathBuf>,
    /// Bundle this file of extraFiles or of an add-on although it holds a credential; may be given several times. Archives are not opened to look
    /// for credentials in them, and a text that cluster.yaml names (a policy, a material of a script) is refused in any case
    #[arg(long, value_name = "FILE")]
    pub allow_secret: Vec<PathBuf>,
}

impl What {
    /// The same, for the library.
    pub fn selection(&self) -> Result<Selection, Failure> {
        let Self { file, kubernetes, zone, catalogue, images_from, allow_secret } = self.clone();
        Ok(Selection { file, kubernetes, zone, catalogue, images_from, allow_secret, source_date: source_date()? })
    }

    /// Reads all of it.
    pub fn read(&self, session: &Session) -> Result<Needed, Failure> {
        let mut needed = session.needed(&self.selection()?)?;
        needed.warnings.extend(self.unused_cluster_yaml());
        Ok(needed)
    }

    /// Who has a cluster.yaml here and does not name it may trust that it is read.
    fn unused_cluster_yaml(&self) -> Option<String> {
        let here = self.file.is_none() && Path::new(CLUSTER_YAML).is_file();
        here.then(|| match &self.kubernetes {
            None => format!(
                "{CLUSTER_YAML} in this folder is not read; give it with -f {CLUSTER_YAML}. This is for a cluster of defaults"
            ),
            Some(version) => format!("{CLUSTER_YAML} in this folder is not read: --kubernetes {version} is for a cluster of defaults"),
        })
    }
}
