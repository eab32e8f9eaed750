//! `kubexm-install create`, and what the program does without a verb.

use kubexm_session::Recipe;
use kubexm_terminal::{Display, Failure};

use super::args::{AsideArgs, CaArgs, ChangeArgs};
use super::change;

/// Create a cluster from the bundle: verify, preflight, plan, ask, install
///
/// Nothing but the agent is put on a host before you confirm, and it is removed again if you decline. A second create
/// does not change what is already in place. Files in folders which the cluster fills are refused; with --set-aside
/// they are moved aside, and moved back by rollback and reset.
///
/// Examples:
///   kubexm-install create --bundle site.tar.zst --key release.pub   # only if it is signed by this key
///   kubexm-install create --bundle site.tar.zst -f cluster.yaml --accept-new-host-keys -y
///   kubexm-install create --bundle site.tar.zst --set-aside              # a snapshot lies in /var/lib/etcd
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
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    change::run("create", &args.change, args.aside, args.ca, Recipe::Create, display)
}
