//! `kubexm-install inventory`.

use std::path::PathBuf;

use kubexm_session::inventory;
use kubexm_terminal::{Display, Failure};

use crate::terminal::{Shown, output};

/// List the blobs that this side has already, for a smaller bundle next time
///
/// Take the list to the build machine (it contains digests and nothing else): `kubexm-bundle build --base
/// inventory.json` leaves out what it names. Every byte of the bundles is read before they are listed. Keep the
/// bundles: a delta is installed with `--base` and the bundles that have the rest.
///
/// Examples:
///   kubexm-install inventory january.tar.zst -o inventory.json
///   kubexm-install inventory january.tar.zst february-delta.tar.zst > inventory.json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Bundles that are kept here: files, or folders with volumes
    #[arg(required = true, value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// The file to write [default: -, standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file that is not an inventory
    #[arg(long, requires = "output")]
    force: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    if let Some(path) = &args.output {
        kubexm_files::check(path, &output::INVENTORY, args.force)?;
    }
    let text = inventory(&args.bundles, &Shown(display))?.to_json();
    match &args.output {
        Some(path) => {
            let stdout = |content: &[u8]| {
                display.give(content);
            };
            Ok(kubexm_files::put(path, &output::INVENTORY, args.force, text.as_bytes(), &stdout)?)
        }
        None => {
            display.answer(text.trim_end());
            Ok(())
        }
    }
}
