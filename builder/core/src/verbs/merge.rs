//! The full bundle of a delta and what it was built on; volumes of one file, and one file of volumes.

use std::path::{Path, PathBuf};

use kubexm_archive::{ArchiveError, Bundle};
use kubexm_files::is_stdout;
use kubexm_spec::event::EventKind;
use kubexm_spec::{Digest, ExitCode};

use super::outputs::{WrittenBundle, free, note_replaced};
use crate::room::{self, Need};
use crate::session::{Session, SessionError};

/// Makes one file of a bundle's volumes, or volumes of `split` bytes of one file.
pub fn join(
    session: &Session,
    bundles: &[PathBuf],
    target: &Path,
    split: Option<u64>,
    force: bool,
) -> Result<WrittenBundle, SessionError> {
    let bundle = session.bundle_on(bundles, &[])?;
    free(target, split, force, &bundle)?;
    note_replaced(session, target, split)?;
    if !is_stdout(target) {
        let members = bundle.manifest().members.iter().filter_map(|member| bundle.find(&member.name));
        let bytes = members.map(|member| bundle.stored_size(member)).sum();
        room::check(&[Need { path: target, what: "the bundle", bytes }])?;
    }
    Ok((&kubexm_archive::join(&bundle, target, split, &progress(session, "join"))?).into())
}

/// Makes the full bundle of deltas and the bundle that the first of them was built on, named in any order; all cores compress
/// unless `threads` are named.
pub fn merge(
    session: &Session,
    bundles: &[PathBuf],
    target: &Path,
    threads: Option<usize>,
    force: bool,
) -> Result<WrittenBundle, SessionError> {
    let bundles = bundles.iter().map(|path| session.bundle(path)).collect::<Result<Vec<_>, _>>()?;
    let whole = newest_on_the_others(bundles)?;
    free(target, None, force, &whole)?;
    note_replaced(session, target, None)?;
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
    Ok((&kubexm_archive::merge(&whole, target, threads, &progress(session, "merge"))?).into())
}

fn progress<'s>(session: &'s Session, what: &'static str) -> impl Fn(u64, u64) + Sync + 's {
    move |done, total| {
        let (what, unit) = (what.to_owned(), "bytes".to_owned());
        session.report(EventKind::Progress { what, done, total: Some(total), unit });
    }
}

/// The delta that no other was built on, with all others as its bases.
fn newest_on_the_others(mut bundles: Vec<Bundle>) -> Result<Bundle, SessionError> {
    let is_base = |at: usize, digest: Digest| {
        let others = bundles.iter().enumerate().filter(|(other, _)| *other != at);
        others.filter_map(|(_, bundle)| bundle.layout().base).any(|base| base == digest)
    };
    let newest = |(at, bundle): (usize, &Bundle)| {
        (bundle.layout().is_delta() && !is_base(at, bundle.manifest_digest())).then_some(at)
    };
    let found: Vec<usize> = bundles.iter().enumerate().filter_map(newest).collect();
    let name = |at: &usize| bundles.get(*at).map(|bundle| bundle.path().display().to_string()).unwrap_or_default();
    let at = match found.as_slice() {
        [one] => *one,
        [] => {
            let names: Vec<_> = (0..bundles.len()).map(|at| name(&at)).collect();
            let text = format!("none of these bundles is a delta, there is nothing to merge: {}", names.join(", "));
            return Err(SessionError::refused(ExitCode::Usage, text));
        }
        many => {
            let names: Vec<_> = many.iter().map(name).collect();
            let text = format!(
                "{} do not say which of them is the newest: none was built on another; merge one after the other",
                names.join(" and ")
            );
            return Err(SessionError::refused(ExitCode::Usage, text));
        }
    };
    let delta = bundles.swap_remove(at);
    delta.on_bases(bundles).map_err(|error| match error {
        ArchiveError::BaseLacks { ref path, ref bases, count, ref first } => {
            let bases: Vec<_> = bases.iter().map(|base| base.display().to_string()).collect();
            let text = format!(
                "{} is a delta and leaves out {count} blobs that {} does not have; name the bundle it was built on too:\n- {}",
                path.display(),
                bases.join(" or "),
                first.join("\n- ")
            );
            SessionError::refused(error.exit_code(), text)
        }
        error => error.into(),
    })
}
