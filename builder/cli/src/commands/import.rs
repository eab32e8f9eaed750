//! `kubexm-bundle import`.

use std::path::{Path, PathBuf};

use kubexm_builder::import::{Assumed, ImportError, Imported, kubekey, live};
use kubexm_files::InputError;
use kubexm_spec::ExitCode;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use super::{kinds, written};

/// The most bytes that are read: the pods of a cluster of some thousand nodes.
const LIMIT: u64 = 256 << 20;

/// Make a cluster.yaml of a KubeKey file, or of the images of a running cluster
///
/// A Cluster or a Manifest of kubekey.kubesphere.io/v1alpha2 is read; cluster.yaml is printed, and line by line
/// what it could not carry over. What the file leaves to KubeKey is written out where KubeKey's default is another
/// one than ours, with a comment behind it. Passwords and logins never get into it: it says where they are to be had,
/// and what to set. What is printed can be built: a file that makes no cluster is refused (exit code 20).
///
/// With --live the input is JSON of kubectl, and every image that a pod names (init and ephemeral containers too)
/// becomes one of extraImages, by the digest that runs where the runtime tells it.
///
/// Examples:
///   kubexm-bundle import config-sample.yaml > cluster.yaml
///   kubexm-bundle import manifest-sample.yaml -o cluster.yaml --json
///   kubectl get pods -A -o json | kubexm-bundle import --live - > images.yaml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The file; - is standard input
    file: PathBuf,
    /// It is the output of `kubectl get pods -A -o json`
    #[arg(long)]
    live: bool,
    /// Write cluster.yaml there instead of printing it; an existing file is replaced with --force only
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the output when it is there
    #[arg(long, requires = "output")]
    force: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let unreadable = |e: InputError| Failure::from_error(e.exit_code(), &e);
    let bytes = kubexm_files::read(&args.file, LIMIT).map_err(unreadable)?;
    let name = args.file.display();
    let wrong = |e: ImportError| {
        let code = match e {
            ImportError::Encode(_) => ExitCode::Internal,
            _ => ExitCode::Config,
        };
        Failure::new(code, format!("{name}: {e}"))
    };
    let imported =
        if args.live { live(&bytes) } else { kubekey(&kubexm_files::text_of(&args.file, bytes).map_err(unreadable)?) }
            .map_err(wrong)?;
    if let Some(output) = &args.output {
        put(output, &imported, args, display)?;
    }
    show(&imported, args, display);
    Ok(())
}

fn put(output: &Path, imported: &Imported, args: &Args, display: &Display) -> Result<(), Failure> {
    written::alone(output, args.json)?;
    written::apart(output, std::slice::from_ref(&args.file))?;
    written::put(output, &kinds::CLUSTER, args.force, imported.cluster_yaml.as_bytes(), display)
}

fn show(imported: &Imported, args: &Args, display: &Display) {
    if display.mode() == Mode::Json {
        let document = json!({
            "schema": "kubexm.io/import/v1", "file": args.file, "kind": imported.kind, "output": args.output,
            "clusterYaml": imported.cluster_yaml, "notCarriedOver": imported.left, "kubekeyDefaults": imported.assumed,
        });
        return display.answer(&document.to_string());
    }
    if args.output.is_none() {
        display.answer(&imported.cluster_yaml);
    }
    for left in &imported.left {
        display.emit(EventKind::Warning { text: left.to_string() });
    }
    for Assumed { field, value, .. } in imported.assumed.iter().filter(|assumed| assumed.written_as.is_none()) {
        let text = format!("{field}: not said, so KubeKey's default held: {value}; cluster.yaml has no field for it");
        display.emit(EventKind::Warning { text });
    }
    let written = imported.assumed.iter().filter(|assumed| assumed.written_as.is_some()).count();
    if written > 0 {
        let text = format!(
            "{written} defaults of KubeKey's that are others than ours are written, each with a comment: look at them before you build"
        );
        display.emit(EventKind::Note { text });
    }
}
