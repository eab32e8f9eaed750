//! `kubexm-install completions`.

use kubexm_terminal::{Display, Failure, Shell};

/// Print the script that completes kubexm-install in a shell
///
/// Examples:
///   source <(kubexm-install completions bash)                 # this shell
///   kubexm-install completions bash > /etc/bash_completion.d/kubexm-install
///   kubexm-install completions zsh > "${fpath[1]}/_kubexm-install"
///   kubexm-install completions fish > ~/.config/fish/completions/kubexm-install.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub fn run(args: &Args, program: clap::Command, display: &Display) -> Result<(), Failure> {
    display.give(&kubexm_terminal::completions(program, args.shell));
    Ok(())
}
