//! `kubexm-install addons apply`.

use kubexm_session::Recipe;
use kubexm_terminal::{Display, Failure};

use crate::commands::args::{AsideArgs, CaArgs, ChangeArgs};
use crate::commands::change;
use crate::render::ended;

/// Install, upgrade and remove the add-ons of a running cluster, and nothing of its hosts
///
/// The images that they need are put into the cluster's registry (or onto the nodes, without one), and charts and files onto the first
/// control plane; then they are installed as `create` does it. What cluster.yaml no longer has is removed, without its volumes. The
/// bundle must have the cluster's version of Kubernetes. `resume` continues a run, `rollback` takes it back: releases to their revision
/// before, removed add-ons are installed again.
///
/// Examples:
///   kubexm-install addons diff --bundle new.tar.zst
///   kubexm-install addons apply --bundle new.tar.zst
///   kubexm-install addons apply --bundle new.tar.zst web -y     # only this one
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Names of add-ons; one that cluster.yaml no longer has is removed [default: all]
    names: Vec<String>,
    #[command(flatten)]
    pub change: ChangeArgs,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let recipe = Recipe::AddonsApply(&args.names);
    let ended = change::run("addons apply", &args.change, AsideArgs::default(), CaArgs::default(), recipe, display)?;
    ended::report(&ended, "", display)
}
