//! `kubexm-install status`.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use kubexm_engine::clock::{rfc3339, unix_seconds};
use kubexm_engine::replay::{RunState, StepState};
use kubexm_plan::BundleRecord;
use kubexm_session::{Access, ClusterHome, ClusterOptions, ClusterStatus, ClusterView, RecordedRun, status_document};
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};

use super::args::{HostArgs, TrustArgs};
use super::support_bundle::known;
use crate::render::cluster_facts;
use crate::terminal::{Shell, home};

/// Show the runs of the clusters that were installed from here, and how to continue those that have not succeeded
///
/// Everything is read from the journals of the runs, also of one that is running right now; no host is contacted. With -f or --bundle
/// the hosts of that cluster.yaml are contacted, too: the cluster's id, versions, nodes, etcd, ends of certificates, and what was
/// applied. That changes nothing, takes no lock, and works for a cluster that another machine made; our agent is put on a host that
/// has none for as long as it takes. What does not answer is reported (`gaps`) with exit code 0; the exit code is 50 to 55 when no
/// host can be worked with, and 71 when the last run of a cluster cannot be read (as of `report`, `resume` and `rollback`).
///
/// Examples:
///   kubexm-install status -f cluster.yaml --json | jq '.clusters[0].facts'
///   kubexm-install status
///   kubexm-install status lab --watch
///   kubexm-install status lab --json | jq '.clusters[].runs[-1].state'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Only this cluster (metadata.name)
    #[arg(conflicts_with_all = ["file", "bundle"])]
    cluster: Option<String>,
    /// cluster.yaml of a cluster whose hosts are contacted
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Bundle whose cluster.yaml is meant; also needed for hosts of another architecture than this machine's
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Of a delta: a bundle that has what it leaves out; may be given several times
    #[arg(long = "base", value_name = "FILE", requires = "bundle")]
    bases: Vec<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// Show it again whenever a journal grows, until no run is running any more
    #[arg(long, conflicts_with_all = ["json", "file", "bundle"])]
    watch: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

/// Pause between two readings of `--watch`.
const WATCH: Duration = Duration::from_secs(1);

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let asks = args.file.is_some() || args.bundle.is_some();
    let asked = if asks { Some(view(args, display)?) } else { None };
    let view = asked.as_ref().map(|asked| &asked.view);
    let home = home()?;
    if let Some(name) = &args.cluster {
        known(&home, name)?;
    }
    let mut shown = None;
    loop {
        let named = args.cluster.as_ref().or(view.map(|view| &view.cluster));
        let clusters = home.status(named.map(String::as_str))?;
        if display.mode() == Mode::Json {
            display.answer(&status_document(&clusters, view).to_string());
            return end(&clusters);
        }
        let mut text = text(&clusters);
        if let Some(Asked { view, soon_s }) = &asked {
            let runs = if clusters.iter().any(|cluster| !cluster.runs.is_empty()) {
                format!("\n{text}")
            } else {
                String::new()
            };
            text = cluster_facts::text(&view.cluster, &view.facts, unix_seconds(SystemTime::now()), *soon_s) + &runs;
        }
        if shown.as_ref() != Some(&text) {
            display.answer(&text);
            shown = Some(text);
        }
        if !args.watch || clusters.iter().all(|cluster| cluster.holder.is_none()) {
            return end(&clusters);
        }
        std::thread::sleep(WATCH);
    }
}

/// A last run that cannot be read was shown as such.
fn end(clusters: &[ClusterStatus]) -> Result<(), Failure> {
    match clusters.iter().map(ClusterStatus::exit_code).fold(ExitCode::Ok, ExitCode::worst) {
        ExitCode::Ok => Ok(()),
        code => Err(Failure::silent(code)),
    }
}

/// What hosts answered.
struct Asked {
    view: ClusterView,
    /// Certificates that end within so many seconds are named one by one.
    soon_s: i64,
}

/// Asks the hosts.
fn view(args: &Args, display: &Display) -> Result<Asked, Failure> {
    let shell = Shell::looking(display)?;
    let (session, hosts) = (shell.session(), args.hosts.options()?);
    let (file, bundle, bases) = (args.file.clone(), args.bundle.clone(), args.bases.clone());
    let cluster = ClusterOptions { file, bundle, bases, trust: args.trust.options() };
    let source = session.cluster(&cluster)?;
    let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
    let soon_s = source.cluster().certificate_validity().soon_s();
    Ok(Asked { view: shell.wait(session.view(&source, &access, &hosts))?, soon_s })
}

fn text(clusters: &[ClusterStatus]) -> String {
    if clusters.iter().all(|cluster| cluster.runs.is_empty()) {
        return "no runs yet; `kubexm-install --bundle FILE` starts one".to_owned();
    }
    let mut lines = Vec::new();
    for ClusterStatus { home, holder, runs, installed } in clusters {
        // Only the newest can be the one that continues.
        let last = runs.len().saturating_sub(1);
        lines.extend(runs.iter().enumerate().map(|(n, run)| line(home, holder.is_some() && n == last, run)));
        lines.extend(installed_line(installed));
        let Some(RecordedRun::Read(last)) = runs.last() else { continue };
        if let Some(holder) = holder {
            lines.push(format!("at work: {holder}"));
            let open = last.steps.iter().filter(|step| step.state == StepState::Prepared);
            lines.extend(open.map(|step| format!("  now: {} ({})", step.title, step.step)));
            continue;
        }
        lines.extend(last.go_on.iter().map(|command| format!("to continue: {command}")));
        let back = last.roll_back.iter().filter(|back| last.go_on.as_ref() != Some(back));
        lines.extend(back.map(|command| format!("to roll it back: {command}")));
    }
    lines.join("\n")
}

/// The bundle that a cluster was made from; the next one is compared with it.
fn installed_line(installed: &Result<Option<BundleRecord>, String>) -> Option<String> {
    let bundle = match installed {
        Ok(bundle) => bundle.as_ref()?,
        Err(error) => return Some(format!("  installed: {error}")),
    };
    let signers: Vec<&str> = bundle.signers.iter().map(String::as_str).collect();
    let signed = match (signers.is_empty(), bundle.date) {
        (true, _) => "NOT SIGNED".to_owned(),
        (false, None) => format!("signed by key {}, without a date", signers.join(", ")),
        (false, Some(date)) => format!("signed by key {} at {}", signers.join(", "), rfc3339(date)),
    };
    let sequence = bundle.sequence.map(|sequence| format!(", sequence {sequence}")).unwrap_or_default();
    Some(format!("  installed: bundle {}, {signed}{sequence}", bundle.manifest))
}

fn line(cluster: &ClusterHome, at_work: bool, run: &RecordedRun) -> String {
    match run {
        RecordedRun::Read(status) => {
            let counts = &status.counts;
            format!(
                "{:16} {:24} {:8} {:12} {} changed, {} held, {} undone, {} failed, {} blocked, {} open",
                cluster.name,
                status.run,
                status.pipeline,
                words(status.state, at_work),
                counts.done,
                counts.satisfied,
                counts.undone,
                counts.failed,
                counts.blocked,
                counts.open
            )
        }
        RecordedRun::Unreadable { run, error, .. } => format!("{:16} {run:24} cannot be read: {error}", cluster.name),
    }
}

const fn words(state: RunState, at_work: bool) -> &'static str {
    match state {
        RunState::New => "not started",
        RunState::Running if at_work => "continuing",
        RunState::Running => "died",
        RunState::Interrupted => "interrupted",
        RunState::Failed => "failed",
        RunState::Succeeded => "succeeded",
        RunState::Partial => "partial",
        RunState::RollingBack if at_work => "rolling back",
        RunState::RollingBack => "died rolling back",
        RunState::RolledBack => "rolled back",
        RunState::Stuck => "stuck",
    }
}
