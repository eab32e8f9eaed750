//! What every verb gets: a session, and a display for its answer.

use std::io::IsTerminal;
use std::path::Path;

use kubexm_builder::session::Session;
use kubexm_builder::verbs::documents::Tool;
use kubexm_files::{Kind, is_stdout};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ExitCode, names};
use kubexm_terminal::{Display, Failure, Mode};
use serde::Serialize;
use tokio::runtime::Runtime;

/// This program, for documents that name it.
pub const TOOL: Tool =
    Tool { name: names::BUILDER, version: env!("CARGO_PKG_VERSION"), licence: env!("CARGO_PKG_LICENSE") };

/// Of one call of the program.
pub struct Context<'a> {
    pub session: &'a Session,
    pub display: &'a Display,
}

impl Context<'_> {
    /// Whether a machine reads.
    pub fn json(&self) -> bool {
        self.display.mode() == Mode::Json
    }

    /// An answer for people.
    pub fn line(&self, text: impl AsRef<str>) {
        self.display.answer(text.as_ref());
    }

    pub fn note(&self, text: String) {
        self.display.emit(EventKind::Note { text });
    }

    pub fn warn(&self, text: String) {
        self.display.emit(EventKind::Warning { text });
    }

    /// One JSON document for machines, or lines for people.
    pub fn answer<A: Serialize>(&self, answer: &A, lines: impl FnOnce(&A) -> Vec<String>) -> Result<(), Failure> {
        match self.json() {
            true => self.line(json(answer)?.to_string()),
            false => lines(answer).iter().for_each(|line| self.line(line)),
        }
        Ok(())
    }

    /// The end of an answer that was given: with another code than [`ExitCode::Ok`], `text` tells people why.
    pub fn end(&self, code: ExitCode, text: impl FnOnce() -> String) -> Result<(), Failure> {
        match code {
            ExitCode::Ok => Ok(()),
            code if self.json() => Err(Failure::silent(code)),
            code => Err(Failure::new(code, text())),
        }
    }

    /// The last event of a verb that shows events.
    pub fn done(&self, summary: String, answer: &impl Serialize) -> Result<(), Failure> {
        let (exit_code, data) = (ExitCode::Ok.code(), Some(json(answer)?));
        self.display.emit(EventKind::Result { ok: true, exit_code, summary, data });
        Ok(())
    }

    /// Standard output, for a document; what cannot be written is reported at the end of the program.
    pub fn stdout(&self, content: &[u8]) {
        self.display.give(content);
    }

    /// Writes a text to the file of `-o`, or shows it.
    pub fn give(&self, text: &str, output: Option<&Path>, kind: &Kind, force: bool) -> Result<(), Failure> {
        match output {
            Some(path) => kubexm_files::put(path, kind, force, text.as_bytes(), &|content| self.stdout(content))?,
            None => self.line(text),
        }
        Ok(())
    }

    /// Threads for what goes over the network.
    pub fn runtime(&self) -> Result<Runtime, Failure> {
        Runtime::new().map_err(|e| Failure::new(ExitCode::Internal, format!("cannot start worker threads: {e}")))
    }

    /// With `-` for the output, standard output has no room for anything else.
    pub fn check_output(&self, output: &Path) -> Result<(), Failure> {
        match self.json() && is_stdout(output) {
            true => {
                Err(Failure::new(ExitCode::Usage, "-o - and --json both write to standard output; choose one of them"))
            }
            false => Ok(()),
        }
    }

    /// The same for a bundle, in volumes where `split`.
    pub fn check_bundle_output(&self, output: &Path, split: Option<u64>) -> Result<(), Failure> {
        self.check_output(output)?;
        let problem = match split {
            _ if !is_stdout(output) => return Ok(()),
            Some(_) => {
                "volumes are several files, and standard output is one; leave out --split, or name a file with -o"
            }
            None if std::io::stdout().is_terminal() => {
                "a bundle is not written to a terminal; redirect standard output, or name a file with -o"
            }
            None => return Ok(()),
        };
        Err(Failure::new(ExitCode::Usage, problem))
    }
}

fn json(answer: &impl Serialize) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(answer)
        .map_err(|e| Failure::new(ExitCode::Internal, format!("cannot write the answer as JSON: {e}")))
}
