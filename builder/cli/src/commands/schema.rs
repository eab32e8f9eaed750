//! `kubexm-bundle schema`.

use kubexm_spec::{ExitCode, cluster};
use kubexm_terminal::Failure;

use crate::context::Context;

/// Print the JSON Schema of cluster.yaml, so that editors complete it
///
/// Draft 2020-12. It takes all that this program reads; the program is stricter, since no schema can say that networks
/// overlap or that a role names a host that is not there.
///
/// Examples:
///   kubexm-bundle schema > cluster.schema.json
///   # then, as the first line of cluster.yaml (VS Code, Neovim, IntelliJ):
///   # yaml-language-server: $schema=./cluster.schema.json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {}

pub fn run(_: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(&cluster::schema())
        .map_err(|e| Failure::new(ExitCode::Internal, format!("the schema cannot be written: {e}")))?;
    context.line(text);
    Ok(())
}
