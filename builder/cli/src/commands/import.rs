//! `kubexm-bundle import`.

use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_builder::extract::save;
use kubexm_builder::import::{ImportError, Imported, kubekey, live};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ExitCode, cluster};
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use super::written;

/// The most bytes that are read: the pods of a cluster of some thousand nodes.
const LIMIT: u64 = 256 << 20;

/// Make a cluster.yaml of a KubeKey file, or of the images of a running cluster
///
/// A Cluster or a Manifest of kubekey.kubesphere.io/v1alpha2 is read; cluster.yaml is printed, and line by line
/// what it could not carry over. Passwords never get into it: it says where they are to be had, and what to set.
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
    if output.exists() && !args.force {
        let text = format!("{} is there: give --force, or name another with -o", output.display());
        return Err(Failure::new(ExitCode::Usage, text));
    }
    save(output, imported.cluster_yaml.as_bytes()).map_err(|e| Failure::from_error(e.exit_code(), &e))
}

fn show(imported: &Imported, args: &Args, display: &Display) {
    // What a foreign file says may be no good here either; it is told, and the text given all the same.
    let problems = cluster::parse(&imported.cluster_yaml).err();
    if display.mode() == Mode::Json {
        let problems: Vec<String> = problems.iter().flat_map(|all| &all.0).map(ToString::to_string).collect();
        let document = json!({
            "schema": "kubexm.io/import/v1", "file": args.file, "kind": imported.kind, "output": args.output,
            "clusterYaml": imported.cluster_yaml, "notCarriedOver": imported.left, "problems": problems,
        });
        return display.answer(&document.to_string());
    }
    if args.output.is_none() {
        display.answer(&imported.cluster_yaml);
    }
    for left in &imported.left {
        let place = match (left.line, left.path.as_str()) {
            (0, path) => path.to_owned(),
            (line, "") => format!("line {line}"),
            (line, path) => format!("line {line}: {path}"),
        };
        display.emit(EventKind::Warning { text: format!("{place}: {}", left.reason) });
    }
    if let Some(problems) = problems {
        display
            .emit(EventKind::Warning { text: format!("cluster.yaml has to be mended before it is used:\n{problems}") });
    }
}
