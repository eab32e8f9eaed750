//! `kubexm-install add-node`.

use kubexm_session::Recipe;
use kubexm_terminal::{Display, Failure};

use super::args::{AsideArgs, CaArgs, ChangeArgs};
use super::change;
use crate::render::ended;

/// Add hosts of cluster.yaml to the cluster, as workers or control planes
///
/// Write the host and its role into cluster.yaml first, and give that file with -f, unless the bundle was built with it. The other
/// hosts get its name in /etc/hosts; nothing else on them is changed.
///
/// Examples:
///   kubexm-install add-node --bundle site.tar.zst -f cluster.yaml          # all that are not in the cluster yet
///   kubexm-install add-node worker7 --bundle site.tar.zst -f cluster.yaml -y
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Names of hosts [default: every host of cluster.yaml that is not in the cluster yet]
    nodes: Vec<String>,
    #[command(flatten)]
    pub change: ChangeArgs,
    #[command(flatten)]
    aside: AsideArgs,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let recipe = Recipe::AddNode(&args.nodes);
    let ended = change::run("add-node", &args.change, args.aside, CaArgs::default(), recipe, display)?;
    ended::report(&ended, "", display)
}
