//! Files that verbs write: a look at the place before anything is fetched or read, and what was written after.

use std::path::{Path, PathBuf};

use kubexm_archive::{Bundle, Written};
use kubexm_files::is_stdout;
use kubexm_spec::event::EventKind;
use kubexm_spec::{Digest, ExitCode};
use serde::Serialize;

use crate::session::{Session, SessionError};

/// Refuses the place of a bundle, in volumes where `split`, that may not be replaced. The sums of volumes may not be in the way of
/// a file of somebody else. Standard output is always good.
pub fn check_bundle(target: &Path, split: Option<u64>, force: bool) -> Result<(), SessionError> {
    if is_stdout(target) {
        return Ok(());
    }
    kubexm_archive::check_target(target, split.is_some(), force)?;
    if split.is_none() {
        return Ok(());
    }
    match kubexm_archive::foreign_sums(target)? {
        None => Ok(()),
        Some(path) => {
            let text = format!(
                "{} is there, and is not of volumes of {}: it would be replaced; move it away, or name another with -o",
                path.display(),
                target.display()
            );
            Err(SessionError::refused(ExitCode::Usage, text))
        }
    }
}

/// Reports which bundle of the same name is removed once the new one is complete: one in volumes where one file is written, and the other way
/// round.
pub fn note_replaced(session: &Session, target: &Path, split: Option<u64>) -> Result<(), SessionError> {
    let files = kubexm_archive::in_other_form(target, split.is_some())?;
    let Some(first) = files.first() else { return Ok(()) };
    let (first, target) = (first.display(), target.display());
    let text = match (split, files.len()) {
        (Some(_), _) => format!("{first}, an earlier bundle in one file, is removed when its volumes are complete"),
        (None, 1) => format!("{first}, the volume of an earlier bundle, is removed when {target} is complete"),
        (None, count) => {
            let more = count - 1;
            format!("{first} and {more} more volumes of an earlier bundle are removed when {target} is complete")
        }
    };
    session.report(EventKind::Note { text });
    Ok(())
}

/// The place, its volumes and its sums are none of these files: inputs are never replaced.
pub fn apart(target: &Path, inputs: &[PathBuf]) -> Result<(), SessionError> {
    match kubexm_archive::taken_by(target, inputs) {
        None => Ok(()),
        Some(input) => {
            let text = format!(
                "{} is one of the files that are read, and writing {} could replace it; name another with -o",
                input.display(),
                target.display()
            );
            Err(SessionError::refused(ExitCode::Usage, text))
        }
    }
}

/// All of that, for what is made of the bundle `read`.
pub fn free(target: &Path, split: Option<u64>, force: bool, read: &Bundle) -> Result<(), SessionError> {
    check_bundle(target, split, force)?;
    let mut inputs = read.files();
    let mut bases: Vec<&Bundle> = read.bases().iter().collect();
    while let Some(base) = bases.pop() {
        inputs.extend(base.files());
        bases.extend(base.bases());
    }
    apart(target, &inputs)
}

/// A bundle that was written.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenBundle {
    /// The first of `files`.
    pub file: Option<PathBuf>,
    /// Every volume.
    pub files: Vec<PathBuf>,
    /// Of all volumes, in bytes.
    pub size: u64,
    /// Digest of manifest.json.
    pub manifest: Digest,
    pub bundle_id: Digest,
}

impl From<&Written> for WrittenBundle {
    fn from(written: &Written) -> Self {
        let Written { files, size, manifest, bundle_id, .. } = written;
        let (file, files) = (files.first().cloned(), files.clone());
        Self { file, files, size: *size, manifest: *manifest, bundle_id: *bundle_id }
    }
}
