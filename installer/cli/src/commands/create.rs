//! `kubexm-install create`, and what the program does without a verb.

use std::path::PathBuf;

use kubexm_session::Recipe;
use kubexm_terminal::{Display, Failure};

use super::args::{AsideArgs, CaArgs, ChangeArgs};
use super::create_from_backup::Backup;
use super::s3_args::S3Args;
use super::{change, create_from_backup};
use crate::render::ended;

/// Create a cluster from the bundle: verify, preflight, plan, ask, install
///
/// Nothing but the agent is put on a host before you confirm, and it is removed again if you decline. A second create
/// does not change what is already in place. Files in folders which the cluster fills are refused; with --set-aside
/// they are moved aside, and moved back by rollback and reset.
///
/// With --from-backup the cluster is made again on fresh hosts, which may have other names and addresses: with its id, its authorities
/// and every object of the backup. The bundle has the same Kubernetes minor version, and cluster.yaml the same name, networks and add-ons.
/// Data of volumes is not in a backup. The hosts of before must be off. The same command continues one that was interrupted.
///
/// Examples:
///   kubexm-install create --bundle site.tar.zst --key release.pub   # only if it is signed by this key
///   kubexm-install create --bundle site.tar.zst -f cluster.yaml --accept-new-host-keys -y
///   kubexm-install create --bundle site.tar.zst --set-aside              # a snapshot lies in /var/lib/etcd
///   kubexm-install create --bundle site.tar.zst -f cluster.yaml --from-backup /srv/backups/lab-20260921T141321Z
///   kubexm-install create --bundle site.tar.zst -y --json | jq -c 'select(.type == "step-ended")'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    pub change: ChangeArgs,
    #[command(flatten)]
    aside: AsideArgs,
    #[command(flatten)]
    ca: CaArgs,
    /// Make the cluster of this backup (its folder, or s3://BUCKET/PREFIX/BACKUP) again, on fresh hosts
    #[arg(long, value_name = "BACKUP", conflicts_with = "new_registry_ca")]
    from_backup: Option<PathBuf>,
    /// Take a backup although it is not known who made it: neither this home nor an operator of cluster.yaml
    #[arg(long, requires = "from_backup")]
    allow_unauthenticated: bool,
    #[command(flatten)]
    s3: S3Args,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    match &args.from_backup {
        None => {
            let ended = change::run("create", &args.change, args.aside, args.ca, Recipe::Create, display)?;
            ended::report(&ended, "", display)
        }
        Some(backup) => {
            let backup = Backup { at: backup, s3: &args.s3, allow_unauthenticated: args.allow_unauthenticated };
            create_from_backup::run(&args.change, args.aside, &backup, display)
        }
    }
}
