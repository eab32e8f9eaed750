//! Paragraphs of fields (deb822(5)): `Packages`, `Release`, dpkg's status and the control file of a package are all written so.

use std::io::{self, BufRead};
use std::ops::Range;

use memchr::memchr;

/// The most bytes of one paragraph. The largest real ones are releases of Ubuntu (0.3 MB) and the Provides of Rust's crates.
pub const PARAGRAPH_LIMIT: usize = 8 << 20;

/// What is no sequence of paragraphs.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The bytes cannot be read or unpacked.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// A paragraph without an end.
    #[error("paragraph {paragraph} has more than {PARAGRAPH_LIMIT} bytes")]
    TooLong {
        /// Its number, from 1.
        paragraph: usize,
    },
    /// A line that is neither a field nor continues with one.
    #[error("paragraph {paragraph} has a line without a field: {line:?}")]
    NoField {
        /// Its number, from 1.
        paragraph: usize,
        /// The line, cut to a readable length.
        line: String,
    },
    /// A field says something it cannot.
    #[error("{subject}: {field} {problem}")]
    Field {
        /// Which package, or which paragraph.
        subject: String,
        /// The field's name.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

/// Reads paragraph by paragraph; at most one is in memory.
pub struct Paragraphs<R> {
    reader: R,
    text: Vec<u8>,
    count: usize,
}

impl<R: BufRead> Paragraphs<R> {
    /// Reads from the first byte on.
    pub fn new(reader: R) -> Self {
        Self { reader, text: Vec::new(), count: 0 }
    }

    /// The next paragraph; none at the end.
    pub fn read_next(&mut self) -> Result<Option<Paragraph<'_>>, ControlError> {
        self.text.clear();
        loop {
            let begun = self.text.len();
            if !self.line()? {
                break;
            }
            if blank(&self.text[begun..]) {
                self.text.truncate(begun);
                if begun != 0 {
                    break;
                }
            }
        }
        if self.text.is_empty() {
            return Ok(None);
        }
        self.count += 1;
        Ok(Some(Paragraph { text: &self.text, number: self.count }))
    }

    /// One more line, with its end; false where there is none.
    fn line(&mut self) -> Result<bool, ControlError> {
        let mut any = false;
        loop {
            let ready = match self.reader.fill_buf() {
                Ok(ready) => ready,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if ready.is_empty() {
                return Ok(any);
            }
            any = true;
            let end = memchr(b'\n', ready);
            let taken = end.map_or(ready.len(), |at| at + 1);
            if self.text.len() + taken > PARAGRAPH_LIMIT {
                return Err(ControlError::TooLong { paragraph: self.count + 1 });
            }
            self.text.extend_from_slice(&ready[..taken]);
            self.reader.consume(taken);
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

fn blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// The paragraphs of a text that is in memory: the same as [`Paragraphs`] gives, each with its place, and none of them copied.
pub(crate) struct Texts<'a> {
    text: &'a [u8],
    at: usize,
    count: usize,
}

impl<'a> Texts<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, count: 0 }
    }

    /// Calls with each field of the next paragraph, in order, and says where the paragraph is; none at the end.
    pub fn read_next(
        &mut self,
        mut take: impl FnMut(usize, &'a [u8], &'a [u8]) -> Result<(), ControlError>,
    ) -> Result<Option<Range<usize>>, ControlError> {
        while let Some(first) = self.text.get(self.at).filter(|first| first.is_ascii_whitespace()) {
            let end = if *first == b'\n' { self.at + 1 } else { line_end(self.text, self.at) };
            if !blank(&self.text[self.at..end]) {
                break;
            }
            self.at = end;
        }
        if self.at == self.text.len() {
            return Ok(None);
        }
        self.count += 1;
        let begin = self.at;
        let mut fields = Fields { rest: &self.text[begin..], number: self.count };
        for field in fields.by_ref() {
            let (name, value) = field?;
            take(self.count, name, value)?;
        }
        self.at = self.text.len() - fields.rest.len();
        if self.at - begin > PARAGRAPH_LIMIT {
            return Err(ControlError::TooLong { paragraph: self.count });
        }
        Ok(Some(begin..self.at))
    }
}

/// One paragraph.
#[derive(Clone, Copy, Debug)]
pub struct Paragraph<'a> {
    text: &'a [u8],
    number: usize,
}

impl<'a> Paragraph<'a> {
    /// The only paragraph of a text.
    pub fn of(text: &'a str) -> Self {
        Self { text: text.as_bytes(), number: 1 }
    }

    /// One of those that [`Texts`] gave the place of.
    pub(crate) const fn again(text: &'a [u8]) -> Self {
        Self { text, number: 1 }
    }

    /// Its number among those read, from 1.
    pub const fn number(&self) -> usize {
        self.number
    }

    /// Names and values in order. A value has its line breaks and the blanks after them; what is around it is cut off.
    pub fn fields(&self) -> Fields<'a> {
        Fields { rest: self.text, number: self.number }
    }

    /// The value of a field, by name without regard to case; the first where it is written twice.
    pub fn get(&self, name: &'static str) -> Result<Option<&'a str>, ControlError> {
        for field in self.fields() {
            let (found, value) = field?;
            if found.eq_ignore_ascii_case(name.as_bytes()) {
                return text(value, name, || format!("paragraph {}", self.number)).map(Some);
            }
        }
        Ok(None)
    }
}

/// A value as text.
pub(crate) fn text<'a>(
    value: &'a [u8],
    field: &'static str,
    subject: impl FnOnce() -> String,
) -> Result<&'a str, ControlError> {
    std::str::from_utf8(value).map_err(|_| ControlError::Field {
        subject: subject(),
        field,
        problem: "is not UTF-8".to_owned(),
    })
}

/// Goes over the fields of a paragraph.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), ControlError>;

    /// A paragraph ends with its text, or with a blank line.
    fn next(&mut self) -> Option<Self::Item> {
        let begin = *self.rest.first()?;
        let mut end = line_end(self.rest, 0);
        let first = &self.rest[..end];
        if begin.is_ascii_whitespace() && blank(first) {
            return None;
        }
        let colon = memchr(b':', first).filter(|at| *at != 0 && !begin.is_ascii_whitespace());
        let Some(colon) = colon else {
            self.rest = &[];
            let line = String::from_utf8_lossy(first).trim_end().chars().take(80).collect();
            return Some(Err(ControlError::NoField { paragraph: self.number, line }));
        };
        while matches!(self.rest.get(end), Some(b' ' | b'\t')) {
            let more = line_end(self.rest, end);
            if blank(&self.rest[end..more]) {
                break;
            }
            end = more;
        }
        let (field, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(Ok((field[..colon].trim_ascii_end(), field[colon + 1..].trim_ascii())))
    }
}

/// Behind the end of the line that begins at `from`.
fn line_end(text: &[u8], from: usize) -> usize {
    memchr(b'\n', &text[from..]).map_or(text.len(), |at| from + at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8], capacity: usize) -> Vec<Vec<(String, String)>> {
        let mut paragraphs = Paragraphs::new(io::BufReader::with_capacity(capacity, text));
        let mut all = Vec::new();
        while let Some(paragraph) = paragraphs.read_next().unwrap() {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            all.push(
                paragraph.fields().map(|field| field.map(|(name, value)| (text(name), text(value))).unwrap()).collect(),
            );
        }
        all
    }

    #[test]
    fn paragraphs_are_the_same_however_the_bytes_arrive() {
        let text = b"\n\nPackage: a\nDepends: b,\n c (>= 1)\nEmpty:\n\n \t\n\r\nPackage:x\r\nDescription: t\n .\n more: of it\n\n";
        let whole = all(text, 4096);
        assert_eq!(whole.len(), 2);
        assert_eq!(whole[0][1], ("Depends".to_owned(), "b,\n c (>= 1)".to_owned()));
        assert_eq!(whole[0][2], ("Empty".to_owned(), String::new()));
        assert_eq!(whole[1][0], ("Package".to_owned(), "x".to_owned()));
        assert_eq!(whole[1][1].1, "t\n .\n more: of it");
        for capacity in [1, 2, 3, 7] {
            assert_eq!(all(text, capacity), whole, "{capacity} bytes at a time");
        }
        assert_eq!(all(b"Package: last", 4), [[("Package".to_owned(), "last".to_owned())]]);
        assert!(all(b"", 4).is_empty() && all(b"\n \n", 4).is_empty());
    }

    #[test]
    fn names_of_fields_have_no_case() {
        let paragraph = Paragraph::of("PACKAGE: a\n");
        assert_eq!(paragraph.get("Package").unwrap(), Some("a"));
        assert_eq!(paragraph.get("Depends").unwrap(), None);
    }

    #[test]
    fn a_line_that_is_no_field_is_shown() {
        for bad in ["<html>\n", " continues with nothing\n", ": value\n", "Package: a\nnothing\n"] {
            let reported = Paragraph::of(bad).fields().find_map(Result::err);
            assert!(matches!(reported, Some(ControlError::NoField { .. })), "{bad:?}");
        }
    }

    #[test]
    fn a_paragraph_without_an_end_is_refused_before_memory_is() {
        let endless = io::BufReader::new(io::repeat(b'a'));
        assert!(matches!(Paragraphs::new(endless).read_next(), Err(ControlError::TooLong { paragraph: 1 })));
    }
}
