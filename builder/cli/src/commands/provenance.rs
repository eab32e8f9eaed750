//! `kubexm-bundle provenance`.

use std::path::{Path, PathBuf};

use kubexm_archive::Bundle;
use kubexm_builder::disk;
use kubexm_builder::provenance::{Built, provenance};
use kubexm_builder::session::{Session, is_address};
use kubexm_spec::{Digest, ExitCode};
use kubexm_terminal::{Display, Failure};

use super::{kinds, sbom};

/// Print what a bundle was built from, as an in-toto statement (v1) with SLSA provenance (v1)
///
/// Its subject is manifest.json by digest, which names every byte and stays the same when the
/// bundle is signed, split or sent as a delta. Its dependencies are all artifacts with origin and
/// digest; its parameters the digests of cluster.yaml and of the catalogue, and the zone. There is
/// no clock in it. It is a statement to be signed, not a proof.
///
/// Examples:
///   kubexm-bundle provenance site.tar.zst -o site.intoto.json
///   cosign attest-blob --statement site.intoto.json --key cosign.key --tlog-upload=false \
///       --output-signature site.attestation --yes
///   kubexm-bundle provenance site.tar.zst --files   # the file's own digest too; reads all of it
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle
    bundle: PathBuf,
    /// Name the file (or each volume) by its digest as well; a signature put in later changes it
    #[arg(long)]
    files: bool,
    /// File to write to [default: -, standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file that is not provenance of kubexm-bundle
    #[arg(long, requires = "output")]
    force: bool,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let to = sbom::Output { file: args.output.as_deref(), kind: &kinds::PROVENANCE, force: args.force };
    let bundle = to.checked(session.bundle(&args.bundle)?)?;
    let catalogue = sbom::catalogue(&bundle)?;
    let sources = sbom::places(&bundle)?;
    let files = if args.files { files(&args.bundle, &bundle, session)? } else { Vec::new() };
    let built = Built {
        subject: sbom::subject(&bundle, &catalogue, sources.as_ref()),
        bundle_id: bundle.bundle_id(),
        encoder: (&bundle.layout().encoder, bundle.layout().level),
        files,
    };
    to.give(&provenance(&built), display)
}

/// Names without folders of the bundle's files, or of the one on a server, and their digests.
fn files(path: &Path, bundle: &Bundle, session: &Session) -> Result<Vec<(String, Digest)>, Failure> {
    match is_address(path) {
        Some(address) => Ok(session.digest_at(address)?.into_iter().collect()),
        None => bundle.files().iter().map(|path| named(path)).collect(),
    }
}

fn named(path: &Path) -> Result<(String, Digest), Failure> {
    let digest =
        disk::digest(path).map_err(|e| Failure::new(ExitCode::Disk, format!("cannot read {}: {e}", path.display())))?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    Ok((name.to_string_lossy().into_owned(), digest))
}
