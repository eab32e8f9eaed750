//! The header structure that an .rpm has twice: once for signatures, once for all else
//! (<https://rpm-software-management.github.io/rpm/manual/format_header.html>).

use std::borrow::Cow;
use std::io::Read;

/// Magic, version 1 and four reserved bytes.
const MAGIC: [u8; 8] = [0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0];
/// Of an entry of the index.
const ENTRY: usize = 16;
/// Of magic, number of entries and size of data.
const INTRO: usize = 16;

/// An .rpm that is none, or is damaged.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// It does not follow the format.
    #[error("it is not an rpm: {0}")]
    Malformed(String),
    /// It cannot be read.
    #[error("it cannot be read")]
    Io(#[from] std::io::Error),
}

pub(super) fn malformed(why: impl Into<String>) -> HeaderError {
    HeaderError::Malformed(why.into())
}

/// What a header may hold at most.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Entries of the index.
    pub entries: u32,
    /// Bytes of data.
    pub data: u32,
    /// The tag of the region that must cover all of it.
    pub region: u32,
    /// Texts, or numbers of more than a byte, that one entry may be: entries may lie over one another, and each text takes some 100
    /// bytes of memory.
    pub values: u32,
}

/// A header, whole as it was read: what is signed are these bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u32,
    kind: Kind,
    /// Where its data begins, in all bytes of the header.
    at: usize,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    /// Numbers of so many bytes; single bytes of any meaning.
    Number(usize),
    Text,
    Texts,
}

impl Header {
    /// Reads a header from where it begins, and no byte more.
    pub(super) fn read(reader: &mut impl Read, limits: Limits) -> Result<Self, HeaderError> {
        let mut bytes = taken(reader, INTRO)?;
        if bytes[..8] != MAGIC {
            return Err(malformed("a header does not begin with its magic"));
        }
        let word = |at: usize| u32_at(&bytes, at).unwrap_or(u32::MAX);
        let (entries, data) = (word(8), word(12));
        if entries == 0 || entries > limits.entries || data > limits.data {
            return Err(malformed(format!("a header has {entries} entries and {data} bytes")));
        }
        let (entries, data) = (entries as usize, data as usize);
        bytes.extend(taken(reader, entries * ENTRY + data)?);
        let start = INTRO + entries * ENTRY;
        let parsed =
            (0..entries).map(|place| Self::entry(&bytes, INTRO + place * ENTRY, start, limits.values as usize));
        let header = Self { entries: parsed.collect::<Result<_, _>>()?, bytes };
        header.check_region(limits.region, entries, data)?;
        Ok(header)
    }

    fn entry(bytes: &[u8], at: usize, start: usize, most: usize) -> Result<Entry, HeaderError> {
        let word = |place: usize| u32_at(bytes, at + 4 * place).ok_or_else(|| malformed("an entry is cut"));
        let (tag, kind, offset, count) = (word(0)?, word(1)?, word(2)? as usize, word(3)? as usize);
        let kind = match kind {
            0 => Kind::Null,
            1 | 2 | 7 => Kind::Number(1),
            3 => Kind::Number(2),
            4 => Kind::Number(4),
            5 => Kind::Number(8),
            6 => Kind::Text,
            8 | 9 => Kind::Texts,
            other => return Err(malformed(format!("tag {tag} has the unknown type {other}"))),
        };
        let entry = Entry { tag, kind, at: start.saturating_add(offset), count };
        // A text has its end at least.
        let least = count.saturating_mul(if let Kind::Number(width) = kind { width } else { 1 });
        if entry.at.saturating_add(least) > bytes.len() {
            return Err(malformed(format!("tag {tag} points outside the header")));
        }
        if kind != Kind::Number(1) && count > most {
            return Err(malformed(format!("tag {tag} has {count} values, and {most} are the most that a package has")));
        }
        if kind == Kind::Text && count != 1 {
            return Err(malformed(format!("tag {tag} is {count} texts where one is meant")));
        }
        Ok(entry)
    }

    /// The region is what rpm signs. One that covers less would leave entries without a signature.
    fn check_region(&self, tag: u32, entries: usize, data: usize) -> Result<(), HeaderError> {
        let wrong = || malformed(format!("its region {tag} does not cover the whole header"));
        let first = self.entries.first().filter(|entry| entry.tag == tag && entry.count == ENTRY).ok_or_else(wrong)?;
        let trailer = self.bytes.get(first.at..first.at + ENTRY).ok_or_else(wrong)?;
        let covered = u32_at(trailer, 8).map(|offset| offset.wrapping_neg() as usize);
        let ends_it = first.at + ENTRY == INTRO + entries * ENTRY + data;
        (covered == Some(entries * ENTRY) && ends_it).then_some(()).ok_or_else(wrong)
    }

    /// All of its bytes, from its magic on.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn find(&self, tag: u32) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.tag == tag && entry.kind != Kind::Null)
    }

    /// The bytes of a tag that has bytes.
    pub fn binary(&self, tag: u32) -> Option<&[u8]> {
        let entry = self.find(tag).filter(|entry| entry.kind == Kind::Number(1))?;
        self.bytes.get(entry.at..entry.at + entry.count)
    }

    /// The numbers of a tag; none where it has none. (Those that we read have more than a byte each.)
    pub fn numbers(&self, tag: u32) -> Vec<u64> {
        let numbers = self.each_number(tag).filter(|_| self.find(tag).is_some_and(|one| one.kind != Kind::Number(1)));
        numbers.map(Iterator::collect).unwrap_or_default()
    }

    /// The first number of a tag.
    pub fn number(&self, tag: u32) -> Option<u64> {
        self.each_number(tag)?.next()
    }

    fn each_number(&self, tag: u32) -> Option<impl Iterator<Item = u64>> {
        let entry = self.find(tag)?;
        let Kind::Number(width) = entry.kind else { return None };
        let value = |bytes: &[u8]| bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        Some(self.bytes[entry.at..].chunks_exact(width).take(entry.count).map(value))
    }

    /// The texts of a tag, as many as it has. What is no UTF-8 is replaced by marks.
    pub fn texts(&self, tag: u32) -> Vec<Cow<'_, str>> {
        let Some(entry) = self.find(tag).filter(|entry| matches!(entry.kind, Kind::Text | Kind::Texts)) else {
            return Vec::new();
        };
        self.bytes[entry.at..].split(|byte| *byte == 0).take(entry.count).map(String::from_utf8_lossy).collect()
    }

    /// The first text of a tag.
    pub fn text(&self, tag: u32) -> Option<Cow<'_, str>> {
        let entry = self.find(tag).filter(|entry| matches!(entry.kind, Kind::Text | Kind::Texts))?;
        self.bytes[entry.at..].split(|byte| *byte == 0).next().map(String::from_utf8_lossy)
    }
}

/// Exactly so many bytes; memory is taken as they come.
pub(super) fn taken(reader: &mut impl Read, length: usize) -> Result<Vec<u8>, HeaderError> {
    let mut bytes = Vec::new();
    reader.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(malformed("it ends in the middle"));
    }
    Ok(bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|four| Some(u32::from_be_bytes(four.try_into().ok()?)))
}
