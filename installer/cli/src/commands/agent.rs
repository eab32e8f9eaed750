//! `kubexm-install agent`.

use kubexm_engine::link::agent;
use kubexm_ops::Machine;
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;

/// Serve a controller over standard input and output; started by kubexm-install itself over SSH
///
/// Examples:
///   ssh root@n1 kubexm-install agent         # what the controller does
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, hide = true)]
pub struct Args {
    #[command(subcommand)]
    mode: Option<Mode>,
}

#[derive(Debug, clap::Subcommand)]
enum Mode {
    /// Receive blobs into this machine's content store
    Store,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let (stdin, stdout, machine) = (std::io::stdin(), std::io::stdout(), Machine::real());
    let served = match args.mode {
        None => agent::serve(stdin, stdout, machine),
        Some(Mode::Store) => agent::serve_store(stdin, stdout, machine),
    };
    served.map_err(|error| Failure::from_error(ExitCode::Internal, &error))
}
