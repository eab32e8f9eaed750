//! `kubexm-bundle catalogue`.

mod refresh;

use std::path::PathBuf;

use kubexm_builder::session::Session;
use kubexm_manifests::{check, unverified};
use kubexm_spec::{ExitCode, counted};
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

/// Look at the catalogue: versions, digests and origins of everything
///
/// An overlay (--catalogue of other verbs) adds to it: versions, digests, addresses, and Kubernetes minors that came after
/// this program, made like one that is known:
///
///   schema: kubexm.io/catalogue/v2
///   name: mine
///   components:
///     containerd: {default: 2.2.9, versions: {2.2.9: {amd64: {sha256: 1f0e...}}}}
///     kubelet: {versions: {1.37.0: {}}}        # no digest: the one that upstream publishes beside the file
///   images: {"registry.k8s.io/pause:3.11": "sha256:a1b2..."}
///   releases:
///     "1.37": {like: "1.36", constants: {pause: "3.11", coredns: v1.15.0, etcd: 3.6.9-0}}
///
/// Examples:
///   kubexm-bundle catalogue check
///   kubexm-bundle catalogue show
///   kubexm-bundle catalogue refresh -o newer.yaml
///   kubexm-bundle catalogue check mine.yaml   # with an overlay of your own laid over it
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Check(Check),
    Refresh(Box<refresh::Refresh>),
    Show(Show),
}

/// Print the catalogue as one JSON document, like the catalogue.json of a bundle, but all of it
///
/// Examples:
///   kubexm-bundle catalogue show | jq '.releases | keys'
///   kubexm-bundle catalogue show mine.yaml > all.json     # with an overlay laid over it
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
struct Show {
    /// Overlays, laid over the catalogue in this order
    #[arg(value_name = "OVERLAY")]
    overlays: Vec<PathBuf>,
}

/// Tell every gap: a version without a digest, an image without a tag, a set that some cluster could not be made of
///
/// Exit code 20 when there is one. What nobody has compared with its upstream is listed too, and is no gap.
///
/// Examples:
///   kubexm-bundle catalogue check
///   kubexm-bundle catalogue check site.yaml mine.yaml
///   kubexm-bundle catalogue check --json | jq -r '.unverified[]'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
struct Check {
    /// Overlays, laid over the catalogue in this order
    #[arg(value_name = "OVERLAY")]
    overlays: Vec<PathBuf>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Whether a machine reads.
    pub fn json(&self) -> bool {
        match &self.what {
            What::Check(args) => args.json,
            What::Refresh(args) => args.json,
            What::Show(_) => true,
        }
    }
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    match &args.what {
        What::Check(args) => check_all(args, session, display),
        What::Refresh(args) => refresh::run(args, session, display),
        What::Show(args) => show(args, session, display),
    }
}

fn show(args: &Show, session: &Session, display: &Display) -> Result<(), Failure> {
    let json = session.catalogue(&args.overlays)?.to_json().map_err(|e| Failure::from_error(ExitCode::Internal, &e))?;
    display.answer(&String::from_utf8_lossy(&json));
    Ok(())
}

fn check_all(args: &Check, session: &Session, display: &Display) -> Result<(), Failure> {
    let catalogue = session.catalogue(&args.overlays)?;
    let (gaps, unverified) = (check(&catalogue), unverified(&catalogue));
    if display.mode() == Mode::Json {
        let document = json!({
            "schema": "kubexm.io/catalogue-check/v1", "overlays": catalogue.overlays, "ok": gaps.is_empty(),
            "components": catalogue.components.len(), "releases": catalogue.releases.len(),
            "features": catalogue.features.len(), "gaps": gaps, "unverified": unverified,
        });
        display.answer(&document.to_string());
        return if gaps.is_empty() { Ok(()) } else { Err(Failure::silent(ExitCode::Config)) };
    }
    for text in &unverified {
        display.answer(&format!("unverified: {text}"));
    }
    if gaps.is_empty() {
        display.answer(&format!(
            "no gap in {}, {} and {}",
            counted(catalogue.components.len() as u64, "component"),
            counted(catalogue.releases.len() as u64, "release"),
            counted(catalogue.features.len() as u64, "feature"),
        ));
        return Ok(());
    }
    Err(Failure::new(ExitCode::Config, format!("the catalogue has gaps:\n{}", gaps.join("\n"))))
}
