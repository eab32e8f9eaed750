//! How a program ends badly: one exit code, and a text that says what, where and how to fix it.

use std::error::Error;
use std::io::Write;

use kubexm_spec::event::EventKind;
use kubexm_spec::{ExitCode, ExitError, error_chain};

use crate::Display;

/// The end of a verb that failed.
#[derive(Debug)]
pub struct Failure {
    /// Its exit code.
    pub code: ExitCode,
    /// For people; several lines are fine.
    pub text: String,
    /// For machines (`--json`), when the verb has more to say.
    pub data: Option<serde_json::Value>,
}

impl Failure {
    /// A failure in words.
    pub fn new(code: ExitCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), data: None }
    }

    /// A failure whose answer was already given.
    pub fn silent(code: ExitCode) -> Self {
        Self::new(code, "")
    }

    /// From an error and its causes, outermost first.
    pub fn from_error(code: ExitCode, error: &dyn Error) -> Self {
        Self::new(code, error_chain(error))
    }

    /// With details for machines.
    #[must_use]
    pub fn with_data(mut self, data: serde_json::Value) -> Self {
        self.data = Some(data);
        self
    }
}

impl<E: ExitError> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { data: error.details(), ..Self::from_error(error.exit_code(), &error) }
    }
}

/// Shows the last event of the program and gives the code for the shell.
pub fn finish(display: &Display, result: Result<(), Failure>) -> std::process::ExitCode {
    // What a signal ended has no other end, whatever else went wrong by it.
    if let Some(code) = display.conclude() {
        return std::process::ExitCode::from(code.code());
    }
    let reported = result.as_ref().is_err_and(|failure| !failure.text.is_empty());
    // Of a verb that says no more, its answer was all there is to say. Reported on standard error, whoever reads.
    if let Some(error) = display.unanswered().filter(|_| !reported) {
        let _ = writeln!(std::io::stderr().lock(), "error: cannot write to standard output: {error}");
        return std::process::ExitCode::from(ExitCode::Disk.code());
    }
    let Err(failure) = result else { return std::process::ExitCode::SUCCESS };
    if failure.text.is_empty() {
        return std::process::ExitCode::from(failure.code.code());
    }
    display.emit(EventKind::Result {
        ok: false,
        exit_code: failure.code.code(),
        summary: failure.text,
        data: failure.data,
    });
    std::process::ExitCode::from(failure.code.code())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;

    fn code(code: ExitCode) -> std::process::ExitCode {
        std::process::ExitCode::from(code.code())
    }

    #[test]
    fn the_last_event_is_written_once_also_after_a_signal() {
        let interrupted = Display::new(Mode::Plain);
        assert!(interrupted.interrupt(ExitCode::Declined, "interrupted"));
        assert!(!interrupted.interrupt(ExitCode::Declined, "interrupted"));
        let failed = Err(Failure::new(ExitCode::Disk, "the signer was killed"));
        assert_eq!(finish(&interrupted, failed), code(ExitCode::Declined));

        let failed = Display::new(Mode::Plain);
        assert_eq!(finish(&failed, Err(Failure::new(ExitCode::Disk, "full"))), code(ExitCode::Disk));
        assert!(!failed.interrupt(ExitCode::Declined, "interrupted"));

        let reported = Display::new(Mode::Plain);
        reported.emit(EventKind::Result { ok: true, exit_code: 0, summary: "built".into(), data: None });
        assert!(!reported.interrupt(ExitCode::Declined, "interrupted"));
        assert_eq!(finish(&reported, Ok(())), std::process::ExitCode::SUCCESS);
    }
}
