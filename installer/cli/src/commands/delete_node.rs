//! `kubexm-install delete-node`.

use kubexm_plan::Pipeline;
use kubexm_session::{Access, Drain, RunOptions};
use kubexm_terminal::{Display, Failure};

use super::args::{ClusterArgs, HostArgs, OnFailure, Unreachable};
use super::resume_command::{on_cluster, shell_word};
use crate::render::ended;
use crate::terminal::Shell;

/// Remove hosts from the cluster, which stays: each is as it was before it was added
///
/// Pods are evicted first, and PodDisruptionBudgets are respected: what blocks is named while it is waited for, and if
/// it is not let go in time, everything is rolled back. A control plane's etcd member is removed while the others have a
/// quorum; the last control plane is refused, and so is a host that serves the registry or the time. No bundle is
/// needed; cluster.yaml still names the hosts. Remove them there afterwards.
///
/// Examples:
///   kubexm-install delete-node worker7 -f cluster.yaml
///   kubexm-install delete-node worker7 worker8 -f cluster.yaml --drain-timeout 1800 -y
///   kubexm-install delete-node cp3 -f cluster.yaml --unreachable skip    # it is gone for good
///   kubexm-install delete-node worker7 -f cluster.yaml --roll-back       # of a deletion that failed half-way
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    override_usage = "kubexm-install delete-node [OPTIONS] -f <FILE> <HOST>...
       kubexm-install delete-node [OPTIONS] --bundle <FILE> <HOST>..."
)]
pub struct Args {
    /// Names of the hosts
    #[arg(required = true, value_name = "HOST")]
    nodes: Vec<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// How long to wait until the pods of a node are gone
    #[arg(long, value_name = "SECONDS", default_value_t = Drain::default().limit_s)]
    drain_timeout: u64,
    /// Delete pods that no controller creates again; otherwise they are named, and nothing is changed
    #[arg(long)]
    force: bool,
    /// Confirm without being asked
    #[arg(short = 'y', long)]
    yes: bool,
    /// What to do with hosts that cannot be reached: with `skip` they are removed from the cluster only, which ends with
    /// exit code 72; the same command does the rest when they are back. A host that still works is refused
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    unreachable: Unreachable,
    /// What to do when a step fails
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    on_failure: OnFailure,
    /// Roll back a deletion that has not deleted yet [default run: the cluster's last one]
    #[arg(long = "roll-back", value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    roll_back: Option<String>,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

/// The commands of a deletion.
struct Commands<'a>(&'a Args);

impl Commands<'_> {
    fn of_hosts(&self) -> String {
        let command = on_cluster("delete-node", &self.0.cluster, &self.0.hosts);
        self.0.nodes.iter().fold(command, |command, host| format!("{command} {}", shell_word(host)))
    }

    fn again(&self) -> String {
        let mut command = self.of_hosts();
        if self.0.drain_timeout != Drain::default().limit_s {
            command.push_str(&format!(" --drain-timeout {}", self.0.drain_timeout));
        }
        if self.0.force {
            command.push_str(" --force");
        }
        command
    }
}

impl kubexm_session::Commands for Commands<'_> {
    /// A deletion that begins anew looks at what is left, and does the rest.
    fn resume(&self, _: &str) -> String {
        match self.0.unreachable {
            Unreachable::Refuse => self.again(),
            Unreachable::Skip => format!("{} --unreachable skip", self.again()),
        }
    }

    fn rollback(&self, run: &str) -> String {
        format!("{} --roll-back {run}", self.of_hosts())
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::changing(display, args.yes)?;
    let (session, cluster, hosts) = (shell.session(), args.cluster.options(), args.hosts.options()?);
    let commands = Commands(args);
    let source = session.cluster(&cluster)?;
    source.check_hosts(&args.nodes)?;
    if args.roll_back.is_none() {
        shell.check_can_confirm()?;
    }
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let options = RunOptions::strict(args.on_failure.into(), &commands);
    let skip = args.unreachable == Unreachable::Skip;
    let drain = Drain { limit_s: args.drain_timeout, force: args.force };
    let ended = match &args.roll_back {
        Some(run) => {
            let named = Some(run.as_str()).filter(|name| !name.is_empty());
            let loaded = session.ledger_run_to_roll_back(Pipeline::DeleteNode, source, access, named)?;
            shell.check_can_confirm()?;
            shell.wait(loaded.roll_back(&hosts, &options, skip))?
        }
        None => shell.wait(async {
            let unreachable = match skip {
                true => kubexm_session::Unreachable::Listed,
                false => kubexm_session::Unreachable::Refused(
                    "\nnothing was changed; --unreachable skip removes a host that is gone for good from the cluster only",
                ),
            };
            let observed = session.observe("delete-node", source, &access, &hosts, unreachable).await?;
            observed.plan_delete(&args.nodes, drain).await?.check().await?.start(options).await?.finish().await
        })?,
    };
    ended::report(&ended, &commands.again(), display)
}
