//! `kubexm-bundle config`.

use std::path::PathBuf;

use kubexm_builder::verbs::config::config;
use kubexm_terminal::Failure;

use crate::context::Context;

/// Show the whole cluster: every field, with defaults marked as such
///
/// The answer is a cluster.yaml that says the same: keys that are not set stand in it as comments, with what they are for and
/// what the catalogue chooses for them. Nothing is fetched.
///
/// Examples:
///   kubexm-bundle config -f cluster.yaml
///   kubexm-bundle config                                    # what a bundle from defaults is built of
///   kubexm-bundle config -f cluster.yaml | grep -v default  # what was written, and what could be
///   kubexm-bundle config -f cluster.yaml --json | jq .defaults
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// cluster.yaml, - for standard input; without it, the defaults for --kubernetes
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Kubernetes version for the defaults (v1.35.4, or v1.35 for its newest known patch)
    #[arg(long, value_name = "VERSION", conflicts_with = "file")]
    kubernetes: Option<String>,
    /// Catalogue overlay with own versions, builds and digests; may be given several times
    #[arg(long, value_name = "FILE")]
    catalogue: Vec<PathBuf>,
    /// One JSON document: the cluster, the paths that are defaults, what the catalogue chooses, what is not installed yet
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let config = config(context.session, args.file.as_deref(), args.kubernetes.as_deref(), &args.catalogue)?;
    context.answer(&config, |config| {
        let refused = config.not_installed.iter();
        let refused = refused.map(|row| format!("kubexm-install refuses this cluster: {}", row.text));
        config.warnings.iter().cloned().chain(refused).for_each(|text| context.warn(text));
        vec![config.yaml.clone()]
    })
}
