//! `kubexm-bundle init`.

use kubexm_terminal::{Display, Failure};

/// Print a commented cluster.yaml to start from
///
/// Examples:
///   kubexm-bundle init > cluster.yaml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {}

pub fn run(_: &Args, display: &Display) -> Result<(), Failure> {
    display.answer(kubexm_spec::cluster::sample());
    Ok(())
}
