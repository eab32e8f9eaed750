//! `kubexm-bundle import`.

use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_builder::extract::save;
use kubexm_builder::import::{Assumed, ImportError, Imported, kubekey, live};
use kubexm_spec::ExitCode;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use super::written;

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
    /// Write cluster.yaml there instead of printing it; a file that is there is not replaced without --force
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
    let bytes = read(&args.file)?;
    let name = args.file.display();
    let wrong = |e: ImportError| {
        let code = match e {
            ImportError::Encode(_) => ExitCode::Internal,
            _ => ExitCode::Config,
        };
        Failure::new(code, format!("{name}: {e}"))
    };
    let imported = if args.live {
        live(&bytes)
    } else {
        let text =
            String::from_utf8(bytes).map_err(|e| Failure::new(ExitCode::Config, format!("{name} is no text: {e}")))?;
        kubekey(&text)
    }
    .map_err(wrong)?;
    if let Some(output) = &args.output {
        put(output, &imported, args)?;
    }
    show(&imported, args, display);
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let unreadable = |e: std::io::Error| Failure::new(ExitCode::Config, format!("cannot read {}: {e}", path.display()));
    let mut bytes = Vec::new();
    let from: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(std::fs::File::open(path).map_err(unreadable)?),
    };
    from.take(LIMIT + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LIMIT {
        return Err(Failure::new(ExitCode::Config, format!("{} has more than {LIMIT} bytes", path.display())));
    }
    Ok(bytes)
}

fn put(output: &Path, imported: &Imported, args: &Args) -> Result<(), Failure> {
    written::writable(output)?;
    written::apart(output, std::slice::from_ref(&args.file))?;
    if std::fs::symlink_metadata(output).is_ok() && !args.force {
        let text = format!("{} is there: give --force, or name another with -o", output.display());
        return Err(Failure::new(ExitCode::Usage, text));
    }
    save(&written::through(output)?, imported.cluster_yaml.as_bytes())
        .map_err(|e| Failure::from_error(e.exit_code(), &e))
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
