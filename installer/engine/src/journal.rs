//! The journal of a run: one JSON record a line, each on disk before its append returns.
//!
//! A crash while appending leaves a last line without its newline; it was never acted upon, so the reader cuts
//! it off. When the power went, pages of what was not synced yet may be zeros before others that are whole: such a tail
//! is cut off, too. Everything else that cannot be read is an error: a journal is never guessed at.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::record::NAMES;
pub use crate::record::{Ended, Record, Scope, UndoEnd};
use crate::{EngineError, clock};

/// A record with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// RFC 3339 in UTC.
    pub time: String,
    #[serde(flatten)]
    pub record: Record,
}

impl Entry {
    /// A record of this moment.
    pub fn now(record: Record) -> Self {
        Self { time: clock::now(), record }
    }
}

/// What reading a journal gave.
#[derive(Debug, PartialEq)]
pub struct Parsed {
    /// Whole records, in order.
    pub entries: Vec<Entry>,
    /// Bytes they take; what lies behind is a torn line.
    pub whole: u64,
}

/// Why a journal's text cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// A line is no record.
    Damaged {
        /// From 1.
        line: usize,
        /// The parser's error.
        reason: String,
    },
    /// A line is a record this program does not know.
    Newer {
        /// From 1.
        line: usize,
        /// Its name.
        record: String,
    },
}

/// Reads a journal's bytes. A last line without newline is cut off, and a tail that never came to the disk.
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

/// Whether a line with zeros in it begins a tail that was never synced. Syncing a record syncs all before it, so nothing of
/// such a tail but its last line can be a record that is synced on its own.
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
    let value: serde_json::Value = serde_json::from_slice(line).map_err(damaged)?;
    if let Some(name) = value.get("record").and_then(serde_json::Value::as_str)
        && !NAMES.contains(&name)
    {
        return Err(ParseError::Newer { line: number, record: name.to_owned() });
    }
    serde_json::from_value(value).map_err(damaged)
}

/// An open journal. One process appends to it, under the lock of the cluster's folder.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens or creates, reads every record and cuts a torn last line off the file.
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

    /// Reads without touching; a torn last line is passed over, since the run may be continuing right now.
    pub fn read(path: &Path) -> Result<Vec<Entry>, EngineError> {
        let bytes = match std::fs::read(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(EngineError::file("read", path))?,
        };
        Ok(parsed_at(path, &bytes)?.entries)
    }

    /// Appends one record and returns when it is on disk. The wait is wanted: nothing may happen before it. Only that a step
    /// held already comes to the disk with the next record: it is looked at again when that was lost.
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

    /// Where it lies.
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
