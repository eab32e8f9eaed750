//! Errors of the crates as ends of a verb: every one knows its exit code.

use std::error::Error;

use kubexm_archive::ArchiveError;
use kubexm_engine::EngineError;
use kubexm_engine::link::LinkError;
use kubexm_recipes::RecipeError;
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;

/// A bundle that cannot be opened or read.
pub fn archive(error: ArchiveError) -> Failure {
    match &error {
        ArchiveError::Io { path, source, .. } if source.kind() == std::io::ErrorKind::NotFound => Failure::new(
            ExitCode::NotABundle,
            format!("there is no bundle at {}; name the file that `kubexm-bundle build` wrote", path.display()),
        ),
        _ => Failure::from_error(error.exit_code(), &error),
    }
}

/// A run that could not be made, read or carried on.
pub fn engine(error: EngineError) -> Failure {
    Failure::from_error(error.exit_code(), &error)
}

/// No plan could be made.
pub fn recipe(error: RecipeError) -> Failure {
    Failure::from_error(error.exit_code(), &error)
}

/// Every host that could not be worked with, told together; the most severe decides the exit code.
pub fn links<'a>(errors: impl IntoIterator<Item = &'a LinkError> + Clone) -> Failure {
    let code = errors.clone().into_iter().map(LinkError::exit_code).max().unwrap_or(ExitCode::Internal);
    let texts: Vec<String> = errors.into_iter().map(|error| Failure::from_error(code, error).text).collect();
    Failure::new(code, texts.join("\n"))
}

/// A file of this machine that cannot be read or written.
pub fn disk(action: &str, path: &std::path::Path, error: &dyn Error) -> Failure {
    Failure::new(ExitCode::Disk, format!("cannot {action} {}: {error}", path.display()))
}
