//! `kubexm-bundle completions`.

use kubexm_terminal::{Failure, Shell};

use crate::context::Context;

/// Print the script that completes kubexm-bundle in a shell
///
/// Examples:
///   source <(kubexm-bundle completions bash)                 # this shell
///   kubexm-bundle completions bash > /etc/bash_completion.d/kubexm-bundle
///   kubexm-bundle completions zsh > "${fpath[1]}/_kubexm-bundle"
///   kubexm-bundle completions fish > ~/.config/fish/completions/kubexm-bundle.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    context.stdout(&kubexm_terminal::completions(super::command(), args.shell));
    Ok(())
}
