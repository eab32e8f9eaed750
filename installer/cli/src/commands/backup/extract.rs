//! `kubexm-install backup extract`.

use std::path::PathBuf;

use kubexm_spec::counted;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use crate::commands::s3_args::S3Args;
use crate::terminal::Shell;

/// Write what is in a backup to a folder: etcd's snapshot, PKI and configuration
///
/// For hosts that have lost their PKI, and for a restore of etcd by hand. The backup is verified to its end first. The folder must not exist
/// yet; it has `etcd.db`, and below `files` everything else under its path on the host. All of it is IN CLEAR, the keys of the cluster's
/// authorities too, and readable by you alone: remove it when you are done. No host is contacted.
///
/// Examples:
///   kubexm-install backup extract /srv/backups/lab-20260921T141321Z --to /root/lab-backup
///   kubexm-install backup extract s3://backups/lab/lab-20260921T141321Z --to /root/lab-backup \
///     --s3-endpoint https://minio.example.com:9000
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The backup's folder, or its address (s3://BUCKET/PREFIX/BACKUP)
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// The folder to write, which does not exist yet
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// Public key (age1…) of another operator whose backups are trusted like those of this home; may be repeated
    #[arg(long, value_name = "KEY")]
    sender: Vec<String>,
    #[command(flatten)]
    s3: S3Args,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::looking(display)?;
    let (session, place) = (shell.session(), args.s3.place(&args.backup)?);
    let backup = shell.wait(session.local_backup(&place, Some(&args.sender)))?;
    let files = shell.work(|| session.extract_backup(&backup, &args.sender, &args.to))?;
    let to = args.to.display();
    match display.mode() {
        Mode::Json => display.answer(&json!({"folder": args.to.to_string_lossy(), "files": files}).to_string()),
        Mode::Terminal | Mode::Plain => display.answer(&format!(
            "{} of the backup are in {to}, in clear, with the keys of the cluster's authorities: remove it when you are done",
            counted(files as u64, "file"),
        )),
    }
    Ok(())
}
