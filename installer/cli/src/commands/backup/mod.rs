//! `kubexm-install backup`.

mod make;
mod verify;

use kubexm_terminal::{Display, Failure};

/// Back up the cluster to a folder of this machine, or verify a backup
///
/// A snapshot of etcd is taken on a control plane with a healthy member, checked, restored there on trial, and written with the PKI,
/// the configuration and kubexm's own state into an archive, which is encrypted (age) there: for the operators of
/// cluster.yaml and for the identity of this home, which vouches for it. Nothing of it stays on the host. A backup is a folder with `backup.json` and
/// `archive.age`.
///
/// Examples:
///   kubexm-install backup --to /srv/backups -f cluster.yaml
///   kubexm-install backup --to /srv/backups -f cluster.yaml --keep 14 --json
///   kubexm-install backup verify /srv/backups/lab-20260921T141321Z
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    make: make::Args,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Verify(verify::Args),
}

impl Args {
    /// Whether the output is JSON for programs.
    pub const fn json(&self) -> bool {
        match &self.verb {
            Some(Verb::Verify(args)) => args.json,
            None => self.make.json,
        }
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    match &args.verb {
        Some(Verb::Verify(args)) => verify::run(args, display),
        None => make::run(&args.make, display),
    }
}
