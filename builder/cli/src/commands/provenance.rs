//! `kubexm-bundle provenance`.

use std::path::PathBuf;

use kubexm_builder::verbs::documents::{open, provenance};
use kubexm_builder::verbs::kinds::PROVENANCE;
use kubexm_terminal::Failure;

use crate::context::{Context, TOOL};

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

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let (session, output) = (context.session, args.output.as_deref());
    let bundle = open(session, &args.bundle, output, &PROVENANCE, args.force)?;
    let document = provenance(session, &args.bundle, &bundle, args.files, TOOL)?;
    context.give(&document, output, &PROVENANCE, args.force)
}
