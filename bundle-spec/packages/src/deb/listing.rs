//! A `Packages` text in memory, whose packages are made when they are asked for: of sixty thousand a solve looks at hundreds.
//!
//! All of it is compared with what a package must have when it is read, as [`super::index::read`] does it; kept of it are places in the
//! text, and what packages provide as numbers.

use std::cmp::Ordering;
use std::fmt;
use std::num::NonZero;
use std::thread;

use memchr::memmem;

use super::control::{ControlError, Paragraph, Texts};
use super::index::Known;
use crate::model::{Package, RepoId};
use crate::name::{NameHash, hash};

/// From so many bytes on a text is worth another reader.
const LARGE: usize = 4 << 20;
/// More readers at once do not help: they wait for memory.
const READERS: usize = 8;
/// The most bytes of a text.
pub const LIMIT: usize = 1 << 30;
/// The most names that its packages provide: each takes some 30 bytes of memory, though two bytes may say it. Debian's have some hundred
/// thousand.
const PROVIDED: usize = 10_000_000;

/// The packages of an index that fit an architecture.
pub struct Listing {
    text: Vec<u8>,
    arch: Box<str>,
    /// By name; those of one name as they stand in the text.
    entries: Vec<Entry>,
    /// Of the names that packages provide, one package's behind the other's.
    provided: Vec<NameHash>,
}

/// Where a package is.
#[derive(Clone, Copy)]
struct Entry {
    /// The first bytes of its name: most names differ there, and the text need not be looked at.
    head: [u64; 2],
    name: Place,
    version: Place,
    whole: Place,
    /// Of what it provides, the place in the listing's.
    provides: u32,
    /// How much it provides.
    count: u32,
    /// It fits every architecture.
    any_arch: bool,
}

/// From and to which byte of the text.
#[derive(Clone, Copy)]
struct Place(u32, u32);

/// What one reader found.
#[derive(Default)]
struct Part {
    entries: Vec<Entry>,
    provided: Vec<NameHash>,
}

impl Listing {
    /// Of an unpacked index, the packages of `arch` (`amd64`) and of `all`.
    ///
    /// # Errors
    /// What [`super::index::read`] refuses, in the same words; and a text of more than [`LIMIT`] bytes.
    pub fn read(text: Vec<u8>, arch: &str) -> Result<Self, ControlError> {
        if text.len() > LIMIT {
            let why = format!("it has more than {LIMIT} bytes");
            return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, why).into());
        }
        let readers = thread::available_parallelism().map_or(1, NonZero::get).min(READERS);
        let parts = match cut(&text, readers.min(text.len() / LARGE)).as_slice() {
            [] | [_] => vec![Part::of(&text, 0, arch)?],
            pieces => match together(&text, pieces, arch) {
                Some(parts) => parts,
                // Its paragraphs are counted from the first on.
                None => vec![Part::of(&text, 0, arch)?],
            },
        };
        if parts.iter().map(|part| part.provided.len()).sum::<usize>() > PROVIDED {
            return Err(too_many(&Known::default()));
        }
        let mut listing = Self { text, arch: arch.into(), entries: Vec::new(), provided: Vec::new() };
        for mut part in parts {
            let before = place(listing.provided.len());
            part.entries.iter_mut().for_each(|entry| entry.provides += before);
            listing.entries.append(&mut part.entries);
            listing.provided.append(&mut part.provided);
        }
        // Each part is in order already.
        let text = &listing.text;
        listing.entries.sort_by(|one, other| by_name(text, one, other));
        Ok(listing)
    }

    /// For which architecture.
    pub fn arch(&self) -> &str {
        &self.arch
    }

    /// How many packages there are.
    pub fn len(&self) -> u32 {
        place(self.entries.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A package, of those in the order of their names the one at a place below [`Self::len`], as one of a repository.
    ///
    /// # Panics
    /// When there is none at that place.
    pub fn package(&self, at: u32, repo: RepoId) -> Package {
        let Place(begin, end) = self.entry(at).whole;
        // It was read before, and compared with what it must have.
        let known = Known::of(&Paragraph::again(&self.text[begin as usize..end as usize]));
        known.unwrap_or_default().made(repo, &self.arch)
    }

    fn entry(&self, at: u32) -> &Entry {
        &self.entries[at as usize]
    }

    pub(crate) fn name(&self, at: u32) -> &[u8] {
        self.entry(at).name.of(&self.text)
    }

    pub(crate) fn version(&self, at: u32) -> &str {
        std::str::from_utf8(self.entry(at).version.of(&self.text)).unwrap_or_default()
    }

    pub(crate) fn fits_any(&self, at: u32) -> bool {
        self.entry(at).any_arch
    }

    /// Of the names that a package provides, in its order.
    pub(crate) fn provided(&self, at: u32) -> &[NameHash] {
        let entry = self.entry(at);
        &self.provided[entry.provides as usize..(entry.provides + entry.count) as usize]
    }

    /// The order of two names, each of a listing.
    pub(crate) fn compare_names((one, at): (&Self, u32), (other, there): (&Self, u32)) -> Ordering {
        let (first, second) = (one.entry(at), other.entry(there));
        first.head.cmp(&second.head).then_with(|| one.name(at).cmp(other.name(there)))
    }

    /// The order of a package's name and another one.
    pub(crate) fn compare_name(&self, at: u32, name: &Sought<'_>) -> Ordering {
        self.entry(at).head.cmp(&name.head).then_with(|| self.name(at).cmp(name.name))
    }
}

/// A name that is looked for.
pub(crate) struct Sought<'a> {
    head: [u64; 2],
    name: &'a [u8],
}

impl<'a> Sought<'a> {
    pub fn new(name: &'a str) -> Self {
        Self { head: head(name.as_bytes()), name: name.as_bytes() }
    }
}

/// Not its text.
impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").field("arch", &self.arch).field("packages", &self.entries.len()).finish()
    }
}

impl Part {
    /// Reads a piece of a text, which begins at `offset` of it.
    fn of(piece: &[u8], offset: usize, arch: &str) -> Result<Self, ControlError> {
        let mut part = Self::default();
        let mut texts = Texts::new(piece);
        while let Some((known, whole)) = Known::next_of(&mut texts)? {
            if known.arch != "all" && known.arch != arch {
                continue;
            }
            let provides = part.provided.len();
            known.checked(arch, |name| {
                if part.provided.len() <= PROVIDED {
                    part.provided.push(hash(name));
                }
            })?;
            if part.provided.len() > PROVIDED {
                return Err(too_many(&known));
            }
            let within = |value: &str| {
                let from = value.as_ptr().addr() - piece.as_ptr().addr() + offset;
                Place(place(from), place(from + value.len()))
            };
            part.entries.push(Entry {
                head: head(known.name.as_bytes()),
                name: within(known.name),
                version: within(known.version),
                whole: Place(place(whole.start + offset), place(whole.end + offset)),
                provides: place(provides),
                count: place(part.provided.len() - provides),
                any_arch: known.arch == "all",
            });
        }
        Ok(part)
    }
}

fn too_many(last: &Known<'_>) -> ControlError {
    last.wrong("Provides", format!("and those of the others have more than {PROVIDED} names"))
}

/// Where a text is parted among readers: between two paragraphs, in about equal pieces. Each piece by its end.
fn cut(text: &[u8], readers: usize) -> Vec<usize> {
    let mut ends: Vec<usize> = (1..readers)
        .filter_map(|reader| {
            let from = text.len() / readers * reader;
            memmem::find(&text[from..], b"\n\n").map(|at| from + at + 2)
        })
        .collect();
    ends.push(text.len());
    ends.dedup();
    ends
}

/// Every piece by a reader of its own; none where one of them cannot be read, or no thread can be started.
fn together(text: &[u8], ends: &[usize], arch: &str) -> Option<Vec<Part>> {
    thread::scope(|scope| {
        let mut from = 0;
        let readers: Option<Vec<_>> = ends
            .iter()
            .map(|&end| {
                let begin = std::mem::replace(&mut from, end);
                let read = move || {
                    let mut part = Part::of(&text[begin..end], begin, arch).ok()?;
                    part.entries.sort_by(|one, other| by_name(text, one, other));
                    Some(part)
                };
                thread::Builder::new().spawn_scoped(scope, read).ok()
            })
            .collect();
        readers?.into_iter().map(|reader| reader.join().ok().flatten()).collect()
    })
}

fn by_name(text: &[u8], one: &Entry, other: &Entry) -> Ordering {
    one.head.cmp(&other.head).then_with(|| one.name.of(text).cmp(other.name.of(text)))
}

/// In the order of the bytes.
fn head(name: &[u8]) -> [u64; 2] {
    let mut bytes = [0; 16];
    let len = name.len().min(16);
    bytes[..len].copy_from_slice(&name[..len]);
    let number = u128::from_be_bytes(bytes);
    #[expect(clippy::cast_possible_truncation, reason = "its two halves")]
    [(number >> 64) as u64, number as u64]
}

#[expect(clippy::cast_possible_truncation, reason = "a text has no more than LIMIT bytes")]
const fn place(at: usize) -> u32 {
    at as u32
}

impl Place {
    fn of(self, text: &[u8]) -> &[u8] {
        &text[self.0 as usize..self.1 as usize]
    }
}

#[cfg(test)]
mod tests;
