//! `kubexm-bundle sbom`.

use std::path::PathBuf;

use kubexm_builder::verbs::documents::{self, open, sbom};
use kubexm_terminal::Failure;

use crate::context::{Context, TOOL};

/// Print a bill of materials: every artifact with version, licence where upstream's is known, digest and origin
///
/// CycloneDX 1.6 or SPDX 2.3, as JSON. The same bundle gives the same document: identifiers come
/// from its manifest's digest, and there is no clock. Only the bundle's head and its catalogue are
/// read.
///
/// Examples:
///   kubexm-bundle sbom site.tar.zst --format cyclonedx -o site.cdx.json
///   kubexm-bundle sbom site.tar.zst --format spdx | jq '.packages[].name'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle
    bundle: PathBuf,
    /// The format
    #[arg(long, value_enum)]
    format: Format,
    /// File to write to [default: -, standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file that is not a bill of materials of kubexm-bundle
    #[arg(long, requires = "output")]
    force: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// CycloneDX 1.6
    Cyclonedx,
    /// SPDX 2.3
    Spdx,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let format = match args.format {
        Format::Cyclonedx => documents::Format::Cyclonedx,
        Format::Spdx => documents::Format::Spdx,
    };
    let (output, force) = (args.output.as_deref(), args.force);
    let bundle = open(context.session, &args.bundle, output, format.kind(), force)?;
    context.give(&sbom(&bundle, format, TOOL)?, output, format.kind(), force)
}
