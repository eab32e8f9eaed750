//! `kubexm-bundle packages repo`.

use std::path::PathBuf;

use kubexm_builder::verbs::packages::repo::{Request, publish};
use kubexm_terminal::{Failure, bytes};

use super::key::SignArgs;
use crate::context::Context;
use crate::environment::source_date;

/// Make a folder of .deb or .rpm files a signed repository
///
/// Writes metadata beside the packages, signed by a key of your own, and the public key: apt and
/// dnf then install from the folder, or from a web server that shows it, with all of their checks
/// on. Run it again after the folder has changed. With --os each .rpm must be signed by that
/// distribution, with --key by the keys of a file; without, what dnf would refuse is reported. A .deb
/// carries no signature of its own. Packages are never changed.
/// The metadata is dated now, or by SOURCE_DATE_EPOCH; the same packages, key and date give the
/// same bytes.
///
/// Examples:
///   kubexm-bundle packages repo debs --sign-key site.key
///   kubexm-bundle packages repo /srv/el9 --from ./rpms --os rocky-9 --sign-key site.key
///   kubexm-bundle packages repo /srv/docker --key docker.asc --sign-key site.key
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The folder of the repository
    folder: PathBuf,
    #[command(flatten)]
    sign: SignArgs,
    /// Folder to copy packages from first
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Operating system the packages are of: its family, and whose signatures each .rpm must carry
    #[arg(long, value_name = "NAME")]
    os: Option<String>,
    /// Public keys, ASCII-armored, of which one must have signed each .rpm: of who makes packages of your own
    #[arg(long, value_name = "FILE", conflicts_with = "os")]
    key: Option<PathBuf>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let request = Request {
        folder: &args.folder,
        sign: &args.sign.source(),
        from: args.from.as_deref(),
        os: args.os.as_deref(),
        key: args.key.as_deref(),
        date: source_date()?,
    };
    let repository = publish(context.session, &request)?;
    context.answer(&repository, |made| {
        let size = made.packages.iter().map(|package| package.size).fold(0, u64::saturating_add);
        let (folder, count, key) = (made.folder.display(), made.packages.len(), &made.fingerprint);
        let source = made.source.as_ref().map(|source| format!("\nOn this machine it is used by\n{source}"));
        std::iter::once(format!("{folder}: {count} packages ({}), signed by {key}", bytes(size)))
            .chain(source)
            .collect()
    })?;
    if !args.json {
        repository.notes.iter().for_each(|text| context.note(text.clone()));
    }
    Ok(())
}
