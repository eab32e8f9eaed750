//! The program's folder on this machine; only the program reads the environment.

use std::path::{Path, PathBuf};

use kubexm_spec::{ExitCode, names};
use kubexm_terminal::Failure;

/// `$KUBEXM_HOME`, or `.kubexm` in the user's home.
pub fn kubexm_home() -> Result<PathBuf, Failure> {
    if let Some(home) = std::env::var_os(names::HOME_ENV).filter(|v| !v.is_empty()) {
        return Ok(home.into());
    }
    match std::env::var_os("HOME").filter(|v| !v.is_empty()) {
        Some(home) => Ok(PathBuf::from(home).join(names::HOME_DIR)),
        None => Err(Failure::new(
            ExitCode::Config,
            format!("neither {} nor HOME is set: set one, or give --cache", names::HOME_ENV),
        )),
    }
}

/// A path that stands in a file of the user: `~` is the user's home, and what is relative is relative to that file's folder,
/// so that the same file means the same from every working directory.
pub fn resolve(path: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    let Ok(rest) = path.strip_prefix("~") else { return Ok(folder.join(path)) };
    match std::env::var_os("HOME").filter(|v| !v.is_empty()) {
        Some(home) => Ok(PathBuf::from(home).join(rest)),
        None => Err(Failure::new(
            ExitCode::Config,
            format!("{} cannot be found: HOME is not set; give the whole path", path.display()),
        )),
    }
}
