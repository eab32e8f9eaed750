//! Copying a bundle to a stick or a disk, and reading it back from the medium, not from the page cache.
//!
//! ```text
//! bundle ─items→ files ─look→ right | wrong | absent ─one→ .NAME.partial ─fsync, read back→ NAME
//! ```
//!
//! A file that is there and right is not written again, so a copy that was cut off continues, and of a damaged copy only the
//! damaged volume is replaced.

mod error;
mod file;
mod items;
mod medium;

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kubexm_archive::{Bundle, partial_path};
use kubexm_spec::event::EventKind;
use kubexm_spec::{Digest, amount, amount_needed};

pub use error::CopyError;
pub use medium::ReadBack;

use crate::{Report, disk};
use error::io_error;
use file::Doing;
use items::{Item, There};

/// What was done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Done {
    /// It was not there.
    Copied,
    /// Something else was there under its name.
    Replaced,
    /// It was there, byte for byte.
    Skipped,
}

/// One file in the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedFile {
    pub path: PathBuf,
    /// In bytes.
    pub size: u64,
    /// Of its content, as it was read back.
    pub sha256: Digest,
    /// What was done.
    pub done: Done,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// All files, in the order in which they were written.
    pub files: Vec<CopiedFile>,
    /// How they were read back: the weaker of two where files differ.
    pub read_back: ReadBack,
    /// Bytes that were written.
    pub written: u64,
    /// Bytes that were free before.
    pub free: u64,
}

/// Copies the bundle's files, `NAME.sums`, everything that this lists, and signatures beside it into a folder.
///
/// A file there that is no earlier copy is replaced with `force` only.
pub fn copy(bundle: &Bundle, target: &Path, force: bool, report: Report<'_>) -> Result<Copied, CopyError> {
    let items = items::items(bundle)?;
    if !target.is_dir() {
        return Err(CopyError::NotAFolder { path: target.to_owned() });
    }
    apart(&items, target)?;
    let names = items::foreign(&items, target)?;
    if !names.is_empty() {
        return Err(CopyError::Foreign { target: target.to_owned(), names });
    }
    fits(&items, target)?;
    let mut read_back = ReadBack::Direct;
    let mut weaker = |how: ReadBack| {
        if how == ReadBack::Dropped {
            read_back = how;
        }
    };
    let mut found = Vec::with_capacity(items.len());
    let compared = Bar::new(report, "compare", items.iter().map(|item| item.size).sum());
    for item in &items {
        kubexm_files::check_regular(&target.join(&item.name))?;
        let (there, how) = file::look(item, &target.join(&item.name), &|bytes| compared.at(bytes))?;
        compared.past(item.size);
        how.into_iter().for_each(&mut weaker);
        if let (There::Right(digest), Some((wanted, sums))) = (there, &item.sum)
            && digest != *wanted
        {
            return Err(CopyError::SourceDamaged { path: item.source.clone(), sums: sums.clone() });
        }
        found.push(there);
    }
    if !force {
        let names = items::occupied(&items, &found, target);
        if !names.is_empty() {
            return Err(CopyError::Occupied { target: target.to_owned(), names });
        }
    }
    let (free, needed) = room(&items, &found, target)?;
    let text = format!("{}: {} free, {} to be written", target.display(), amount(free), amount_needed(needed));
    report(EventKind::Note { text });

    let mut files = Vec::with_capacity(items.len());
    // Each byte is written and read.
    let moving = items.iter().zip(&found).filter(|(_, there)| !matches!(there, There::Right(_)));
    let moved = Bar::new(report, "copy and read back", moving.map(|(item, _)| 2 * item.size).sum());
    for (item, there) in items.iter().zip(&found) {
        let path = target.join(&item.name);
        let (sha256, done) = match there {
            There::Right(digest) => (*digest, Done::Skipped),
            There::Absent | There::Wrong => {
                let tell = |doing, bytes| match doing {
                    Doing::Copy => moved.at(bytes),
                    Doing::ReadBack => moved.at(item.size + bytes),
                };
                let (digest, how) = file::one(item, &path, &tell)?;
                moved.past(2 * item.size);
                weaker(how);
                (digest, if *there == There::Wrong { Done::Replaced } else { Done::Copied })
            }
        };
        files.push(CopiedFile { path, size: item.size, sha256, done });
    }
    let written = files.iter().filter(|file| file.done != Done::Skipped).map(|file| file.size).sum();
    Ok(Copied { files, read_back, written, free })
}

/// Progress over several files.
struct Bar<'a> {
    report: Report<'a>,
    what: &'static str,
    total: u64,
    before: Cell<u64>,
    last: Cell<u64>,
}

impl<'a> Bar<'a> {
    fn new(report: Report<'a>, what: &'static str, total: u64) -> Self {
        Self { report, what, total, before: Cell::new(0), last: Cell::new(0) }
    }

    /// So many bytes of the file that is under way.
    fn at(&self, bytes: u64) {
        let done = self.before.get() + bytes;
        if self.last.replace(done) != done {
            let (what, unit) = (self.what.to_owned(), "bytes".to_owned());
            (self.report)(EventKind::Progress { what, done, total: Some(self.total), unit });
        }
    }

    /// A file is done with.
    fn past(&self, bytes: u64) {
        self.before.set(self.before.get() + bytes);
    }
}

/// A file is never copied onto itself.
fn apart(items: &[Item], target: &Path) -> Result<(), CopyError> {
    let target = target.canonicalize().map_err(io_error("find", target))?;
    let inside = |item: &&Item| {
        let folder = item.source.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
        folder.is_some_and(|folder| folder == target)
    };
    items.iter().find(inside).map_or(Ok(()), |item| Err(CopyError::SameFolder { path: item.source.clone() }))
}

fn fits(items: &[Item], target: &Path) -> Result<(), CopyError> {
    let Some((system, limit)) = medium::largest_file(target).map_err(io_error("examine", target))? else {
        return Ok(());
    };
    match items.iter().find(|item| item.size > limit) {
        Some(item) => {
            let (path, target) = (item.source.clone(), target.to_owned());
            Err(CopyError::FileTooLarge { path, size: item.size, target, system, limit })
        }
        None => Ok(()),
    }
}

/// Bytes on the medium that go free with a file: its blocks, and none where it has another name.
fn freed_by(file: &fs::Metadata) -> u64 {
    // stat(2): st_blocks counts units of 512 bytes.
    if file.nlink() == 1 { file.blocks().saturating_mul(512) } else { 0 }
}

/// Bytes free and bytes needed; an error when these are more. A wrong file stays until the right one is whole, unless there is
/// no room for both and it has the same length as the right one: then it is a damaged copy of it, and goes first. None
/// goes where the right ones would not fit even then.
fn room(items: &[Item], found: &[There], target: &Path) -> Result<(u64, u64), CopyError> {
    let free = || disk::free(target).map_err(io_error("examine", target));
    let mut needed = 0;
    let mut replaced = Vec::new();
    for (item, _) in items.iter().zip(found).filter(|(_, there)| !matches!(there, There::Right(_))) {
        let path = target.join(&item.name);
        let begun = partial_path(&path).and_then(|path| fs::metadata(path).ok()).map_or(0, |partial| partial.len());
        needed += item.size.saturating_sub(begun);
        if let Ok(wrong) = fs::symlink_metadata(&path) {
            let damaged_copy = wrong.is_file() && wrong.len() == item.size;
            replaced.push((path, if damaged_copy { freed_by(&wrong) } else { 0 }));
        }
    }
    let mut there = free()?;
    let freed = replaced.iter().fold(0, |sum: u64, (_, freed)| sum.saturating_add(*freed));
    if needed <= there.saturating_add(freed) {
        for (path, freed) in &replaced {
            if needed > there && *freed > 0 {
                fs::remove_file(path).map_err(io_error("remove the damaged", path))?;
                there = free()?;
            }
        }
    }
    if needed <= there {
        return Ok((there, needed));
    }
    let replaced = replaced.into_iter().map(|(path, _)| path).filter(|path| path.exists()).collect();
    Err(CopyError::NoRoom { target: target.to_owned(), free: there, needed, replaced })
}
