//! `kubexm-install certs renew`.

use kubexm_plan::Pipeline;
use kubexm_session::{Access, Renew, RunOptions, Unreachable};
use kubexm_terminal::{Display, Failure};

use super::length::length;
use crate::commands::args::{ClusterArgs, HostArgs, OnFailure};
use crate::commands::resume_command::on_cluster;
use crate::render::ended;
use crate::terminal::Shell;

/// Renew the certificates that end soon, and restart what uses them
///
/// kubeadm renews its certificates and kubeconfigs on every control plane, one control plane after the other; then etcd, the
/// API server, the controller manager and the scheduler are restarted there, in this order, and must be healthy before the next
/// one. kubeconfigs are handed out again: to root and the SSH user of each control plane, and to this machine. No bundle is needed.
///
/// Before that come the certificates that this cluster's own authorities have signed: of the depot and the registry, which are restarted,
/// and of an etcd of kubexm's own. Its members get theirs one after the other, and all must be healthy before the next one; then the API
/// servers get theirs for etcd. Nothing of etcd is restarted without --authorities. The home must be one of an operator, as for create.
///
/// Certificates that have ended already are renewed too: then all control planes are renewed first, and restarted afterwards. A
/// kubelet whose certificate has ended, so that it cannot renew it itself, gets another one. If nothing is due, nothing is changed.
///
/// On a cluster that was adopted only kubeconfigs that are copies of the earlier admin.conf are replaced, and static pods of others are
/// named and not restarted (exit 22 if its runtime or its certificates are not where kubexm-install finds them).
///
/// Certificate authorities are renewed with --authorities alone; the output names those that end soon. kubeadm's, and that of an etcd of kubexm's
/// own, get another certificate under their own key: what they have signed stays valid, so one host follows the other while the cluster runs.
/// Every node must be reached; its kubelet is restarted, and the control planes' pods as above. Pods that run keep the earlier certificate until
/// you restart them: the output says how long that is valid. An authority of the site (spec.kubernetes.ca) and the registry's are not among
/// them.
///
/// Examples:
///   kubexm-install certs renew -f cluster.yaml
///   kubexm-install certs renew -f cluster.yaml --within 180d -y
///   kubexm-install certs renew -f cluster.yaml --force          # whenever they end
///   kubexm-install certs renew -f cluster.yaml --authorities    # authorities that end soon, too
///   kubexm-install certs renew -f cluster.yaml --roll-back      # of a renewal that failed half-way
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// Renew what ends within this time: days (30d), hours (36h) or seconds [default: 90d; with a
    /// certificateValidityPeriod of less than a year, a quarter of it less 30h]
    #[arg(long, value_name = "TIME", value_parser = length)]
    within: Option<i64>,
    /// Renew all certificates, whenever they end
    #[arg(long)]
    force: bool,
    /// Renew certificate authorities, too, under their own keys
    #[arg(long, conflicts_with = "roll_back")]
    authorities: bool,
    /// Confirm without being asked
    #[arg(short = 'y', long)]
    yes: bool,
    /// What to do when a step fails
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    on_failure: OnFailure,
    /// Roll back a renewal: the earlier certificates are used again [default run: the cluster's last one]
    #[arg(long = "roll-back", value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    roll_back: Option<String>,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

/// The commands of a renewal.
struct Commands<'a>(&'a Args);

impl Commands<'_> {
    fn again(&self) -> String {
        let mut command = on_cluster(Pipeline::CertsRenew.command(), &self.0.cluster, &self.0.hosts);
        if let Some(within) = self.0.within {
            command.push_str(&format!(" --within {within}"));
        }
        if self.0.authorities {
            command.push_str(" --authorities");
        }
        if self.0.on_failure == OnFailure::Keep {
            command.push_str(" --on-failure keep");
        }
        command
    }
}

impl kubexm_session::Commands for Commands<'_> {
    /// A renewal that begins anew looks at what is left, and does the rest: not with --force, which would renew all again.
    fn resume(&self, _: &str) -> String {
        self.again()
    }

    fn rollback(&self, run: &str) -> String {
        format!("{} --roll-back {run}", on_cluster(Pipeline::CertsRenew.command(), &self.0.cluster, &self.0.hosts))
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::changing(display, args.yes)?;
    let (session, cluster, hosts) = (shell.session(), args.cluster.options(), args.hosts.options()?);
    let commands = Commands(args);
    let source = session.cluster(&cluster)?;
    if args.roll_back.is_none() {
        shell.check_can_confirm()?;
    }
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let options = RunOptions::strict(args.on_failure.into(), &commands);
    let within_s = args.within.unwrap_or_else(|| source.cluster().certificate_validity().soon_s());
    let ended = match &args.roll_back {
        Some(run) => {
            let named = Some(run.as_str()).filter(|name| !name.is_empty());
            let loaded = session.ledger_run_to_roll_back(Pipeline::CertsRenew, source, access, named)?;
            shell.check_can_confirm()?;
            shell.wait(loaded.roll_back(&hosts, &options, false))?
        }
        None => shell.wait(async {
            let unreachable = Unreachable::Refused("\nnothing was changed");
            let observed = session.observe(Pipeline::CertsRenew.name(), source, &access, &hosts, unreachable).await?;
            let wanted = Renew { within_s, force: args.force, authorities: args.authorities };
            observed.plan_renewal(wanted).await?.check().await?.start(options).await?.finish().await
        })?,
    };
    ended::report(&ended, &commands.again(), display)
}
