//! `kubexm-bundle import`.

use std::path::PathBuf;

use kubexm_builder::verbs::import::{Imported, import};
use kubexm_terminal::Failure;

use crate::context::Context;

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

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let output = args.output.as_deref();
    if let Some(output) = output {
        context.check_output(output)?;
    }
    let imported = import(&args.file, args.live, output, args.force, &|content| context.stdout(content))?;
    context.answer(
        &imported,
        |imported| if output.is_none() { vec![imported.cluster_yaml.clone()] } else { Vec::new() },
    )?;
    if !args.json {
        tell(&imported, context);
    }
    Ok(())
}

/// What should be looked at.
fn tell(imported: &Imported, context: &Context<'_>) {
    imported.not_carried_over.iter().for_each(|left| context.warn(left.to_string()));
    let (written, unwritten): (Vec<_>, Vec<_>) =
        imported.kubekey_defaults.iter().partition(|assumed| assumed.written_as.is_some());
    for default in unwritten {
        let (field, value) = (&default.field, &default.value);
        let text = format!("{field}: not said, so KubeKey's default held: {value}; cluster.yaml has no field for it");
        context.warn(text);
    }
    if !written.is_empty() {
        context.note(format!(
            "{} defaults of KubeKey's that are others than ours are written, each with a comment: look at them before you build",
            written.len()
        ));
    }
}
