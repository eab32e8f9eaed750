//! Why an output was not written.

use std::error::Error;
use std::path::PathBuf;
use std::{fmt, io};

use kubexm_spec::{ExitCode, ExitError};

/// Why an output was not written. What stood at its path stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A device, a named pipe, a socket or a folder; `--force` does not help.
    #[error("{} is {what}, and only a regular file can be written; name another file with -o{}", path.display(), stdout(*hint))]
    NotAFile {
        /// As it was named.
        path: PathBuf,
        /// `a device` …
        what: &'static str,
        /// Whether `-` is what was wanted.
        hint: bool,
    },
    /// A symbolic link; `--force` does not help.
    #[error("{} is a symbolic link to {}; name the file itself with -o{}", path.display(), target.display(), stdout(*hint))]
    Link {
        /// As it was named.
        path: PathBuf,
        /// What the link says.
        target: PathBuf,
        /// Whether `-` is what was wanted.
        hint: bool,
    },
    /// The path ends in no file name.
    #[error("{} names no file; name one with -o", path.display())]
    NoName {
        /// As it was named.
        path: PathBuf,
    },
    /// Its folder is missing, or is no folder.
    #[error("{} cannot be written: the folder {} does not exist; create it, or name another file with -o", path.display(), folder.display())]
    NoFolder {
        /// As it was named.
        path: PathBuf,
        /// Its folder.
        folder: PathBuf,
    },
    /// A file that may not be replaced without `--force`.
    #[error("{} exists and is not {kind}; replace it with --force, or name another file with -o", path.display())]
    Foreign {
        /// As it was named.
        path: PathBuf,
        /// Which kind would be written.
        kind: &'static str,
    },
    /// The same for a kind whose files are never replaced without `--force`.
    #[error("{} already exists; replace it with --force, or name another file with -o", path.display())]
    Exists {
        /// As it was named.
        path: PathBuf,
    },
    /// The operating system refused something.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// The same for a verb that has no `-o`: its text names no option.
#[derive(Debug)]
pub struct NoOption(pub OutputError);

impl fmt::Display for NoOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string().replace(" with -o", ""))
    }
}

impl Error for NoOption {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl ExitError for NoOption {
    fn exit_code(&self) -> ExitCode {
        self.0.exit_code()
    }
}

fn stdout(hint: bool) -> &'static str {
    if hint { ", or - for standard output" } else { "" }
}

impl ExitError for OutputError {
    fn exit_code(&self) -> ExitCode {
        self.exit_code()
    }
}

impl OutputError {
    /// How a program ends on it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Io { .. } => ExitCode::Disk,
            _ => ExitCode::Usage,
        }
    }
}

pub(crate) fn io_error(action: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> OutputError + use<> {
    let path = path.to_owned();
    move |source| OutputError::Io { action, path, source }
}
