//! The documents of a repository, read as they come, within bounds: no entities but XML's own, no element of any length.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use kubexm_spec::Digest;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesEnd, BytesStart, Event};

/// Longest tag or text of a document, in bytes. The longest real one is a changelog of some hundred KiB.
const PIECE: usize = 4 * 1024 * 1024;
/// How deep elements may lie in each other: each that is open is remembered, and real ones lie four deep.
const DEPTH: usize = 64;
/// Of what is wrong, which may quote the document, in bytes.
const SHOWN: usize = 500;

/// A document of a repository that cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{document} cannot be read: {why} (near byte {at} of its text)")]
pub struct DocumentError {
    /// `primary.xml`.
    pub document: &'static str,
    /// What is wrong with it.
    pub why: String,
    /// How far it was read, in bytes of the unpacked document.
    pub at: u64,
}

/// What a document has next.
pub(super) enum Node<'a> {
    /// An element begins; an empty one is closed at once.
    Open(Element<'a>),
    /// Text, whole or in pieces.
    Text(Cow<'a, str>),
    /// An element ends.
    Close(Closed<'a>),
    /// A comment or the like.
    Nothing,
    /// The document is over, and all of its elements were closed.
    End,
}

/// A document while it is read.
pub(super) struct Document<R> {
    name: &'static str,
    root: &'static str,
    reader: quick_xml::Reader<Metered<R>>,
    left: Rc<Cell<usize>>,
    buffer: Vec<u8>,
    depth: usize,
    seen: bool,
    /// How long the text is that its readers put together since the last tag: it comes in as many pieces as it has comments and
    /// references.
    text: usize,
}

impl<R: BufRead> Document<R> {
    /// Its first element must be `root`: another document of the same vendor would read as one without packages.
    pub fn new(name: &'static str, root: &'static str, reader: R) -> Self {
        let left = Rc::new(Cell::new(PIECE));
        let mut reader = quick_xml::Reader::from_reader(Metered { inner: reader, left: Rc::clone(&left) });
        reader.config_mut().expand_empty_elements = true;
        Self { name, root, reader, left, buffer: Vec::new(), depth: 0, seen: false, text: 0 }
    }

    /// An error at the place that was reached.
    pub fn wrong(&self, why: impl Into<String>) -> DocumentError {
        DocumentError { document: self.name, why: shortened(why.into()), at: self.reader.buffer_position() }
    }

    pub fn next(&mut self) -> Result<Node<'_>, DocumentError> {
        self.buffer.clear();
        self.left.set(PIECE);
        let (document, at) = (self.name, self.reader.buffer_position());
        let wrong = |why: String| DocumentError { document, why: shortened(why), at };
        let node = match self.reader.read_event_into(&mut self.buffer).map_err(|e| wrong(e.to_string()))? {
            Event::Start(start) => {
                let name = start.local_name().into_inner();
                if self.depth == 0 && name != self.root {
                    return Err(wrong(format!("it begins with <{name}>, not with <{}>", self.root)));
                }
                if self.depth == DEPTH {
                    return Err(wrong(format!("its elements lie more than {DEPTH} deep in each other")));
                }
                (self.depth, self.seen) = (self.depth + 1, true);
                Node::Open(Element { start, document, at })
            }
            Event::End(end) => {
                self.depth = self.depth.saturating_sub(1);
                Node::Close(Closed(end))
            }
            Event::Text(text) => Node::Text(text.into_inner()),
            Event::CData(text) => Node::Text(text.into_inner()),
            Event::GeneralRef(reference) => match reference.resolve_char_ref().map_err(|e| wrong(e.to_string()))? {
                Some(c) => Node::Text(Cow::Owned(c.to_string())),
                None => match resolve_predefined_entity(&reference) {
                    Some(text) => Node::Text(Cow::Borrowed(text)),
                    None => return Err(wrong(format!("it uses the entity {:?}", &*reference))),
                },
            },
            Event::DocType(_) => return Err(wrong("it has a document type".to_owned())),
            Event::Eof if self.depth > 0 => return Err(wrong("it ends in the middle".to_owned())),
            Event::Eof if !self.seen => return Err(wrong("it is empty".to_owned())),
            Event::Eof => Node::End,
            _ => Node::Nothing,
        };
        self.text = match &node {
            Node::Text(more) => self.text + more.len(),
            Node::Nothing => self.text,
            _ => 0,
        };
        if self.text > PIECE {
            return Err(wrong(format!("a text is longer than {PIECE} bytes")));
        }
        Ok(node)
    }
}

/// The end of an element.
pub(super) struct Closed<'a>(BytesEnd<'a>);

impl Closed<'_> {
    /// Without a prefix.
    pub fn name(&self) -> &str {
        self.0.local_name().into_inner()
    }
}

/// The begin of an element.
pub(super) struct Element<'a> {
    start: BytesStart<'a>,
    document: &'static str,
    at: u64,
}

impl Element<'_> {
    /// Without a prefix.
    pub fn name(&self) -> &str {
        self.start.local_name().into_inner()
    }

    fn wrong(&self, why: String) -> DocumentError {
        DocumentError { document: self.document, why: shortened(why), at: self.at }
    }

    /// The value of an attribute, by its name with its prefix.
    pub fn attribute(&self, name: &str) -> Result<Option<Cow<'_, str>>, DocumentError> {
        for attribute in self.start.attributes().with_checks(false) {
            let attribute = attribute.map_err(|e| self.wrong(e.to_string()))?;
            if attribute.key.as_ref() == name {
                let value = attribute.normalized_value(XmlVersion::Explicit1_0);
                return value.map(Some).map_err(|e| self.wrong(e.to_string()));
            }
        }
        Ok(None)
    }

    /// The values of several attributes in one pass, in the order of `names`.
    pub fn attributes<const N: usize>(&self, names: [&str; N]) -> Result<[Option<Cow<'_, str>>; N], DocumentError> {
        let mut values = [const { None }; N];
        for attribute in self.start.attributes().with_checks(false) {
            let attribute = attribute.map_err(|e| self.wrong(e.to_string()))?;
            if let Some(place) = names.iter().position(|name| attribute.key.as_ref() == *name) {
                let value = attribute.normalized_value(XmlVersion::Explicit1_0);
                values[place] = Some(value.map_err(|e| self.wrong(e.to_string()))?);
            }
        }
        Ok(values)
    }

    /// A decimal number; none where the attribute is absent.
    pub fn number(&self, name: &str) -> Result<Option<u64>, DocumentError> {
        let Some(text) = self.attribute(name)? else { return Ok(None) };
        text.trim()
            .parse()
            .map(Some)
            .map_err(|_| self.wrong(format!("{name} of <{}> is {text:?}, no number", self.name())))
    }
}

/// What is wrong as people read it, on one line.
fn shortened(mut why: String) -> String {
    if why.len() > SHOWN {
        why.truncate(why.floor_char_boundary(SHOWN));
        why.push('…');
    }
    match why.contains(char::is_control) {
        true => why.escape_debug().to_string(),
        false => why,
    }
}

/// A sha256 by the words of these documents; the error says what is there instead.
pub(super) fn sha256(kind: &str, text: &str) -> Result<Digest, String> {
    if kind != "sha256" {
        return Err(format!("its checksum is {kind}, and only sha256 is trusted"));
    }
    Digest::from_hex(&text.trim().to_ascii_lowercase()).map_err(|e| e.to_string())
}

/// A reader that gives no more than what is left, until it is refilled.
struct Metered<R> {
    inner: R,
    left: Rc<Cell<usize>>,
}

impl<R: BufRead> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Metered<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left.get() == 0 {
            let why = format!("a tag or a text is longer than {PIECE} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let bytes = self.inner.fill_buf()?;
        Ok(&bytes[..bytes.len().min(self.left.get())])
    }

    fn consume(&mut self, amount: usize) {
        self.left.set(self.left.get().saturating_sub(amount));
        self.inner.consume(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<usize, DocumentError> {
        let mut document = Document::new("x.xml", "x", text.as_bytes());
        let mut length = 0;
        loop {
            match document.next()? {
                Node::Text(more) => length += more.len(),
                Node::End => return Ok(length),
                _ => {}
            }
        }
    }

    #[test]
    fn a_text_in_many_pieces_is_no_longer_than_one_in_a_piece() {
        let piece = format!("{}<!-- -->&amp;", "a".repeat(1 << 20));
        assert_eq!(read(&format!("<x>{}</x>", piece.repeat(3))), Ok(3 * ((1 << 20) + 1)));
        let error = read(&format!("<x>{}</x>", piece.repeat(4))).unwrap_err();
        assert!(error.why.contains("a text is longer than 4194304 bytes"), "{error}");
        // Each tag begins another one.
        assert!(read(&format!("<x>{}</x>", format!("<y>{piece}</y>").repeat(5))).is_ok());
    }

    #[test]
    fn elements_that_lie_in_each_other_without_end_are_refused() {
        let nested = |depth: usize| format!("<x>{}{}</x>", "<y>".repeat(depth), "</y>".repeat(depth));
        assert!(read(&nested(DEPTH - 1)).is_ok());
        let error = read(&nested(DEPTH)).unwrap_err();
        assert!(error.why.contains("more than 64 deep"), "{error}");
    }

    #[test]
    fn an_error_quotes_a_document_on_one_line_and_not_all_of_it() {
        let error = read(&format!("<y\u{1b}[2J{}/>", "z".repeat(1 << 20))).unwrap_err();
        assert!(error.why.len() < 2 * SHOWN && !error.why.contains('\u{1b}'), "{}", error.why.len());
    }
}
