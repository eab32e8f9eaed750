//! `kubexm-install restore`.

use std::path::{Path, PathBuf};

use kubexm_engine::backup::{SnapshotFile, SnapshotName};
use kubexm_plan::Pipeline;
use kubexm_session::{Access, BackupPlace, Restore, RunOptions, SessionError, Unreachable};
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure};

use super::args::{ClusterArgs, HostArgs, OnFailure};
use super::resume_command::on_cluster;
use super::s3_args::S3Args;
use crate::render::ended;
use crate::terminal::Shell;

/// Give the cluster's etcd the data of a backup, on the hosts that the cluster runs on
///
/// For a cluster that has lost its etcd's data, or whose data is to be as it was. All members get the snapshot at the same time: the
/// API servers and members stop on every host that has one, what etcd has is moved aside (/var/lib/etcd/.kubexm-before-…), and both start
/// again with the data of the backup. Objects that were made since are gone; pods of nodes keep running meanwhile. PKI and
/// configuration of the hosts stay as they are. The backup is verified to its end before a host is contacted: also that this home or an
/// operator of cluster.yaml (spec.operators) has made it, since what is in it becomes the cluster's.
///
/// A snapshot of etcd is taken, too: a file of spec.etcd.backup (etcd-CLUSTER-ID-HOST-TIME.db, or .db.age, which this home's identity
/// opens), of an upgrade (before-VERSION-TIME.db) or of `etcdctl snapshot save`. Its checksum is verified to its end before a host is
/// contacted. It does not say who made it, so it needs --allow-unauthenticated.
///
/// The same command continues a restore that was interrupted or has failed. Another backup is only taken after it was rolled back.
///
/// The confirmation is the cluster's name, typed; -y confirms without asking.
///
/// Examples:
///   kubexm-install restore /srv/backups/lab-20260921T141321Z -f cluster.yaml
///   kubexm-install restore /srv/backups/lab-20260921T141321Z -f cluster.yaml --roll-back 20260921T150322Z-19fa    # the data from before it
///   kubexm-install restore ./etcd-lab-4b0c5d3e-…-node1-20260921T141321Z.db -f cluster.yaml --allow-unauthenticated
///   kubexm-install restore s3://backups/lab/lab-20260921T141321Z -f cluster.yaml --s3-endpoint https://minio.example.com:9000
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The backup's folder, its address (s3://BUCKET/PREFIX/BACKUP), or a snapshot of etcd (FILE.db, FILE.db.age)
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// Take a backup although it is not known who made it: neither this home nor an operator of cluster.yaml. For a snapshot always
    #[arg(long, conflicts_with = "roll_back")]
    allow_unauthenticated: bool,
    /// Confirm without being asked
    #[arg(short = 'y', long)]
    yes: bool,
    /// What to do when a step fails
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    on_failure: OnFailure,
    /// Roll back a restore: etcd gets what it had before [default run: the cluster's last one]
    #[arg(long = "roll-back", value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    roll_back: Option<String>,
    #[command(flatten)]
    s3: S3Args,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

/// A snapshot of etcd, which is a file; a backup is a folder, whatever that is called.
fn snapshot(place: &BackupPlace) -> Option<&Path> {
    match place {
        BackupPlace::Folder(file) => Some(file.as_path()).filter(|file| SnapshotName::is_one(file) && !file.is_dir()),
        BackupPlace::S3 { .. } => None,
    }
}

/// The commands of a restore.
struct Commands<'a>(&'a Args);

impl Commands<'_> {
    fn again(&self) -> String {
        let allowed = if self.0.allow_unauthenticated { " --allow-unauthenticated" } else { "" };
        format!("{}{allowed}", self.command())
    }

    fn command(&self) -> String {
        let command = on_cluster(Pipeline::Restore.command(), &self.0.cluster, &self.0.hosts);
        let words = [command, S3Args::word(&self.0.backup)].into_iter().chain(self.0.s3.words());
        words.collect::<Vec<_>>().join(" ")
    }
}

impl kubexm_session::Commands for Commands<'_> {
    /// The same command: it continues with the cluster's last run, if that is a restore of this backup and has not ended.
    fn resume(&self, _: &str) -> String {
        self.again()
    }

    fn rollback(&self, run: &str) -> String {
        format!("{} --roll-back {run}", self.command())
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::changing(display, args.yes)?;
    let (session, cluster, hosts) = (shell.session(), args.cluster.options(), args.hosts.options()?);
    let commands = Commands(args);
    let place = args.roll_back.is_none().then(|| args.s3.place(&args.backup)).transpose()?;
    let snapshot = place.as_ref().and_then(snapshot);
    match (snapshot, &place) {
        (Some(file), _) => SnapshotFile::look(file).map_err(SessionError::from)?,
        (None, Some(place)) => place.check_backup()?,
        (None, None) => {}
    }
    let source = session.cluster(&cluster)?;
    if args.roll_back.is_none() {
        shell.check_can_confirm()?;
    }
    let access = match &args.roll_back {
        Some(_) => Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?,
        None => Access::obtain_with_backup(&session, source.cluster(), (&cluster.trust, &hosts), &args.backup)?,
    };
    let options = RunOptions::strict(args.on_failure.into(), &commands);
    let ended = match (&args.roll_back, &place) {
        (Some(run), _) => {
            let named = Some(run.as_str()).filter(|name| !name.is_empty());
            let loaded = session.ledger_run_to_roll_back(Pipeline::Restore, source, access, named)?;
            shell.check_can_confirm()?;
            shell.wait(loaded.roll_back(&hosts, &options, false))?
        }
        (None, None) => return Err(Failure::new(ExitCode::Usage, "name a backup")),
        (None, Some(place)) => {
            let restored = match snapshot {
                Some(file) => session.snapshot_source(source, file, args.allow_unauthenticated)?,
                None => {
                    let operators = source.cluster().proven_operators();
                    let senders = (!args.allow_unauthenticated).then_some(operators.as_slice());
                    let backup = shell.wait(session.local_backup(place, senders))?;
                    session.restore_source(source, backup, args.allow_unauthenticated)?
                }
            };
            shell.wait(async {
                let unreachable = Unreachable::Refused("\nnothing was changed");
                let (restored, access) = match session.restore_to_start(restored, access)? {
                    Restore::New(restored, access) => (*restored, *access),
                    Restore::Begun(run) => return run.continue_restore(&hosts, options).await?.finish().await,
                };
                let observed =
                    session.observe(Pipeline::Restore.name(), restored, &access, &hosts, unreachable).await?;
                observed.plan_restore().await?.check().await?.start(options).await?.finish().await
            })?
        }
    };
    ended::report(&ended, &commands.again(), display)
}
