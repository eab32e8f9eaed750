//! `kubexm-bundle config`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubexm_builder::session::Session;
use kubexm_manifests::{Catalogue, require};
use kubexm_spec::cluster::{self, Read, RuntimeKind};
use kubexm_spec::event::EventKind;
use kubexm_spec::{Program, unsupported};
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

/// Show the whole cluster: every field, every default called one
///
/// The answer is a cluster.yaml that says the same: keys that are not set stand in it as comments, with what they are for and
/// what the catalogue chooses for them. Nothing is fetched.
///
/// Examples:
///   kubexm-bundle config -f cluster.yaml
///   kubexm-bundle config                                    # what a bundle from defaults is built of
///   kubexm-bundle config -f cluster.yaml | grep -v default  # what was written, and what could be
///   kubexm-bundle config -f cluster.yaml --json | jq .defaults
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// cluster.yaml, - for standard input; without it, the defaults for --kubernetes
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Kubernetes version for the defaults (v1.34.4, or v1.34 for its newest known patch)
    #[arg(long, value_name = "VERSION", conflicts_with = "file")]
    kubernetes: Option<String>,
    /// Catalogue overlay with own versions, builds and digests; may be given several times
    #[arg(long, value_name = "FILE")]
    catalogue: Vec<PathBuf>,
    /// One JSON document: the cluster, the paths that are defaults, what the catalogue chooses, what is not installed yet
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let read = session.cluster_as_written(args.file.as_deref(), args.kubernetes.as_deref())?;
    let catalogue = session.catalogue(&args.catalogue)?;
    // That the catalogue refuses the cluster is build's to end with: here it would hide what was asked for.
    let (chosen, warning) = match chosen(&read, &catalogue) {
        Ok(chosen) => (chosen, None),
        Err(failure) => (BTreeMap::new(), Some(failure.text)),
    };
    let shown = cluster::show(&read, &chosen);
    let unsupported = unsupported::check(&read.cluster);
    if display.mode() == Mode::Json {
        let unsupported: Vec<_> = unsupported
            .iter()
            .map(|row| json!({"path": row.path, "value": row.value, "instead": row.instead}))
            .collect();
        let document = json!({
            "schema": "kubexm.io/config/v1", "file": args.file, "cluster": shown.document, "defaults": shown.defaults,
            "chosen": chosen, "notInstalled": unsupported, "warnings": warning.into_iter().collect::<Vec<_>>(),
        });
        display.answer(&document.to_string());
        return Ok(());
    }
    let unsupported = unsupported.iter().map(|row| format!("kubexm-install refuses this cluster: {row}"));
    for text in warning.into_iter().chain(unsupported) {
        display.emit(EventKind::Warning { text });
    }
    display.answer(&shown.yaml);
    Ok(())
}

/// Versions that the file leaves to the catalogue, by path.
fn chosen(read: &Read, catalogue: &Catalogue) -> Result<BTreeMap<String, String>, Failure> {
    let requirements = require(&read.cluster, catalogue).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
    let Some(versions) = requirements.versions else { return Ok(BTreeMap::new()) };
    let runtime = match read.cluster.runtime.kind {
        RuntimeKind::Containerd => Some(Program::Containerd),
        RuntimeKind::Docker => Some(Program::Docker),
        RuntimeKind::CriO => Some(Program::CriO),
        // Of the packages of the operating system.
        RuntimeKind::Isulad => None,
    };
    let runtime = runtime.and_then(|program| versions.of(program)).map(str::to_owned);
    let all = [("spec.kubernetes.version", Some(versions.kubernetes.to_string())), ("spec.runtime.version", runtime)];
    let left = |path: &str| !read.written.contains(path);
    Ok(all.into_iter().filter(|(path, _)| left(path)).filter_map(|(path, v)| Some((path.to_owned(), v?))).collect())
}
