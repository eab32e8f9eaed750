//! `kubexm-install addons diff`.

use kubexm_session::{Access, Recipe, Unreachable};
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};

use crate::commands::args::{BundleArgs, HostArgs};
use crate::render::addons;
use crate::terminal::Shell;

/// Show what a bundle and its cluster.yaml would change of the add-ons, and change nothing
///
/// Charts are rendered with their real values by the bundle's helm on this machine, and compared object by object and field by field
/// with what is installed; YAML likewise. Values of Secrets are never shown: a changed one is only named. What `lookup` of a chart finds in
/// the cluster is not known here, so that such fields may differ from what `apply` does.
///
/// Examples:
///   kubexm-install addons diff --bundle new.tar.zst
///   kubexm-install addons diff --bundle new.tar.zst web --exit-code     # 1 if something would change
///   kubexm-install addons diff --bundle new.tar.zst --json | jq '.addons[].objects[]? | [.change, .kind, .name]'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Names of add-ons [default: all, with those that cluster.yaml no longer has]
    names: Vec<String>,
    #[command(flatten)]
    bundle: BundleArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// End with 1 if something would change
    #[arg(long)]
    exit_code: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::looking(display)?;
    let (session, bundle, hosts) = (shell.session(), args.bundle.options(), args.hosts.options()?);
    let opened = session.open(&bundle)?;
    opened.check_remembered(&session)?;
    opened.check_closed_world()?;
    let access = Access::obtain(&session, opened.cluster(), &bundle.trust, &hosts)?;
    let recipe = Recipe::AddonsApply(&args.names);
    let diff = shell.wait(async {
        let observed = session.observe("addons diff", opened, &access, &hosts, Unreachable::Refused("")).await?;
        observed.plan(recipe).await?.check().await?.addons_diff().await
    })?;
    let code = if args.exit_code && !diff.is_same() { ExitCode::Differs } else { ExitCode::Ok };
    match display.mode() {
        Mode::Json => display.answer(&addons::diff_document(&diff, code).to_string()),
        Mode::Terminal | Mode::Plain => display.answer(&addons::diff_text(&diff)),
    }
    match code {
        ExitCode::Ok => Ok(()),
        code => Err(Failure::silent(code)),
    }
}
