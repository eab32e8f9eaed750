//! Lock files: their default path, and how they are read.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_archive::check_values;
use kubexm_spec::Lock;
use serde_json::Value;

use super::SessionError;
use crate::BuildError;

/// The most bytes that a lock may have: a hundred times what any real one has.
const LIMIT: u64 = 64 << 20;

/// Beside cluster.yaml, under its name: `cluster.lock.json`. Of standard input, in this folder.
pub fn default_path(cluster: Option<&Path>) -> PathBuf {
    cluster.filter(|path| *path != Path::new("-")).unwrap_or(Path::new("cluster.yaml")).with_extension("lock.json")
}

/// Reads one, strictly.
pub fn read(path: &Path) -> Result<Lock, SessionError> {
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LIMIT + 1).read_to_end(&mut text))
        .map_err(|source| SessionError::NoLock { path: path.to_owned(), source })?;
    if text.len() as u64 > LIMIT {
        let problem = format!("it has more than the {LIMIT} bytes of a lock");
        return Err(SessionError::Lock { path: path.to_owned(), problem });
    }
    let text = kubexm_files::text_of(path, text)?;
    parse(path, text.strip_prefix('\u{feff}').unwrap_or(&text).as_bytes())
}

/// A lock, where a text says that it is one.
pub fn of_json(path: &Path, text: &[u8]) -> Result<Option<Lock>, SessionError> {
    // Only a text that could be one is read twice.
    let mark = b"kubexm.io/lock/";
    if !text.windows(mark.len()).any(|window| window == mark) || check_values(text).is_err() {
        return Ok(None);
    }
    let schema =
        serde_json::from_slice::<Value>(text).ok().and_then(|value| Some(value["schema"].as_str()?.to_owned()));
    // Its version is looked at later: a newer lock is a lock.
    match schema.filter(|schema| schema.starts_with("kubexm.io/lock/")) {
        Some(_) => parse(path, text).map(Some),
        None => Ok(None),
    }
}

/// One that was named; else the one beside cluster.yaml, where there is one.
pub fn at_hand(named: Option<&Path>, cluster: Option<&Path>) -> Result<Option<Lock>, SessionError> {
    match named {
        Some(path) => read(path).map(Some),
        None => Some(default_path(cluster)).filter(|path| path.exists()).map(|path| read(&path)).transpose(),
    }
}

/// The text of one, as its file has it.
pub fn text(lock: &Lock) -> Result<String, BuildError> {
    lock.to_text().map_err(|error| BuildError::Encode { what: "a lock", reason: error.to_string() })
}

fn parse(path: &Path, text: &[u8]) -> Result<Lock, SessionError> {
    let wrong = |problem: String| SessionError::Lock { path: path.to_owned(), problem };
    check_values(text).map_err(|e| wrong(format!("it {e}")))?;
    Lock::parse(text).map_err(|e| wrong(e.to_string()))
}
