//! `kubexm-install report`.

use kubexm_engine::{RunId, run};
use kubexm_session::{ClusterHome, SessionError};
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
    let home = home()?;
    let clusters = match &args.cluster {
        Some(name) => vec![home.cluster(name)],
        None => home.clusters()?,
    };
    let (cluster, id) = find(&clusters, args.run.as_deref())?;
    if display.mode() == Mode::Json {
        let status = run::read_status(&cluster.runs(), &id).map_err(SessionError::from)?;
        let text = serde_json::to_string(&status)
            .map_err(|error| Failure::new(ExitCode::Internal, format!("the report cannot be written: {error}")))?;
        display.answer(&text);
    } else {
        display.answer(&run::read_report(&cluster.runs(), &id).map_err(SessionError::from)?);
    }
    Ok(())
}

/// The named run, or the latest.
fn find(clusters: &[ClusterHome], named: Option<&str>) -> Result<(ClusterHome, RunId), Failure> {
    let mut found: Option<(ClusterHome, RunId)> = None;
    for cluster in clusters {
        let mut runs = cluster.run_ids()?.into_iter();
        let candidate = match named {
            Some(name) => runs.find(|id| id.as_str() == name),
            None => runs.next_back(),
        };
        // Of several clusters only the names of their runs say which was later.
        if let Some(id) = candidate
            && (named.is_some() || found.as_ref().is_none_or(|(_, latest)| id > *latest))
        {
            found = Some((cluster.clone(), id));
        }
    }
    found.ok_or_else(|| {
        let text = match named {
            Some(name) => format!("there is no run {name}; `kubexm-install status` lists the runs"),
            None => "there are no runs yet; `kubexm-install --bundle FILE` starts one".to_owned(),
        };
        Failure::new(ExitCode::Usage, text)
    })
}
