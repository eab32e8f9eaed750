//! `kubexm-install report`.

use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};

use crate::terminal::home;

/// Print the report of a run: what was done, what failed, what changed on which host
///
/// Without a run: the latest of all. The same text is in the run's folder as report.md.
///
/// Examples:
///   kubexm-install report
///   kubexm-install report 20261120T081502Z-4f1c --json
///   kubexm-install report --cluster lab > report.md
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Run id, as `status` shows it
    run: Option<String>,
    /// Only runs of this cluster (metadata.name)
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let report = home()?.run_report(args.cluster.as_deref(), args.run.as_deref())?;
    let text = match display.mode() {
        Mode::Json => serde_json::to_string(&report.status()?)
            .map_err(|error| Failure::new(ExitCode::Internal, format!("the report cannot be written: {error}")))?,
        Mode::Terminal | Mode::Plain => report.text()?,
    };
    display.answer(&text);
    Ok(())
}
