//! `kubexm-bundle import`.

use std::path::PathBuf;

use kubexm_builder::import::Defaults;
use kubexm_builder::verbs::import::{Imported, import};
use kubexm_spec::counted;
use kubexm_terminal::Failure;

use crate::context::Context;

/// Make a cluster.yaml of a KubeKey file, or of the images of a running cluster
///
/// A Cluster or a Manifest of kubekey.kubesphere.io/v1alpha2 is read; cluster.yaml is printed, and line by line
/// what it could not carry over. Where KubeKey's default for a field that the file leaves out is another one than ours,
/// --defaults write sets it, and --defaults comment lists it at the end. Passwords and logins never get into it: it says where
/// to set them. What is printed is checked against the catalogue, and the files that it names are looked for beside it: what a
/// build would be refused for is reported, and a file that makes no cluster is refused (exit code 20).
///
/// With --live the input is JSON of kubectl, and every image that a pod names (init and ephemeral containers too)
/// becomes one of extraImages, by the digest that runs where the runtime tells it.
///
/// Examples:
///   kubexm-bundle import config-sample.yaml > cluster.yaml
///   kubexm-bundle import config-sample.yaml --defaults write -o cluster.yaml
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
    /// Fields that the file leaves out and for which KubeKey has another default: write KubeKey's value, or list it in a comment
    #[arg(long, value_name = "HOW", conflicts_with = "live")]
    defaults: Option<Written>,
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

/// What `--defaults` does.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Written {
    /// As values, with a comment behind each
    Write,
    /// As comments at the end
    Comment,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let output = args.output.as_deref();
    if let Some(output) = output {
        context.check_output(output)?;
    }
    let defaults = match args.defaults {
        None => Defaults::Report,
        Some(Written::Write) => Defaults::Write,
        Some(Written::Comment) => Defaults::Comment,
    };
    let session = context.session;
    let imported =
        import(session, &args.file, args.live, defaults, output, args.force, &|content| context.stdout(content))?;
    context.answer(
        &imported,
        |imported| if output.is_none() { vec![imported.cluster_yaml.clone()] } else { Vec::new() },
    )?;
    if !args.json {
        advise(&imported, args.defaults, context);
    }
    Ok(())
}

/// What should be looked at.
fn advise(imported: &Imported, defaults: Option<Written>, context: &Context<'_>) {
    imported.not_carried_over.iter().for_each(|left| context.warn(left.to_string()));
    for problem in &imported.not_buildable {
        context.warn(format!("cannot be built as it is: {problem}"));
    }
    let all = &imported.kubekey_defaults;
    for default in all.iter().filter(|default| defaults.is_some() && default.ours.is_none()) {
        let (field, value) = (&default.field, &default.value);
        context.warn(format!("{field}: unset; KubeKey's default is {value}; cluster.yaml has no field for it"));
    }
    let (written, open): (Vec<_>, Vec<_>) = all.iter().partition(|default| default.written_as.is_some());
    let values = counted(open.iter().filter(|default| default.ours.is_some()).count() as u64, "field");
    match defaults {
        Some(Written::Write) if !written.is_empty() => context.note(format!(
            "{} of KubeKey that differ from ours are written, each with a comment: check them before you build",
            counted(written.len() as u64, "default")
        )),
        Some(Written::Comment) if !open.is_empty() => {
            context.note(format!("KubeKey has other defaults than kubexm for {values} that the file leaves out; the end of cluster.yaml lists them"));
        }
        None if !open.is_empty() => context.note(format!(
            "KubeKey has other defaults than kubexm for {values} that the file leaves out (such as {}); ours apply: --defaults write \
             sets KubeKey's, --defaults comment lists them",
            open.iter().filter_map(|default| default.ours.as_deref()).take(3).collect::<Vec<_>>().join(", ")
        )),
        _ => {}
    }
}
