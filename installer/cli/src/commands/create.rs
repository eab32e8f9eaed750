//! `kubexm-install create`, and what the program does without a verb.

use kubexm_session::Recipe;
use kubexm_terminal::{Display, Failure};

use super::args::{AsideArgs, ChangeArgs};
use super::change;

/// Make a cluster of the bundle: verify, look at the hosts, plan, ask, install
///
/// Nothing but our agent is put on a host before you say yes, and a no takes it away again. A second create changes
/// nothing that holds already. Files that lie in folders which the cluster fills are refused, or moved aside and brought
/// back later with --set-aside.
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
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    change::run("create", &args.change, args.aside, Recipe::Create, display)
}
