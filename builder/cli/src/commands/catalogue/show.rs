//! `kubexm-bundle catalogue show`.

use std::path::PathBuf;

use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;

use crate::context::Context;

/// Print the catalogue as one JSON document, like the catalogue.json of a bundle, but all of it
///
/// Examples:
///   kubexm-bundle catalogue show | jq '.releases | keys'
///   kubexm-bundle catalogue show mine.yaml > all.json     # with an overlay laid over it
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Overlays, laid over the catalogue in this order
    #[arg(value_name = "OVERLAY")]
    overlays: Vec<PathBuf>,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let catalogue = context.session.catalogue(&args.overlays)?;
    let json = catalogue.to_json().map_err(|e| Failure::from_error(ExitCode::Internal, &e))?;
    context.line(String::from_utf8_lossy(&json));
    Ok(())
}
