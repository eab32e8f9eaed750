//! `kubexm-bundle man-pages`.

use std::path::PathBuf;

use kubexm_terminal::Failure;

use crate::context::Context;

/// Write the man pages of kubexm-bundle and its verbs into a folder
///
/// Examples:
///   kubexm-bundle man-pages /usr/local/share/man/man1
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, hide = true)]
pub struct Args {
    /// An existing folder
    folder: PathBuf,
    /// Replace files there that are not man pages
    #[arg(long)]
    force: bool,
}

pub fn run(args: &Args, _: &Context<'_>) -> Result<(), Failure> {
    let pages = kubexm_terminal::man_pages(super::command())
        .map_err(|e| Failure::new(kubexm_spec::ExitCode::Internal, format!("cannot write a man page: {e}")))?;
    for (name, page) in pages {
        kubexm_files::write(&args.folder.join(name), &kubexm_files::MAN_PAGE, args.force, &page)
            .map_err(kubexm_files::NoOption)?;
    }
    Ok(())
}
