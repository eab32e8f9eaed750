//! `kubexm-install backup verify`.

use std::path::PathBuf;

use kubexm_engine::clock::rfc3339;
use kubexm_session::VerifiedBackup;
use kubexm_spec::counted;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use crate::terminal::Shell;

/// Read a backup to its end: every byte, the snapshot in it, and that this home can open it
///
/// No host is contacted. The snapshot was restored on trial when the backup was made; here its bytes are compared with those.
/// The exit code is 57 if the backup was cut off or altered, or is sealed for others.
///
/// Examples:
///   kubexm-install backup verify /srv/backups/lab-20260921T141321Z
///   kubexm-install backup verify /srv/backups/lab-20260921T141321Z --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The backup's folder
    #[arg(value_name = "BACKUP")]
    folder: PathBuf,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let shell = Shell::looking(display)?;
    let VerifiedBackup { about, files } = shell.session().verify_backup(&args.folder)?;
    match display.mode() {
        Mode::Json => display.answer(&json!({"backup": about, "files": files}).to_string()),
        Mode::Terminal | Mode::Plain => display.answer(&format!(
            "the backup of cluster {} (id {}) of {} is whole, and this home opens it: etcd at revision {} with {}, and {}",
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
