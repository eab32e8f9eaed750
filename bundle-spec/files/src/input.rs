//! Reads a file, a pipe or standard input within a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use kubexm_spec::{ExitCode, ExitError, not_utf8};

use crate::existing::is_stdout as is_dash;

/// The most bytes of a text that people write: cluster.yaml, a zone, an overlay, a list of images.
pub const TEXT_LIMIT: u64 = 16 << 20;

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The operating system refused something.
    #[error("cannot read {}", shown(path))]
    Io {
        /// As it was named.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// More than any real one has.
    #[error("{} has more than {limit} bytes; is it the right file?", shown(path))]
    TooLarge {
        /// As it was named.
        path: PathBuf,
        /// The most bytes that are read.
        limit: u64,
    },
    /// Not the encoding of YAML and JSON.
    #[error("{} is not UTF-8{found}; save it as UTF-8", shown(path))]
    Encoding {
        /// As it was named.
        path: PathBuf,
        /// What it is, as far as that can be known.
        found: String,
    },
}

impl ExitError for InputError {
    fn exit_code(&self) -> ExitCode {
        self.exit_code()
    }
}

impl InputError {
    /// How a program ends on it.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::Config
    }
}

/// The content of a file of at most `limit` bytes; `-` is standard input.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, InputError> {
    let failed = |source| InputError::Io { path: path.to_owned(), source };
    let from: Box<dyn Read> = match is_dash(path) {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path).map_err(failed)?),
    };
    let mut content = Vec::new();
    from.take(limit.saturating_add(1)).read_to_end(&mut content).map_err(failed)?;
    match content.len() as u64 > limit {
        true => Err(InputError::TooLarge { path: path.to_owned(), limit }),
        false => Ok(content),
    }
}

/// The same of a text in UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String, InputError> {
    text_of(path, read(path, limit)?)
}

/// What was read of `path` as text.
pub fn text_of(path: &Path, content: Vec<u8>) -> Result<String, InputError> {
    let wrong =
        |found: Option<String>| InputError::Encoding { path: path.to_owned(), found: found.unwrap_or_default() };
    let text = String::from_utf8(content).map_err(|error| wrong(not_utf8(error.as_bytes())))?;
    // UTF-16 of ASCII letters is valid UTF-8.
    match text.contains('\0').then(|| not_utf8(text.as_bytes())).flatten() {
        None => Ok(text),
        found => Err(wrong(found)),
    }
}

fn shown(path: &Path) -> String {
    if is_dash(path) { "standard input".to_owned() } else { path.display().to_string() }
}
