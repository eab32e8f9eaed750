//! `kubexm-install registry prune`.

use std::path::Path;

use kubexm_plan::Pipeline;
use kubexm_session::{Access, Keep, RunOptions, Unreachable, bundle_manifest, plan_file};
use kubexm_terminal::{Display, Failure, Mode};

use crate::commands::args::{ClusterArgs, HostArgs, OnFailure};
use crate::commands::resume_command::{on_cluster, shell_word};
use crate::render::{ended, summary};
use crate::terminal::Shell;

/// Remove earlier bundles from the cluster's registry, and delete their blobs
///
/// The bundle that the cluster has now always stays; so do those that --keep names, by their files or by the names that
/// `kubexm-install registry list` shows. It is refused, by name, if something in the cluster uses an image that would go: a pod that has
/// not ended, what makes pods, or a release of helm. Custom resources of which an operator makes pods are not looked through; keep
/// what they may need. Blobs that a bundle which stays needs stay, and so does whatever kubexm has not put there. No bundle is needed.
///
/// Deleted blobs do not come back by a rollback, but only with a bundle that has them. Runs from before a removal cannot be resumed or
/// rolled back any more. Of a registry of type `registry`, and of Harbor, goes what kubexm has put there; what others have pushed stays.
///
/// Examples:
///   kubexm-install registry prune -f cluster.yaml --dry-run
///   kubexm-install registry prune -f cluster.yaml --keep v1.33.8-1f2e3d4c5b6a7988
///   kubexm-install registry prune -f cluster.yaml --keep old.tar.zst --keep older.tar.zst -y
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// A bundle to keep: its file, or the name of its record, or the beginning of that or of the digest in it; may be repeated
    #[arg(long, value_name = "BUNDLE", num_args = 1..)]
    keep: Vec<String>,
    /// Show the plan, and change nothing
    #[arg(long, conflicts_with = "roll_back")]
    dry_run: bool,
    /// Confirm without being asked
    #[arg(short = 'y', long)]
    yes: bool,
    /// What to do when a step fails
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    on_failure: OnFailure,
    /// Roll back a removal that has not deleted yet [default run: the cluster's last one]
    #[arg(long = "roll-back", value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    roll_back: Option<String>,
    /// One JSON event a line; with --dry-run the plan as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The commands of a removal.
struct Commands<'a>(&'a Args);

impl Commands<'_> {
    fn of_cluster(&self) -> String {
        on_cluster(Pipeline::RegistryPrune.command(), &self.0.cluster, &self.0.hosts)
    }

    fn again(&self) -> String {
        let keep = |command: String, bundle: &String| format!("{command} --keep {}", shell_word(bundle));
        self.0.keep.iter().fold(self.of_cluster(), keep)
    }
}

impl kubexm_session::Commands for Commands<'_> {
    /// A removal that begins anew looks at what is left, asks again what is used, and does the rest.
    fn resume(&self, _: &str) -> String {
        self.again()
    }

    fn rollback(&self, run: &str) -> String {
        format!("{} --roll-back {run}", self.of_cluster())
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let keep = args.keep.iter().map(|text| kept(text)).collect::<Result<Vec<_>, Failure>>()?;
    let shell = if args.dry_run { Shell::looking(display)? } else { Shell::changing(display, args.yes)? };
    let (session, cluster, hosts) = (shell.session(), args.cluster.options(), args.hosts.options()?);
    let commands = Commands(args);
    let source = session.cluster(&cluster)?;
    if !args.dry_run && args.roll_back.is_none() {
        shell.check_can_confirm()?;
    }
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let options = RunOptions::strict(args.on_failure.into(), &commands);
    let unreachable = Unreachable::Refused("\nnothing was changed");
    let verb = Pipeline::RegistryPrune.name();
    if args.dry_run {
        let plan = shell.wait(async {
            let observed = session.observe(verb, source, &access, &hosts, unreachable).await?;
            Ok(observed.plan_prune(&keep).await?.check().await?.leave().await)
        })?;
        match display.mode() {
            Mode::Json => display.answer(&String::from_utf8_lossy(&plan_file::to_json(plan.plan())?)),
            Mode::Terminal | Mode::Plain => display.answer(&summary::long(plan.plan())),
        }
        return Ok(());
    }
    let ended = match &args.roll_back {
        Some(run) => {
            let named = Some(run.as_str()).filter(|name| !name.is_empty());
            let loaded = session.ledger_run_to_roll_back(Pipeline::RegistryPrune, source, access, named)?;
            shell.check_can_confirm()?;
            shell.wait(loaded.roll_back(&hosts, &options, false))?
        }
        None => shell.wait(async {
            let observed = session.observe(verb, source, &access, &hosts, unreachable).await?;
            observed.plan_prune(&keep).await?.check().await?.start(options).await?.finish().await
        })?,
    };
    ended::report(&ended, &commands.again(), display)
}

/// A file if there is one of that name; the names of records have no folder and no extension of a bundle.
fn kept(text: &str) -> Result<Keep, Failure> {
    let path = Path::new(text);
    match path.is_file() || text.contains('/') {
        true => Ok(Keep::Manifest(bundle_manifest(path)?)),
        false => Ok(Keep::Name(text.to_owned())),
    }
}
