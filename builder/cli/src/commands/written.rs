//! What verbs that write files share: a look at the place before, and the last event after.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use kubexm_archive::{Bundle, Written};
use kubexm_files::{Kind, OutputError, is_stdout};
use kubexm_spec::ExitCode;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure, bytes};
use serde_json::json;

/// An output that cannot be written.
pub fn failure(error: OutputError) -> Failure {
    Failure::from_error(error.exit_code(), &error)
}

/// What is wrong with the place of an output is reported before anything is fetched or read.
pub fn check(output: &Path, kind: &Kind, force: bool) -> Result<(), Failure> {
    match is_stdout(output) {
        true => Ok(()),
        false => kubexm_files::check(output, kind, force).map_err(failure),
    }
}

/// Writes a document to a file, or to standard output when that is what `output` names.
pub fn put(output: &Path, kind: &Kind, force: bool, content: &[u8], display: &Display) -> Result<(), Failure> {
    if is_stdout(output) {
        // What cannot be written is reported at the end of the program.
        display.give(content);
        return Ok(());
    }
    kubexm_files::write(output, kind, force, content).map_err(failure)
}

/// With `-` for the output, standard output has no room for anything else.
pub fn alone(output: &Path, json: bool) -> Result<(), Failure> {
    match json && is_stdout(output) {
        true => Err(Failure::new(ExitCode::Usage, "-o - and --json both write to standard output; choose one of them")),
        false => Ok(()),
    }
}

/// [`check`] for a bundle, in volumes where `split`. Their sums may not be in the way of a file of somebody else.
pub fn check_bundle(target: &Path, split: Option<u64>, force: bool, json: bool) -> Result<(), Failure> {
    if is_stdout(target) {
        alone(target, json)?;
        let problem = match split {
            Some(_) => {
                "volumes are several files, and standard output is one; leave out --split, or name a file with -o"
            }
            None if std::io::stdout().is_terminal() => {
                "a bundle is not written to a terminal; redirect standard output, or name a file with -o"
            }
            None => return Ok(()),
        };
        return Err(Failure::new(ExitCode::Usage, problem));
    }
    kubexm_archive::check_target(target, split.is_some(), force).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
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
pub fn free(target: &Path, split: Option<u64>, (force, json): (bool, bool), read: &Bundle) -> Result<(), Failure> {
    check_bundle(target, split, force, json)?;
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
