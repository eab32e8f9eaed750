//! `kubexm-install support-bundle`.

use std::path::PathBuf;

use kubexm_session::support_bundle::Collection;
use kubexm_session::{ClusterHome, Home};
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use crate::terminal::{home, output};

/// Pack what is needed to find out what went wrong, without secrets, to send to somebody else
///
/// Plans, journals, logs, evidence and reports of the cluster's last runs, as they are on this machine; no host is
/// contacted. Keys and kubeconfigs are left out, and every text is searched for secrets before it is packed. Still
/// review it before you give it to somebody: names and addresses of your hosts are in it.
///
/// Examples:
///   kubexm-install support-bundle
///   kubexm-install support-bundle lab -o /media/usb/lab.tar.gz --runs 1
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Which cluster (metadata.name) [default: the only one there is]
    cluster: Option<String>,
    /// File to write, - is standard output [default: kubexm-support-CLUSTER.tar.gz]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file that is not a support bundle
    #[arg(long)]
    force: bool,
    /// How many runs, counted from the newest
    #[arg(long, default_value_t = 5, value_name = "N")]
    runs: usize,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let home = home()?;
    let cluster = choose(&home, args.cluster.as_deref())?;
    let default = || PathBuf::from(format!("kubexm-support-{}.tar.gz", cluster.name));
    let output = args.output.clone().unwrap_or_else(default);
    if args.json && kubexm_files::is_stdout(&output) {
        let text = "-o - and --json both write to standard output; choose one of them";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    kubexm_files::check(&output, &output::SUPPORT_BUNDLE, args.force)?;
    let collection = Collection::of(&cluster, args.runs)?;
    let files = output::write_with(&output, &output::SUPPORT_BUNDLE, args.force, |to| collection.write(to))?;
    let runs = collection.runs();
    if kubexm_files::is_stdout(&output) {
        return Ok(());
    }
    if display.mode() == Mode::Json {
        let document = json!({
            "schema": "kubexm.io/support-bundle/v1",
            "cluster": cluster.name,
            "file": output,
            "runs": runs,
            "files": files,
        });
        display.answer(&document.to_string());
    } else {
        display.answer(&format!(
            "{}: {} files of {} runs of cluster {}, without secrets; review it before you give it to somebody",
            output.display(),
            files,
            runs.len(),
            cluster.name
        ));
    }
    Ok(())
}

/// The cluster of this name, if something was done to it from here.
pub fn known(home: &Home, name: &str) -> Result<ClusterHome, Failure> {
    let clusters = home.clusters()?;
    clusters.iter().find(|cluster| cluster.name == name).cloned().ok_or_else(|| {
        let known = if clusters.is_empty() { "none".to_owned() } else { names(&clusters) };
        Failure::new(ExitCode::Usage, format!("there is no cluster {name} here; known: {known}"))
    })
}

fn choose(home: &Home, named: Option<&str>) -> Result<ClusterHome, Failure> {
    if let Some(name) = named {
        return known(home, name);
    }
    let usage = |text: String| Failure::new(ExitCode::Usage, text);
    match home.clusters()?.as_slice() {
        [] => Err(usage("no cluster was installed from here: there is nothing to pack".to_owned())),
        [one] => Ok(one.clone()),
        several => Err(usage(format!("name one of the clusters: {}", names(several)))),
    }
}

fn names(clusters: &[ClusterHome]) -> String {
    clusters.iter().map(|cluster| cluster.name.as_str()).collect::<Vec<_>>().join(", ")
}
