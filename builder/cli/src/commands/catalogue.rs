//! `kubexm-bundle catalogue`.

use std::path::PathBuf;

use kubexm_manifests::{check, unverified};
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use super::input;

/// Look at the catalogue: versions, digests and origins of everything
///
/// Examples:
///   kubexm-bundle catalogue check
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
}

/// Tell every gap: a version without a digest, an image without a tag, a set that some cluster could not be made of
///
/// Exit code 20 when there is one. What nobody has held against its upstream is listed too, and is no gap.
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
    pub const fn json(&self) -> bool {
        match &self.what {
            What::Check(args) => args.json,
        }
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let What::Check(args) = &args.what;
    let catalogue = input::catalogue(&args.overlays)?;
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
            "no gap in {} components, {} releases and {} features",
            catalogue.components.len(),
            catalogue.releases.len(),
            catalogue.features.len()
        ));
        return Ok(());
    }
    Err(Failure::new(ExitCode::Config, format!("the catalogue has gaps:\n{}", gaps.join("\n"))))
}
