//! `kubexm-install create`, and what the program does without a verb.

use kubexm_session::Recipe;
use kubexm_terminal::{Display, Failure};

use super::args::{AsideArgs, BackupArgs, CaArgs, ChangeArgs};
use super::change;

/// Create a cluster from the bundle: verify, preflight, plan, ask, install
///
/// Nothing but the agent is put on a host before you confirm, and it is removed again if you decline. A second create
/// does not change what is already in place. Files in folders which the cluster fills are refused; with --set-aside
/// they are moved aside, and moved back by rollback and reset.
///
/// With --from-backup it is the cluster of a backup that comes back, on hosts that have none, of the same or other names and addresses: the first
/// control plane gets its authorities and etcd's data, the others join. The nodes that it had are deleted before. cluster.yaml
/// has the same cluster name and networks, the bundle the same version of Kubernetes.
///
/// Examples:
///   kubexm-install create --bundle site.tar.zst --key release.pub   # only if it is signed by this key
///   kubexm-install create --bundle site.tar.zst -f cluster.yaml --accept-new-host-keys -y
///   kubexm-install create --bundle site.tar.zst --set-aside              # a snapshot lies in /var/lib/etcd
///   kubexm-install create --bundle site.tar.zst -f new-hosts.yaml --from-backup /srv/backups/lab-20260921T141321Z
///   kubexm-install create --bundle site.tar.zst -y --json | jq -c 'select(.type == "step-ended")'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    pub change: ChangeArgs,
    #[command(flatten)]
    aside: AsideArgs,
    #[command(flatten)]
    ca: CaArgs,
    #[command(flatten)]
    backup: BackupArgs,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    change::run("create", &args.change, args.aside, args.ca, &args.backup, Recipe::Create, display)
}
