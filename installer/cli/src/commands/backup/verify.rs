//! `kubexm-install backup verify`.

use std::path::PathBuf;

use kubexm_engine::clock::rfc3339;
use kubexm_session::VerifiedBackup;
use kubexm_spec::counted;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use crate::commands::s3_args::S3Args;
use crate::terminal::Shell;

/// Read a backup to its end: every byte, the snapshot in it, and that this home can open it
///
/// No host is contacted. A backup in S3 is fetched into $KUBEXM_HOME/staging, verified there, and removed again. The snapshot was restored on trial when the backup was made; here its bytes are compared with those.
/// The exit code is 57 if the backup was cut off or altered, is sealed for others, or was made by somebody who is not trusted: neither
/// by this home nor by --sender.
///
/// Examples:
///   kubexm-install backup verify /srv/backups/lab-20260921T141321Z
///   kubexm-install backup verify /srv/backups/lab-20260921T141321Z --json
///   kubexm-install backup verify s3://backups/lab/lab-20260921T141321Z --s3-endpoint https://minio.example.com:9000
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The backup's folder, or its address (s3://BUCKET/PREFIX/BACKUP)
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
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
    let VerifiedBackup { about, files } = session.verify_backup(&backup, &args.sender)?;
    match display.mode() {
        Mode::Json => display.answer(&json!({"backup": about, "files": files}).to_string()),
        Mode::Terminal | Mode::Plain => display.answer(&format!(
            "the backup of cluster {} (id {}) of {} is whole, this home opens it, and it is known who made it: etcd at revision {} with {}, and {}",
            about.cluster,
            about.cluster_id,
            rfc3339(about.created),
            about.etcd.revision,
            counted(about.etcd.keys, "key"),
            counted(files as u64, "other file"),
        )),
    }
    Ok(())
}
