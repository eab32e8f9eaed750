//! `kubexm-bundle sbom`.

use std::path::PathBuf;

use kubexm_archive::Bundle;
use kubexm_builder::sbom::{self, Subject};
use kubexm_builder::{complete, extract};
use kubexm_manifests::Catalogue;
use kubexm_spec::names;
use kubexm_terminal::{Display, Failure};
use serde_json::Value;

use super::{input, written};

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
    /// File to write to; replaced when it is there [default: standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// CycloneDX 1.6
    Cyclonedx,
    /// SPDX 2.3
    Spdx,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let bundle = input::bundle(&args.bundle)?;
    let catalogue = catalogue(&bundle)?;
    let subject = subject(&bundle, &catalogue);
    let document = match args.format {
        Format::Cyclonedx => sbom::cyclonedx(&subject),
        Format::Spdx => sbom::spdx(&subject),
    };
    give(&document, &bundle, args.output.as_deref(), display)
}

/// The catalogue that the bundle carries.
pub fn catalogue(bundle: &Bundle) -> Result<Catalogue, Failure> {
    complete::catalogue(bundle).map_err(|e| Failure::from_error(e.exit_code(), &e))
}

/// What documents about a bundle are made of.
pub fn subject<'a>(bundle: &'a Bundle, catalogue: &'a Catalogue) -> Subject<'a> {
    Subject {
        manifest: bundle.manifest(),
        digest: bundle.manifest_digest(),
        catalogue,
        tool: (names::BUILDER, env!("CARGO_PKG_VERSION")),
        tool_licence: env!("CARGO_PKG_LICENSE"),
    }
}

/// A document about a bundle, for a file other than its own, or for standard output.
pub fn give(
    document: &Value,
    bundle: &Bundle,
    output: Option<&std::path::Path>,
    display: &Display,
) -> Result<(), Failure> {
    let text = format!("{document:#}\n");
    match output {
        Some(path) => {
            written::writable(path)?;
            written::apart(path, &bundle.files())?;
            extract::save(path, text.as_bytes()).map_err(|e| Failure::from_error(e.exit_code(), &e))
        }
        None => {
            display.answer(&text);
            Ok(())
        }
    }
}
