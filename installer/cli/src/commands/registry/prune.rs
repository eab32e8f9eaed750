//! `kubexm-install registry prune`.

use kubexm_plan::Pipeline;
use kubexm_session::{Access, RunOptions, Unreachable};
use kubexm_terminal::{Display, Failure};

use crate::commands::args::{ClusterArgs, HostArgs, OnFailure};
use crate::commands::resume_command::{on_cluster, shell_word};
use crate::render::ended;
use crate::terminal::Shell;

/// Remove bundles of before from the hosts of the registry
///
/// What a `create` or an `upgrade` with another bundle has brought stays beside what was there, so that pods of before start
/// again. This removes what only the bundles of before have: images, charts, programs and packages. The bundle that is served
/// now stays, and so does what others have put into the registry. No bundle is needed. What is removed comes back with its
/// bundle alone.
///
/// The question names the bundles, by the version of Kubernetes and the beginning of the digest of the manifest
/// (`kubexm-bundle inspect` shows it). Of a registry of yours (`type: external`) and of Harbor nothing is removed there.
///
/// Examples:
///   kubexm-install registry prune -f cluster.yaml
///   kubexm-install registry prune -f cluster.yaml --keep v1.34.4-0123456789abcdef --keep v1.33.13-aaaabbbbccccdddd -y
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// Keep this bundle too: its name, or at least eight characters of its manifest's digest; may be repeated
    #[arg(long, value_name = "BUNDLE")]
    keep: Vec<String>,
    /// Confirm without being asked
    #[arg(short = 'y', long)]
    yes: bool,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

/// The commands of a removal.
struct Commands<'a>(&'a Args);

impl Commands<'_> {
    fn again(&self) -> String {
        let mut command = on_cluster(Pipeline::RegistryPrune.command(), &self.0.cluster, &self.0.hosts);
        for keep in &self.0.keep {
            command.push_str(&format!(" --keep {}", shell_word(keep)));
        }
        command
    }
}

impl kubexm_session::Commands for Commands<'_> {
    /// What is left is found again.
    fn resume(&self, _: &str) -> String {
        self.again()
    }

    /// There is no way back, and what is left can be removed or kept.
    fn rollback(&self, _: &str) -> String {
        self.again()
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::changing(display, args.yes)?;
    let (session, cluster, hosts) = (shell.session(), args.cluster.options(), args.hosts.options());
    let commands = Commands(args);
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let options = RunOptions::strict(OnFailure::Keep.into(), &commands);
    let ended = shell.wait(async {
        let unreachable = Unreachable::Refused("\nnothing was changed");
        let observed = session.observe(Pipeline::RegistryPrune.name(), source, &access, &hosts, unreachable).await?;
        observed.plan_prune(&args.keep).await?.check().await?.start(options).await?.finish().await
    })?;
    ended::report(&ended, &commands.again(), display)
}
