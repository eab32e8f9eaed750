//! `kubexm-install create`, and what the program does without a verb.

use kubexm_terminal::{Display, Failure};

use super::args::{AsideArgs, ChangeArgs};
use crate::run::begin::Begin;
use crate::run::consent::Consent;
use crate::site::opened::Opened;
use crate::site::planning;
use crate::support::events::Shown;
use crate::support::home::Home;

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
    let consent = Consent::from_args(args.change.yes, display)?;
    let home = Home::from_environment()?;
    let shown = Shown(display);
    let opened = Opened::open(&args.change.bundle, &home, &shown)?.setting_aside(args.aside.set_aside);
    opened.check_closed_world()?;
    let access = args.change.access(&opened, &home, display)?;
    opened.verify(&home, &shown)?;
    let again = args.change.again();
    Begin { verb: "create", opened: &opened, access: &access, home: &home, again, consent, display }
        .run(|seen, events| planning::create(&opened, seen, &home, events))
}
