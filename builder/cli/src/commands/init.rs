//! `kubexm-bundle init`.

use std::path::PathBuf;

use kubexm_builder::extract::save;
use kubexm_spec::ExitCode;
use kubexm_spec::cluster::{Profile, Word};
use kubexm_terminal::{Display, Failure};

use super::written;

/// Print a commented cluster.yaml to start from
///
/// Profiles: minimal, one host that is all at once; ha, three control planes behind an address of yours; harbor, images from
/// Harbor on a host of its own; cn, built from mirrors in China. Every field is named by `kubexm-bundle config`.
///
/// Examples:
///   kubexm-bundle init > cluster.yaml
///   kubexm-bundle init --profile ha -o cluster.yaml
///   KMZONE=cn kubexm-bundle build -f cluster.yaml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Kind of site
    #[arg(long, value_name = "PROFILE", default_value = "minimal", value_parser = profile)]
    profile: Profile,
    /// Write it there instead of printing it; a file that is there is not replaced without --force
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the output when it is there
    #[arg(long, requires = "output")]
    force: bool,
}

fn profile(word: &str) -> Result<Profile, String> {
    Profile::of_word(word).ok_or_else(|| format!("there are: {}", Profile::WORDS.join(", ")))
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let text = args.profile.text();
    let Some(output) = &args.output else {
        display.answer(text);
        return Ok(());
    };
    written::writable(output)?;
    if std::fs::symlink_metadata(output).is_ok() && !args.force {
        let text = format!("{} is there: give --force, or name another with -o", output.display());
        return Err(Failure::new(ExitCode::Usage, text));
    }
    save(&written::through(output)?, text.as_bytes()).map_err(|e| Failure::from_error(e.exit_code(), &e))
}
