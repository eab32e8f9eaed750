//! The one error of this crate.

use std::path::Path;

/// Why an op could not do its work: what, where, how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    /// A system call on a path failed.
    #[error("cannot {action} {path}")]
    Path {
        /// `write`, `read`, `remove` …
        action: &'static str,
        /// Path on the host.
        path: String,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// A program ended with an error.
    #[error("`{program}` failed ({status}): {stderr}")]
    Program {
        /// With its arguments; no secret is ever an argument.
        program: String,
        /// Exit status.
        status: String,
        /// The last lines of its output.
        stderr: String,
    },
    /// The recorded state of an op cannot be used.
    #[error(transparent)]
    State(#[from] kubexm_plan::StateError),
    /// A fault that a test has injected.
    #[error("injected fault: {0}")]
    Injected(String),
    /// Any other error, in one sentence with the fix.
    #[error("{0}")]
    Other(String),
}

impl OpError {
    /// One full sentence.
    pub fn other(text: impl Into<String>) -> Self {
        Self::Other(text.into())
    }

    /// Converts an IO error on a path; for `map_err`.
    pub fn path(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Path { action, path: path.as_ref().display().to_string(), source }
    }

    /// The error with all of its causes, on one line.
    pub fn full(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
