//! `kubexm-install status`.

use kubexm_engine::replay::RunState;
use kubexm_engine::{Status, run};
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::{Value, json};

use crate::support::home::{ClusterHome, Home};

/// Show the runs of the clusters that were installed from here, and how to go on with those that have not ended well
///
/// Everything is read from the journals of the runs; no host is asked.
///
/// Examples:
///   kubexm-install status
///   kubexm-install status lab --json | jq '.clusters[].runs[-1].state'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Only this cluster (metadata.name)
    cluster: Option<String>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

/// A run as far as it can be read.
enum Seen {
    Read(Box<Status>),
    Unreadable { run: String, error: String },
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let clusters = match &args.cluster {
        Some(name) => vec![home.cluster(name)],
        None => home.clusters()?,
    };
    let mut seen = Vec::new();
    for cluster in &clusters {
        seen.push((cluster, look(cluster)?));
    }
    if display.mode() == Mode::Json {
        let clusters: Vec<Value> = seen.iter().map(|(cluster, runs)| document(cluster, runs)).collect();
        display.answer(&json!({ "schema": "kubexm.io/status/v1", "clusters": clusters }).to_string());
        return Ok(());
    }
    if seen.iter().all(|(_, runs)| runs.is_empty()) {
        display.answer("no runs yet; `kubexm-install --bundle FILE` begins one");
    }
    for (cluster, runs) in &seen {
        for run in runs {
            display.answer(&line(cluster, run));
        }
        if let Some(Seen::Read(last)) = runs.last()
            && let Some(command) = &last.go_on
        {
            display.answer(&format!("to go on: {command}"));
        }
    }
    Ok(())
}

fn look(cluster: &ClusterHome) -> Result<Vec<Seen>, Failure> {
    let runs = cluster.run_ids()?;
    let read = |id| match run::read_status(&cluster.runs(), id) {
        Ok(status) => Seen::Read(Box::new(status)),
        Err(error) => Seen::Unreadable { run: id.to_string(), error: error.to_string() },
    };
    Ok(runs.iter().map(read).collect())
}

fn document(cluster: &ClusterHome, runs: &[Seen]) -> Value {
    let runs: Vec<Value> = runs
        .iter()
        .map(|run| match run {
            Seen::Read(status) => json!(status),
            Seen::Unreadable { run, error } => json!({ "run": run, "error": error }),
        })
        .collect();
    let kubeconfig = Some(cluster.kubeconfig()).filter(|path| path.is_file());
    json!({ "name": cluster.name, "kubeconfig": kubeconfig, "runs": runs })
}

fn line(cluster: &ClusterHome, run: &Seen) -> String {
    match run {
        Seen::Read(status) => {
            let counts = &status.counts;
            format!(
                "{:16} {:24} {:8} {:12} {} changed, {} held, {} failed, {} blocked, {} open",
                cluster.name,
                status.run,
                status.pipeline,
                words(status.state),
                counts.done,
                counts.satisfied,
                counts.failed,
                counts.blocked,
                counts.open
            )
        }
        Seen::Unreadable { run, error } => format!("{:16} {run:24} cannot be read: {error}", cluster.name),
    }
}

const fn words(state: RunState) -> &'static str {
    match state {
        RunState::New => "not begun",
        // It may be going on, or its program may have died.
        RunState::Running => "not ended",
        RunState::Interrupted => "interrupted",
        RunState::Failed => "failed",
        RunState::Succeeded => "succeeded",
        RunState::Partial => "partial",
        RunState::RollingBack => "rolling back",
        RunState::RolledBack => "rolled back",
        RunState::Stuck => "stuck",
    }
}
