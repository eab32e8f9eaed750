//! A cluster that is named by its cluster.yaml, with or without a bundle.

use std::path::PathBuf;

use kubexm_engine::{Belongs, EventSink};
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;

use super::cluster_file::ClusterFile;
use super::opened::Opened;
use super::trust::{Provenance, TrustArgs};
use crate::commands::args::BundleArgs;
use crate::support::home::Home;

/// cluster.yaml alone, or a bundle that carries one.
#[derive(Clone, Debug, clap::Args)]
pub struct NameArgs {
    /// cluster.yaml of the cluster; needed where no bundle is given
    #[arg(short = 'f', long = "file", value_name = "FILE", required_unless_present = "bundle")]
    pub file: Option<PathBuf>,
    /// Bundle whose cluster.yaml is meant; also needed for hosts of another architecture than this machine's
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
    /// Of a delta: a bundle that has what it leaves out; may be given several times
    #[arg(long = "base", value_name = "FILE", requires = "bundle")]
    pub bases: Vec<PathBuf>,
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// The cluster.
#[derive(Debug)]
pub enum Named {
    /// By the operator's own file.
    Alone(Box<ClusterFile>),
    /// By a bundle, with its own cluster.yaml or the operator's: agents of other architectures come from it.
    Bundled(Box<Opened>),
}

impl Named {
    /// Reads it.
    pub fn read(args: &NameArgs, home: &Home, events: &dyn EventSink) -> Result<Self, Failure> {
        if let Some(bundle) = &args.bundle {
            let (bundle, bases) = (vec![bundle.clone()], args.bases.clone());
            let (file, trust) = (args.file.clone(), args.trust.clone());
            let opened = Opened::open(&BundleArgs { bundle, bases, file, trust }, home, events)?;
            return Ok(Self::Bundled(Box::new(opened)));
        }
        let Some(file) = &args.file else {
            return Err(Failure::new(ExitCode::Usage, "name the cluster with -f cluster.yaml or --bundle FILE"));
        };
        Ok(Self::Alone(Box::new(ClusterFile::of_operator(file)?)))
    }

    /// Its hosts above all.
    pub fn cluster(&self) -> &ClusterFile {
        match self {
            Self::Alone(cluster) => cluster,
            Self::Bundled(opened) => &opened.cluster,
        }
    }

    /// The bundle, where there is one.
    pub fn opened(&self) -> Option<&Opened> {
        match self {
            Self::Alone(_) => None,
            Self::Bundled(opened) => Some(opened),
        }
    }

    /// Who vouches for the bundle, where there is one.
    pub fn provenance(&self) -> Option<&Provenance> {
        self.opened().map(|opened| &opened.provenance)
    }

    /// What a run of a pipeline without a bundle must belong to.
    pub fn belongs(&self) -> Belongs {
        Belongs { cluster: self.cluster().digest(), bundle: None }
    }
}
