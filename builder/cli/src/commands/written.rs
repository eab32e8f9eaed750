//! What verbs that write a bundle share: a look at the place before, and the last event after.

use std::path::{Path, PathBuf};

use kubexm_archive::{Bundle, Written};
use kubexm_spec::ExitCode;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Failure, bytes};
use serde_json::json;

/// What is wrong with the place of a bundle is told before anything is fetched or read.
pub fn writable(target: &Path) -> Result<(), Failure> {
    let refused = |problem: &str| {
        Err(Failure::new(
            ExitCode::Usage,
            format!("{} cannot be written: {problem}; name another with -o", target.display()),
        ))
    };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match target {
        _ if target.is_dir() => refused("it is a folder"),
        // Also behind a link: /dev/stdout. A rename would put a file in its place.
        _ if target.exists() && !target.is_file() => refused("it is a device or a pipe"),
        _ if target.file_name().is_none() => refused("it names no file"),
        _ if !folder.is_dir() => refused("its folder does not exist"),
        _ => Ok(()),
    }
}

/// The file that is written: where there is a symbolic link, the one behind it, so that the link stays. So do `tar -f`, `curl -o`
/// and every shell's `>`: who keeps a `latest.tar.zst`, or a lock in another folder, wants what it leads to renewed. It is
/// renewed as a whole all the same, beside the file itself. What takes the link's place, as a bare rename would, leaves the
/// other file old, and nobody sees that.
pub fn through(target: &Path) -> Result<PathBuf, Failure> {
    if !std::fs::symlink_metadata(target).is_ok_and(|meta| meta.is_symlink()) {
        return Ok(target.to_owned());
    }
    std::fs::canonicalize(target).map_err(|e| {
        let text =
            format!("{} is a link to what cannot be had ({e}); remove it, or name another file", target.display());
        Failure::new(ExitCode::Usage, text)
    })
}

/// A file that is there and is not `ours` is replaced with --force only, as `init` and `import` have it of every file; one that
/// is, without a word: it is made to be made again.
pub fn replaceable(there: Option<&Path>, ours: &str, force: bool) -> Result<(), Failure> {
    match there.filter(|_| !force) {
        None => Ok(()),
        Some(path) => {
            let text = format!(
                "{} is there, and is no {ours}: give --force to replace it, or name another with -o",
                path.display()
            );
            Err(Failure::new(ExitCode::Usage, text))
        }
    }
}

/// As [`writable`] for volumes where `split`: their sums may not be in the way of a file of somebody else.
pub fn writable_as(target: &Path, split: Option<u64>) -> Result<(), Failure> {
    writable(target)?;
    if split.is_none() {
        return Ok(());
    }
    match kubexm_archive::foreign_sums(target).map_err(|e| Failure::from_error(e.exit_code(), &e))? {
        None => Ok(()),
        Some(path) => {
            let text = format!(
                "{} is there, and is not of volumes of {}: it would be replaced; move it away, or name another with -o",
                path.display(),
                target.display()
            );
            Err(Failure::new(ExitCode::Usage, text))
        }
    }
}

/// The place, its volumes and its sums are none of these files: inputs are never replaced.
pub fn apart(target: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    match kubexm_archive::taken_by(target, inputs) {
        None => Ok(()),
        Some(input) => {
            let text = format!(
                "{} is one of the files that are read, and writing {} could replace it; name another with -o",
                input.display(),
                target.display()
            );
            Err(Failure::new(ExitCode::Usage, text))
        }
    }
}

/// All of that, for a verb that reads a bundle and writes one.
pub fn free(target: &Path, split: Option<u64>, read: &Bundle) -> Result<(), Failure> {
    writable_as(target, split)?;
    let mut inputs = read.files();
    let mut bases: Vec<&Bundle> = read.bases().iter().collect();
    while let Some(base) = bases.pop() {
        inputs.extend(base.files());
        bases.extend(base.bases());
    }
    apart(target, &inputs)
}

/// The end of a stream of events.
pub fn result(written: &Written) -> EventKind {
    let file = written.files.first().map(|file| file.display().to_string()).unwrap_or_default();
    let volumes = match written.files.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more volumes", count - 1),
    };
    EventKind::Result {
        ok: true,
        exit_code: ExitCode::Ok.code(),
        summary: format!("{file}{volumes} ({}, manifest {})", bytes(written.size), written.manifest),
        data: Some(data(written)),
    }
}

/// What was written, for machines.
pub fn data(written: &Written) -> serde_json::Value {
    json!({
        "file": written.files.first(),
        "files": written.files,
        "size": written.size,
        "manifest": written.manifest,
        "bundleId": written.bundle_id,
    })
}
