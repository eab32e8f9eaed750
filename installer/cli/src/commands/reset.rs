//! `kubexm-install reset`.

use std::path::PathBuf;

use kubexm_plan::Pipeline;
use kubexm_session::{Access, ResetData, RunOptions};
use kubexm_spec::ExitCode;
use kubexm_spec::cluster::RegistryKind;
use kubexm_terminal::{Display, Failure};

use super::args::{ClusterArgs, HostArgs, OnFailure, Unreachable};
use super::resume_command::on_cluster;
use super::s3_args::S3Args;
use crate::render::ended;
use crate::terminal::Shell;

/// Remove a cluster: every host is as it was before `create`
///
/// Works from the ledgers on the hosts, so any machine that reaches them can do it. Until the last steps, which delete,
/// everything can be rolled back and the cluster runs again. What create moved aside (--set-aside) is moved back. Pods'
/// volumes are unmounted and keep their data. Any other mount below the cluster's folders, or one that is in use, is
/// reported before anything is stopped (exit 53), and left as it is. Packages that were installed with the cluster are
/// removed, on Debian with their configuration and data; they are listed for each host before anything is done.
///
/// Examples:
///   kubexm-install reset -f cluster.yaml
///   kubexm-install reset --bundle site.tar.zst -y                # its cluster.yaml names the hosts
///   kubexm-install reset -f cluster.yaml --unreachable skip -y   # without a host that is gone
///   kubexm-install reset -f cluster.yaml --only node3            # a host that such a reset left, when it is back
///   kubexm-install reset -f cluster.yaml --delete-registry-data lab   # with what others pushed to its Harbor
///   kubexm-install reset -f cluster.yaml --etcd-data /srv/backups/lab-20260921T141321Z   # with its keys in an etcd of yours
///   kubexm-install reset -f cluster.yaml --roll-back             # of a reset that failed half-way
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// Reset only this host (may be given several times): one that belongs to another cluster of the same name, as after a
    /// reset without it. A member of this cluster is refused
    #[arg(long, value_name = "HOST", conflicts_with = "roll_back")]
    only: Vec<String>,
    /// Delete Harbor's data too, with all that others have pushed; otherwise it stays in spec.registry.dataDir. The name of the
    /// cluster is typed, so that no other command line does it by mistake
    #[arg(long, value_name = "CLUSTER", conflicts_with = "roll_back")]
    delete_registry_data: Option<String>,
    /// Delete the cluster's keys in an etcd of yours too (spec.etcd.type: external); otherwise they stay. It needs a backup of this
    /// cluster, made by this home or an operator of cluster.yaml, and every control plane; the confirmation is the cluster's name, typed
    #[arg(long, value_name = "BACKUP", conflicts_with_all = ["roll_back", "only"])]
    etcd_data: Option<PathBuf>,
    /// Confirm without being asked
    #[arg(short = 'y', long)]
    yes: bool,
    /// What to do with hosts that cannot be reached; a reset without some ends with exit code 72, and one that is
    /// rolled back without some with 71
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    unreachable: Unreachable,
    /// What to do when a step fails
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    on_failure: OnFailure,
    /// Roll back a reset that has not deleted yet [default run: the cluster's last one]
    #[arg(long = "roll-back", alias = "take-back", value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    roll_back: Option<String>,
    #[command(flatten)]
    s3: S3Args,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

/// The commands of a reset.
struct Commands<'a>(&'a Args);

impl Commands<'_> {
    fn again(&self) -> String {
        let all = self.0.only.iter().fold(self.of_cluster(), |command, host| format!("{command} --only {host}"));
        let all = match &self.0.delete_registry_data {
            Some(cluster) => format!("{all} --delete-registry-data {cluster}"),
            None => all,
        };
        match &self.0.etcd_data {
            Some(backup) => {
                let words = [format!("{all} --etcd-data"), S3Args::word(backup)].into_iter().chain(self.0.s3.words());
                words.collect::<Vec<_>>().join(" ")
            }
            None => all,
        }
    }

    fn of_cluster(&self) -> String {
        on_cluster("reset", &self.0.cluster, &self.0.hosts)
    }
}

impl kubexm_session::Commands for Commands<'_> {
    /// A reset that begins anew looks at what is left, and does the rest.
    fn resume(&self, _: &str) -> String {
        self.again()
    }

    fn rollback(&self, run: &str) -> String {
        format!("{} --roll-back {run}", self.of_cluster())
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::changing(display, args.yes)?;
    let (session, cluster, hosts) = (shell.session(), args.cluster.options(), args.hosts.options()?);
    let commands = Commands(args);
    let source = session.cluster(&cluster)?;
    source.check_hosts(&args.only)?;
    if let Some(typed) = &args.delete_registry_data {
        let cluster = source.cluster();
        if *typed != cluster.name || cluster.registry.kind != RegistryKind::Harbor {
            let text = format!(
                "--delete-registry-data {typed}: the cluster is {}, with a registry of type {}; nothing was changed. Only the data of \
                 Harbor outlive a reset, and are deleted by `--delete-registry-data {}`",
                cluster.name, cluster.registry.kind, cluster.name
            );
            return Err(Failure::new(ExitCode::Config, text));
        }
    }
    if args.roll_back.is_none() {
        shell.check_can_confirm()?;
    }
    let etcd = match &args.etcd_data {
        Some(backup) => {
            let place = args.s3.place(backup)?;
            place.check_backup()?;
            let operators = source.cluster().proven_operators();
            let local = shell.wait(session.local_backup(&place, Some(&operators)))?;
            Some(session.etcd_backup(&source, local)?)
        }
        None => None,
    };
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let options = RunOptions::strict(args.on_failure.into(), &commands);
    let skip = args.unreachable == Unreachable::Skip;
    let ended = match &args.roll_back {
        Some(run) => {
            let named = Some(run.as_str()).filter(|name| !name.is_empty());
            let loaded = session.ledger_run_to_roll_back(Pipeline::Reset, source, access, named)?;
            shell.check_can_confirm()?;
            shell.wait(loaded.roll_back(&hosts, &options, skip))?
        }
        None => shell.wait(async {
            let unreachable = match skip {
                true => kubexm_session::Unreachable::Listed,
                false => kubexm_session::Unreachable::Refused(
                    "\nnothing was changed; --unreachable skip resets the others and leaves these as they are",
                ),
            };
            let observed = session.observe("reset", source, &access, &hosts, unreachable).await?;
            let data = ResetData { registry: args.delete_registry_data.is_some(), etcd: etcd.as_ref() };
            observed.plan_reset(&args.only, data).await?.check().await?.start(options).await?.finish().await
        })?,
    };
    ended::report(&ended, &commands.again(), display)
}
