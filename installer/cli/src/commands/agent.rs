//! `kubexm-install agent`.

use kubexm_engine::host_timer;
use kubexm_engine::link::agent;
use kubexm_ops::Machine;
use kubexm_plan::timers::{CERTS, ETCD_BACKUP, HostTimer};
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure};

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
    /// Renew this control plane's certificates that end soon; started by kubexm-certs.service
    RenewCerts,
    /// Back up etcd into the folder of spec.etcd.backup; started by kubexm-etcd-backup.service
    BackupEtcd,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let served = match args.mode {
        None => agent::serve(stdin, stdout, Machine::real()),
        Some(Mode::Store) => agent::serve_store(stdin, stdout, Machine::real()),
        Some(Mode::RenewCerts) => return timer(CERTS, display),
        Some(Mode::BackupEtcd) => return timer(ETCD_BACKUP, display),
    };
    served.map_err(|error| Failure::from_error(ExitCode::Internal, &error))
}

/// What it did is in the journal of its unit.
fn timer(timer: HostTimer, display: &Display) -> Result<(), Failure> {
    let run = host_timer::run(timer).map_err(|error| Failure::from_error(ExitCode::RunFailed, &error))?;
    if run.failed {
        return Err(Failure::new(ExitCode::RunFailed, run.what));
    }
    display.answer(&run.what);
    Ok(())
}
