//! The journal of a run: one JSON record on each line, on disk before its append returns.
//!
//! A crash during an append leaves a last line without its newline. Nothing was done after it, so the reader cuts it
//! off. After a power failure, unsynced pages may be zeros before other, complete ones; such a tail is cut off too.
//! Anything else that cannot be read is an error: a journal is never interpreted by guessing.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use kubexm_spec::json::memory_of;
use serde::{Deserialize, Serialize};

use crate::record::NAMES;
pub use crate::record::{Ended, Record, Scope, UndoEnd};
use crate::{EngineError, clock};

/// What a line may take as memory while it is read, in bytes: several times what a host's answers may.
const LINE_MEMORY: usize = 512 << 20;

/// A record with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// RFC 3339 in UTC.
    pub time: String,
    #[serde(flatten)]
    pub record: Record,
}

impl Entry {
    /// A record with the current time.
    pub fn now(record: Record) -> Self {
        Self { time: clock::now(), record }
    }
}

/// The result of reading a journal.
#[derive(Debug, PartialEq)]
pub struct Parsed {
    /// Complete records, in order.
    pub entries: Vec<Entry>,
    /// Their length in bytes; the rest is an incomplete line.
    pub whole: u64,
}

/// Why a journal cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// A line is not a record.
    Damaged {
        /// From 1.
        line: usize,
        /// The parser's error.
        reason: String,
    },
    /// A line is a record that this version does not know.
    Newer {
        /// From 1.
        line: usize,
        /// Its name.
        record: String,
    },
}

/// Reads a journal's bytes. A last line without newline, and a tail that was never synced, are cut off.
pub fn parse(bytes: &[u8]) -> Result<Parsed, ParseError> {
    let mut whole = 0;
    let mut entries = Vec::new();
    let mut lines = bytes.split_inclusive(|b| *b == b'\n').enumerate();
    while let Some((index, line)) = lines.next().filter(|(_, line)| line.ends_with(b"\n")) {
        match parse_line(line, index + 1) {
            Ok(entry) => entries.push(entry),
            Err(_) if never_synced(line, lines.map(|(_, line)| line)) => break,
            Err(error) => return Err(error),
        }
        whole += line.len() as u64;
    }
    Ok(Parsed { entries, whole })
}

/// Whether a line with zeros starts a tail that was never synced. Syncing a record syncs all records before it, so only
/// the last line of such a tail can be a record that was synced on its own.
fn never_synced<'a>(line: &[u8], rest: impl Iterator<Item = &'a [u8]>) -> bool {
    let zeros = |line: &[u8]| line.contains(&0);
    let unsynced = |line: &[u8]| {
        zeros(line) || parse_line(line, 0).is_ok_and(|entry| matches!(entry.record, Record::StepSatisfied { .. }))
    };
    let mut rest = rest.peekable();
    zeros(line)
        && std::iter::from_fn(|| rest.next().map(|line| (line, rest.peek().is_none())))
            .all(|(line, last)| last || unsynced(line))
}

fn parse_line(line: &[u8], number: usize) -> Result<Entry, ParseError> {
    let damaged = |e: serde_json::Error| ParseError::Damaged { line: number, reason: e.to_string() };
    if memory_of(line) > LINE_MEMORY {
        let reason = format!("its values would take more than {} MiB of memory", LINE_MEMORY >> 20);
        return Err(ParseError::Damaged { line: number, reason });
    }
    let value: serde_json::Value = serde_json::from_slice(line).map_err(damaged)?;
    if let Some(name) = value.get("record").and_then(serde_json::Value::as_str)
        && !NAMES.contains(&name)
    {
        return Err(ParseError::Newer { line: number, record: name.to_owned() });
    }
    serde_json::from_value(value).map_err(damaged)
}

/// An open journal. Only one process appends to it, under the lock of the cluster's folder.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens or creates a journal, reads every record, and truncates an incomplete last line.
    pub fn open(path: &Path) -> Result<(Self, Vec<Entry>), EngineError> {
        let failed = || EngineError::file("open", path);
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path).map_err(failed())?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(EngineError::file("read", path))?;
        let parsed = parsed_at(path, &bytes)?;
        if parsed.whole < bytes.len() as u64 {
            file.set_len(parsed.whole).and_then(|()| file.sync_all()).map_err(EngineError::file("fix", path))?;
        }
        file.seek(SeekFrom::End(0)).map_err(failed())?;
        if let Some(parent) = path.parent() {
            crate::files::sync_dir(parent)?;
        }
        Ok((Self { path: path.to_owned(), file }, parsed.entries))
    }

    /// Reads without changing the file; an incomplete last line is ignored, since the run may be active.
    pub fn read(path: &Path) -> Result<Vec<Entry>, EngineError> {
        let bytes = match std::fs::read(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(EngineError::file("read", path))?,
        };
        Ok(parsed_at(path, &bytes)?.entries)
    }

    /// Appends one record and returns when it is on disk: nothing may happen before it is. Only `StepSatisfied` is
    /// synced with the next record: if it is lost, the step is observed again.
    pub fn append(&mut self, entry: &Entry) -> Result<(), EngineError> {
        let mut line =
            serde_json::to_vec(entry).map_err(|source| EngineError::Serialise { what: "a journal record", source })?;
        line.push(b'\n');
        self.file
            .write_all(&line)
            .and_then(
                |()| if matches!(entry.record, Record::StepSatisfied { .. }) { Ok(()) } else { self.file.sync_data() },
            )
            .map_err(EngineError::file("append to", &self.path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn parsed_at(path: &Path, bytes: &[u8]) -> Result<Parsed, EngineError> {
    parse(bytes).map_err(|error| match error {
        ParseError::Damaged { line, reason } => {
            EngineError::RunDamaged { path: path.to_owned(), reason: format!("line {line}: {reason}") }
        }
        ParseError::Newer { line, record } => EngineError::JournalNewer { path: path.to_owned(), line, record },
    })
}
