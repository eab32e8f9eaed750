//! Common part of the verbs that start a run with a bundle.

use kubexm_session::{Access, Ended, Recipe, Unreachable, check_hosts};
use kubexm_terminal::{Display, Failure};

use super::args::{AsideArgs, CaArgs, ChangeArgs};
use super::resume_command::Again;
use crate::terminal::Shell;

/// Verifies, inspects the hosts, plans, asks, and executes the plan. How it ended is for the caller to report.
pub fn run(
    verb: &str,
    args: &ChangeArgs,
    aside: AsideArgs,
    ca: CaArgs,
    recipe: Recipe<'_>,
    display: &Display,
) -> Result<Ended, Failure> {
    let shell = Shell::changing(display, args.yes)?;
    let (session, bundle, hosts) = (shell.session(), args.bundle.options(), args.hosts.options()?);
    let again = Again { bundle: &args.bundle, hosts: &args.hosts, failure: &args.failure };
    let opened = session.open(&bundle)?.setting_aside(aside.set_aside).without_fan_out(args.failure.no_fan_out);
    let opened = opened.with_new_registry_ca(ca.new_registry_ca).for_pipeline(recipe.pipeline());
    let opened = opened.comparing_packages(matches!(recipe, Recipe::Upgrade(options) if options.os_packages));
    opened.check_remembered(&session)?;
    opened.check_closed_world()?;
    check_hosts(opened.cluster(), recipe.named())?;
    shell.check_can_confirm()?;
    let access = Access::obtain(&session, opened.cluster(), &bundle.trust, &hosts)?;
    let verified = opened.verify(&session)?;
    let options = args.failure.options(&again);
    shell.wait(async {
        let observed = session.observe(verb, verified, &access, &hosts, Unreachable::Refused("")).await?;
        observed.plan(recipe).await?.check().await?.start(options).await?.finish().await
    })
}
