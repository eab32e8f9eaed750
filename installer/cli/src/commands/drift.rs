//! `kubexm-install drift`.

use kubexm_session::{Access, Recipe, Unreachable};
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};

use super::args::{BundleArgs, HostArgs};
use crate::render::drift;
use crate::terminal::Shell;

/// Show what is no longer as it was applied, and change nothing
///
/// Every step of `create` is compared with its host: files with a diff, units, packages, objects, what the kernel has. cluster.yaml
/// is compared with the one that was applied last, which the cluster has kept. `create` with the same bundle mends what is shown.
/// No lock is taken, and no certificate is made or renewed; our agent is put on a host that has none for as long as it takes.
///
/// The exit code is 58 if something differs, and 0 if nothing does.
///
/// Examples:
///   kubexm-install drift --bundle site.tar.zst
///   kubexm-install drift --bundle site.tar.zst -f cluster.yaml --json | jq '.steps[].differences[].what'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    bundle: BundleArgs,
    #[command(flatten)]
    hosts: HostArgs,
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
    let manifest = opened.bundle().manifest_digest();
    let compared = shell.wait(async {
        let observed = session.observe("drift", opened, &access, &hosts, Unreachable::Refused("")).await?;
        observed.plan(Recipe::Create).await?.check().await?.compare().await
    })?;
    match display.mode() {
        Mode::Json => display.answer(&drift::document(&compared, manifest).to_string()),
        Mode::Terminal | Mode::Plain => display.answer(&drift::text(&compared, manifest)),
    }
    match compared.is_same() {
        true => Ok(()),
        false => Err(Failure::silent(ExitCode::Drifted)),
    }
}
