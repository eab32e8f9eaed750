//! A cluster that is named by its cluster.yaml, with or without a bundle.

use std::path::PathBuf;

use kubexm_engine::{Belongs, EventSink};
use kubexm_spec::{Cluster, Digest, ExitCode};
use kubexm_terminal::Failure;

use super::opened::{self, Opened};
use super::trust::TrustArgs;
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
pub struct Named {
    /// Its hosts above all.
    pub cluster: Cluster,
    /// Of the bytes of its cluster.yaml.
    pub digest: Digest,
    /// When there is a bundle: agents of other architectures come from it.
    pub opened: Option<Opened>,
}

impl Named {
    /// Reads it.
    pub fn read(args: &NameArgs, home: &Home, events: &dyn EventSink) -> Result<Self, Failure> {
        if let Some(bundle) = &args.bundle {
            let (bundle, bases) = (vec![bundle.clone()], args.bases.clone());
            let (file, trust) = (args.file.clone(), args.trust.clone());
            let opened = Opened::open(&BundleArgs { bundle, bases, file, trust }, home, events)?;
            return Ok(Self { cluster: opened.cluster.clone(), digest: opened.cluster_digest, opened: Some(opened) });
        }
        let Some(file) = &args.file else {
            return Err(Failure::new(ExitCode::Usage, "name the cluster with -f cluster.yaml or --bundle FILE"));
        };
        let text = opened::read_file(file)?;
        let digest = Digest::of(&text);
        Ok(Self { cluster: opened::parse(&file.display().to_string(), text)?, digest, opened: None })
    }

    /// What a run of a pipeline without a bundle must belong to.
    pub const fn belongs(&self) -> Belongs {
        Belongs { cluster: self.digest, bundle: None }
    }
}
