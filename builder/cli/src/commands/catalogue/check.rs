//! `kubexm-bundle catalogue check`.

use std::path::PathBuf;

use kubexm_builder::verbs::catalogue::check;
use kubexm_spec::counted;
use kubexm_terminal::Failure;

use crate::context::Context;

/// List every gap: a version without a digest, an image without a tag, a set of versions that some cluster cannot be made of
///
/// Exit code 20 when there is one. What nobody has compared with upstream is listed too, and is no gap.
///
/// Examples:
///   kubexm-bundle catalogue check
///   kubexm-bundle catalogue check site.yaml mine.yaml
///   kubexm-bundle catalogue check --json | jq -r '.unverified[]'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Overlays, laid over the catalogue in this order
    #[arg(value_name = "OVERLAY")]
    overlays: Vec<PathBuf>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let checked = check(context.session, &args.overlays)?;
    context.answer(&checked, |checked| {
        let whole = checked.ok.then(|| {
            format!(
                "no gap in {}, {} and {}",
                counted(checked.components as u64, "component"),
                counted(checked.releases as u64, "release"),
                counted(checked.features as u64, "feature"),
            )
        });
        checked.unverified.iter().map(|text| format!("unverified: {text}")).chain(whole).collect()
    })?;
    context.end(checked.code(), || format!("the catalogue has gaps:\n{}", checked.gaps.join("\n")))
}
