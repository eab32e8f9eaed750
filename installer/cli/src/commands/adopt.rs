//! `kubexm-install adopt`.

use kubexm_plan::Pipeline;
use kubexm_session::{Access, HostOptions, RunOptions, Session, Unreachable};
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};

use super::args::{ClusterArgs, HostArgs, OnFailure};
use super::resume_command::on_cluster;
use crate::render::{adoption, ended};
use crate::terminal::Shell;

/// Take over a cluster that kubeadm has made without kubexm-install
///
/// Write a cluster.yaml of the running cluster (its hosts, roles, networks, endpoint), and look at it with --dry-run: what agrees
/// with it and with the bundle, what differs and what cannot be determined, which both stay as they are, and what is in the way, with
/// what to do about it. Nothing is changed and no lock is taken; our agent is put on a host that has none for as long as it takes.
///
/// Without --dry-run each node then gets a record of the cluster that it belongs to (/var/lib/kubexm/stamp.json), and nothing else
/// on it or in the cluster is changed. `status`, `certs check`, `certs renew`, `upgrade`, `backup` and `drift` work on it afterwards.
/// Commands that would replace or remove what others have made there are refused (exit 22). Run again, it changes nothing.
///
/// The exit code is 53 if something is in the way, with --dry-run as well.
///
/// Examples:
///   kubexm-install adopt --dry-run --bundle site.tar.zst -f cluster.yaml
///   kubexm-install adopt --dry-run -f cluster.yaml --json | jq '.items[] | select(.verdict == "inTheWay")'
///   kubexm-install adopt -f cluster.yaml
///   kubexm-install adopt -f cluster.yaml --roll-back RUN   # as `status` names it
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// Only show what is known, and change nothing
    #[arg(long, conflicts_with_all = ["yes", "roll_back"])]
    dry_run: bool,
    /// Confirm without being asked
    #[arg(short = 'y', long)]
    yes: bool,
    /// What to do when a step fails
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    on_failure: OnFailure,
    /// Roll back an adoption; certificates that were renewed meanwhile stay [default run: the cluster's last one, if it has failed]
    #[arg(long = "roll-back", value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    roll_back: Option<String>,
    /// One JSON document with --dry-run, else one JSON event a line
    #[arg(long)]
    pub json: bool,
}

/// The commands of an adoption.
struct Commands<'a>(&'a Args);

impl Commands<'_> {
    fn again(&self) -> String {
        let mut command = on_cluster(Pipeline::Adopt.command(), &self.0.cluster, &self.0.hosts);
        if self.0.on_failure == OnFailure::Keep {
            command.push_str(" --on-failure keep");
        }
        command
    }
}

impl kubexm_session::Commands for Commands<'_> {
    /// One that begins anew gives the rest of the hosts the same id.
    fn resume(&self, _: &str) -> String {
        self.again()
    }

    fn rollback(&self, run: &str) -> String {
        format!("{} --roll-back {run}", on_cluster(Pipeline::Adopt.command(), &self.0.cluster, &self.0.hosts))
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    if args.dry_run {
        let shell = Shell::looking(display)?;
        return look(args, (&shell, shell.session(), args.hosts.options()?), display);
    }
    let shell = Shell::changing(display, args.yes)?;
    let (session, cluster, hosts) = (shell.session(), args.cluster.options(), args.hosts.options()?);
    let commands = Commands(args);
    let source = session.cluster(&cluster)?;
    if args.roll_back.is_none() {
        shell.check_can_confirm()?;
    }
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let options = RunOptions::strict(args.on_failure.into(), &commands);
    let ended = match &args.roll_back {
        Some(run) => {
            let named = Some(run.as_str()).filter(|name| !name.is_empty());
            let loaded = session.ledger_run_to_roll_back(Pipeline::Adopt, source, access, named)?;
            shell.check_can_confirm()?;
            shell.wait(loaded.roll_back(&hosts, &options, false))?
        }
        None => shell.wait(async {
            let unreachable = Unreachable::Refused("\nnothing was changed");
            let observed = session.observe(Pipeline::Adopt.name(), source, &access, &hosts, unreachable).await?;
            observed.plan_adoption().await?.check().await?.start(options).await?.finish().await
        })?,
    };
    ended::report(&ended, &commands.again(), display)
}

fn look(
    args: &Args,
    (shell, session, hosts): (&Shell<'_>, Session<'_>, HostOptions),
    display: &Display,
) -> Result<(), Failure> {
    let cluster = args.cluster.options();
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let view = shell.wait(session.adoption(&source, &access, &hosts))?;
    match display.mode() {
        Mode::Json => display.answer(&adoption::document(&view).to_string()),
        Mode::Terminal | Mode::Plain => display.answer(&adoption::text(&view)),
    }
    match adoption::exit_code(&view) {
        ExitCode::Ok => Ok(()),
        code => Err(Failure::silent(code)),
    }
}
