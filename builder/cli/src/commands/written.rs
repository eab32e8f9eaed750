//! What verbs that write a bundle share: a look at the place before, and the last event after.

use std::path::Path;

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
        _ if target.file_name().is_none() => refused("it names no file"),
        _ if !folder.is_dir() => refused("its folder does not exist"),
        _ => Ok(()),
    }
}

/// The same, and the place is none of the files that are read: inputs are never replaced.
pub fn free(target: &Path, read: &Bundle) -> Result<(), Failure> {
    writable(target)?;
    let mut inputs = read.files();
    let mut bases: Vec<&Bundle> = read.bases().iter().collect();
    while let Some(base) = bases.pop() {
        inputs.extend(base.files());
        bases.extend(base.bases());
    }
    let same = |input: &Path| {
        let (one, other) = (target.canonicalize(), input.canonicalize());
        one.is_ok() && one.ok() == other.ok()
    };
    if inputs.iter().any(|input| same(input)) {
        let text = format!("{} is one of the files that are read; name another with -o", target.display());
        return Err(Failure::new(ExitCode::Usage, text));
    }
    Ok(())
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
