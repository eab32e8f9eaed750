//! `kubexm-install backup --to PLACE`.

use std::path::PathBuf;

use kubexm_engine::clock::rfc3339;
use kubexm_session::{Access, BackedUp, BackupOptions};
use kubexm_spec::{ExitCode, amount, counted};
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use crate::commands::args::{ClusterArgs, HostArgs};
use crate::commands::s3_args::S3Args;
use crate::terminal::Shell;

#[derive(Debug, clap::Args)]
// The command that it is flattened into has a group of the same name.
#[group(skip)]
pub struct Args {
    /// Place for backups, a folder or s3://BUCKET/PREFIX; each gets a folder of its own in it
    #[arg(long, value_name = "PLACE", required = true)]
    to: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// How many backups of this cluster are kept there, this one included; older ones are removed [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    #[command(flatten)]
    s3: S3Args,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let Some(to) = &args.to else {
        return Err(Failure::new(ExitCode::Usage, "name a place for the backup with --to; see --help"));
    };
    let to = args.s3.place(to)?;
    let shell = Shell::looking(display)?;
    let (session, cluster, hosts) = (shell.session(), args.cluster.options(), args.hosts.options()?);
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let keep = args.keep.and_then(|keep| usize::try_from(keep).ok());
    let made = shell.wait(session.backup(&source, &access, &hosts, &BackupOptions { to, keep }))?;
    let BackedUp { at, about, removed, not_removed } = &made;
    match display.mode() {
        Mode::Json => {
            let mut answer = json!({"folder": at, "backup": about, "removed": removed});
            if !not_removed.is_empty() {
                answer["notRemoved"] = json!(not_removed);
            }
            display.answer(&answer.to_string());
        }
        Mode::Terminal | Mode::Plain => {
            let older = match removed.len() as u64 {
                0 => String::new(),
                count => format!("; {} removed", counted(count, "older backup")),
            };
            display.answer(&format!(
                "backup of cluster {} of {} in {}: etcd at revision {} with {}, {} encrypted for {}{older}",
                about.cluster,
                rfc3339(about.created),
                at,
                about.etcd.revision,
                counted(about.etcd.keys, "key"),
                amount(about.archive.size),
                about.recipients.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            ));
        }
    }
    Ok(())
}
