//! `kubexm-install add-node`.

use kubexm_terminal::{Display, Failure};

use super::args::{AsideArgs, ChangeArgs};
use crate::run::begin::Begin;
use crate::run::consent::Consent;
use crate::site::opened::Opened;
use crate::site::planning;
use crate::support::events::Shown;
use crate::support::home::Home;

/// Add hosts of cluster.yaml to the cluster, as workers or control planes
///
/// Write the host and its role into cluster.yaml first. What other hosts need to know of it (its name) is told to them;
/// nothing else of theirs is changed.
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
    let consent = Consent::from_args(args.change.yes, display)?;
    let home = Home::from_environment()?;
    let shown = Shown(display);
    let opened = Opened::open(&args.change.bundle, &home, &shown)?.setting_aside(args.aside.set_aside);
    opened.check_closed_world()?;
    let access = args.change.access(&opened, &home, display)?;
    opened.verify(&home, &shown)?;
    let again = args.change.again();
    Begin { verb: "add-node", opened: &opened, access: &access, home: &home, again, consent, display }
        .run(|seen, events| planning::add_nodes(&opened, seen, &args.nodes, &home, events))
}
