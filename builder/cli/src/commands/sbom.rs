//! `kubexm-bundle sbom`.

use std::path::{Path, PathBuf};

use kubexm_archive::Bundle;
use kubexm_builder::complete;
use kubexm_builder::sbom::{self, Subject};
use kubexm_builder::session::Session;
use kubexm_builder::sources;
use kubexm_files::Kind;
use kubexm_manifests::Catalogue;
use kubexm_spec::{Sources, names};
use kubexm_terminal::{Display, Failure};
use serde_json::Value;

use super::{kinds, written};

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

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let kind = match args.format {
        Format::Cyclonedx => &kinds::CYCLONEDX,
        Format::Spdx => &kinds::SPDX,
    };
    let to = Output { file: args.output.as_deref(), kind, force: args.force };
    let bundle = to.checked(session.bundle(&args.bundle)?)?;
    let catalogue = catalogue(&bundle)?;
    let sources = places(&bundle)?;
    let subject = subject(&bundle, &catalogue, sources.as_ref());
    let document = match args.format {
        Format::Cyclonedx => sbom::cyclonedx(&subject),
        Format::Spdx => sbom::spdx(&subject),
    };
    to.give(&document, display)
}

/// The catalogue that the bundle carries.
pub fn catalogue(bundle: &Bundle) -> Result<Catalogue, Failure> {
    complete::catalogue(bundle).map_err(|e| Failure::from_error(e.exit_code(), &e))
}

/// Where the artifacts of a bundle are from.
pub fn places(bundle: &Bundle) -> Result<Option<Sources>, Failure> {
    sources::of(bundle).map_err(|e| Failure::from_error(e.exit_code(), &e))
}

/// What documents about a bundle are made of.
pub fn subject<'a>(bundle: &'a Bundle, catalogue: &'a Catalogue, sources: Option<&'a Sources>) -> Subject<'a> {
    Subject {
        sources,
        manifest: bundle.manifest(),
        digest: bundle.manifest_digest(),
        catalogue,
        tool: (names::BUILDER, env!("CARGO_PKG_VERSION")),
        tool_licence: env!("CARGO_PKG_LICENSE"),
    }
}

/// Where a document about a bundle goes: a file other than the bundle's own, or standard output.
pub struct Output<'a> {
    /// None: standard output.
    pub file: Option<&'a Path>,
    /// Of the document.
    pub kind: &'a Kind,
    /// Replace another file.
    pub force: bool,
}

impl Output<'_> {
    /// The bundle, when the document may be written beside it.
    pub fn checked(&self, bundle: Bundle) -> Result<Bundle, Failure> {
        if let Some(path) = self.file {
            written::apart(path, &bundle.files())?;
            written::check(path, self.kind, self.force)?;
        }
        Ok(bundle)
    }

    /// Writes the document.
    pub fn give(&self, document: &Value, display: &Display) -> Result<(), Failure> {
        let text = format!("{document:#}\n");
        match self.file {
            Some(path) => written::put(path, self.kind, self.force, text.as_bytes(), display),
            None => {
                display.answer(&text);
                Ok(())
            }
        }
    }
}
