//! YAML streams of others: what helm prints, and YAML add-ons. Split as kubectl does, at lines of `---`, and read within limits. What
//! helm and Kubernetes would read otherwise is refused.

use serde_json::{Map, Value};
use serde_saphyr::Options;
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::alike::{self, is_empty, is_separator};

/// The most bytes of one stream.
pub const STREAM_LIMIT: u64 = 64 << 20;
/// The most documents in it.
const DOCUMENTS_LIMIT: usize = 20_000;
/// The most values in one document; a CRD has thousands.
const NODES_LIMIT: usize = 500_000;
/// The most values in one stream: all of an operator with its CRDs has some hundred thousand.
const STREAM_NODES_LIMIT: usize = 1_000_000;

/// The most bytes of texts and keys in one stream, aliases counted as what they stand for.
const STREAM_BYTES_LIMIT: usize = 64 << 20;

/// What may still be read of a stream, or of several that one document holds.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    documents: usize,
    values: usize,
    bytes: usize,
    /// Values that aliases stand for, in each document.
    replayed: usize,
    /// What helm and Kubernetes would read otherwise is refused.
    is_strict: bool,
}

impl Default for Room {
    fn default() -> Self {
        Self::of(STREAM_BYTES_LIMIT)
    }
}

impl Room {
    /// For so many bytes of texts and keys.
    pub const fn of(bytes: usize) -> Self {
        Self { documents: DOCUMENTS_LIMIT, values: STREAM_NODES_LIMIT, bytes, replayed: REPLAY_LIMIT, is_strict: true }
    }

    /// For all texts within objects that are read as YAML in their turn. One that is none in the end costs time and takes no room, so
    /// that aliases stand for less: configurations that have any repeat some ten values. Who reads them in the end is not known.
    pub fn nested() -> Self {
        Self { replayed: 2_000, ..Self::default() }.as_it_is()
    }

    /// For what is in a cluster already: it is looked at and removed, however others read it.
    #[must_use]
    pub const fn as_it_is(mut self) -> Self {
        self.is_strict = false;
        self
    }

    /// Takes what a document has; false if there is less room.
    fn take(&mut self, value: &Value) -> bool {
        let (values, bytes) = count(value);
        let (left, left_bytes) = (self.values.checked_sub(values), self.bytes.checked_sub(bytes));
        (self.values, self.bytes) = (left.unwrap_or_default(), left_bytes.unwrap_or_default());
        left.is_some() && left_bytes.is_some()
    }
}

/// A document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The template it comes from, or its number.
    pub place: String,
    /// What the parser says, on one line.
    pub problem: String,
}

/// Every document of a stream that is not empty.
pub fn read(text: &str) -> Result<Vec<Value>, Unreadable> {
    read_within(text, &mut Room::default())
}

/// As [`read`], of a stream that shares its room with others.
pub fn read_within(text: &str, room: &mut Room) -> Result<Vec<Value>, Unreadable> {
    let mut all = Vec::new();
    if room.is_strict {
        alike::lines(text).map_err(|(at, problem)| Unreadable { place: place_before(&text[..at]), problem })?;
    }
    for (index, document) in split(text).into_iter().enumerate() {
        let wrong = |problem: String| Unreadable { place: place(document, index), problem };
        let Some(documents) = room.documents.checked_sub(1) else {
            return Err(wrong(format!("the stream has more than {DOCUMENTS_LIMIT} documents")));
        };
        room.documents = documents;
        // The parser stops where the room ends, and not after it has read the document.
        let is_short = room.values < NODES_LIMIT || room.bytes < STREAM_BYTES_LIMIT;
        let full = || format!("the stream has more than {STREAM_NODES_LIMIT} values, or too many bytes of text");
        let read = one_within(document, room).map_err(|problem| match is_short && problem.contains("budget") {
            true => wrong(full()),
            false => wrong(problem),
        })?;
        if room.is_strict {
            alike::nodes(document).map_err(wrong)?;
        }
        match read {
            Value::Null => {}
            value if !room.take(&value) => return Err(wrong(full())),
            value => all.push(value),
        }
    }
    Ok(all)
}

/// The values of a document, itself among them, and the bytes of its texts and keys.
fn count(value: &Value) -> (usize, usize) {
    let sum = |(values, bytes): (usize, usize), (more, length)| (values + more, bytes + length);
    match value {
        Value::Array(items) => items.iter().map(count).fold((1, 0), sum),
        Value::Object(map) => map.iter().fold((1, 0), |all, (key, value)| sum(sum(all, (0, key.len())), count(value))),
        Value::String(text) => (1, text.len()),
        _ => (1, 0),
    }
}

/// One document; nothing but comments is null.
pub fn one(text: &str) -> Result<Value, String> {
    one_within(text, &Room::default())
}

fn one_within(text: &str, room: &Room) -> Result<Value, String> {
    if text.lines().all(is_empty) {
        return Ok(Value::Null);
    }
    let read: Option<Value> = serde_saphyr::from_str_with_options(text, options(room)).map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().to_owned()
    })?;
    Ok(read.unwrap_or(Value::Null))
}

/// A map of values; nothing at all is an empty one.
pub fn values(text: &str) -> Result<Map<String, Value>, String> {
    match one(text)? {
        Value::Object(values) => Ok(values),
        Value::Null => Ok(Map::new()),
        _ => Err("it is not a map of values".to_owned()),
    }
}

/// How many values aliases may stand for in one document.
const REPLAY_LIMIT: usize = 50_000;

/// As Go's YAML reads for helm and kubectl: of a key given twice the last holds, `0644` is octal.
fn options(room: &Room) -> Options {
    let budget = serde_saphyr::budget! {
        max_nodes: NODES_LIMIT.min(room.values),
        max_events: 4 * NODES_LIMIT,
        max_documents: 2,
        max_total_scalar_bytes: room.bytes,
    };
    serde_saphyr::options! {
        budget: budget,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: room.replayed },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

/// The texts between lines that begin with `---` (k8s.io/apimachinery, util/yaml: `\n---`).
fn split(text: &str) -> Vec<&str> {
    let (mut all, mut from, mut at) = (Vec::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        if line.strip_prefix("---").is_some_and(is_separator) {
            all.push(&text[from..at]);
            from = at + line.len();
        }
        at += line.len();
    }
    all.push(&text[from..]);
    all.retain(|document| !document.trim().is_empty());
    all
}

/// `# Source: web/templates/a.yaml`, as helm writes before each template's documents.
fn place(document: &str, index: usize) -> String {
    let source = document.lines().find_map(source_of);
    source.map_or_else(|| format!("document {}", index + 1), str::to_owned)
}

/// The place of what follows this part of a stream.
fn place_before(text: &str) -> String {
    text.lines().rev().find_map(source_of).unwrap_or("the stream").to_owned()
}

fn source_of(line: &str) -> Option<&str> {
    line.strip_prefix("# Source: ").map(str::trim)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stream_is_read_document_by_document_and_empty_ones_are_left_out() {
        let text =
            "# only a comment\n---\n# Source: web/a.yaml\na: 1\na: 2\n--- # more\n\n---\ntext: |\n  x\n  ---\n  y\n";
        assert_eq!(read(text).unwrap(), [json!({"a": 2}), json!({"text": "x\n---\ny\n"})]);
    }

    #[test]
    fn what_cannot_be_read_is_named_by_its_template() {
        let error = read("a: b\n---\n# Source: web/templates/bad.yaml\na: [1\n").unwrap_err();
        assert_eq!(error.place, "web/templates/bad.yaml");
        assert!(read("a: b\n---\n\"\n").unwrap_err().place.starts_with("document 2"));
    }

    #[test]
    fn bombs_are_refused_within_the_limits() {
        let mut aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let last = level - 1;
            aliases.push_str(&format!("a{level}: &a{level} [{}]\n", format!("*a{last}, ").repeat(10)));
        }
        assert!(read(&aliases).is_err());
        assert!(read(&"[".repeat(100_000)).is_err());
        let many = format!("---\n[{}0]\n", "0, ".repeat(400_000)).repeat(3);
        assert!(read(&many).unwrap_err().problem.contains("1000000 values"));
        assert!(read(&"{a: ".repeat(100_000)).is_err());
    }

    #[test]
    fn texts_that_aliases_repeat_count_each_time_over_all_documents() {
        let text = "x".repeat(8 << 10);
        let anchors: String = (0..20).map(|at| format!("&b{at} 1, ")).collect();
        let document = format!("---\nx: &a \"{text}\"\ny: [{anchors}{}]\n", "*a, ".repeat(200));
        // Some 1.6 MiB each.
        assert_eq!(read(&document.repeat(10)).unwrap().len(), 10);
        assert!(read(&document.repeat(60)).unwrap_err().problem.contains("too many bytes"));
        let mut room = Room::of(4 << 20);
        assert!(read_within(&document, &mut room).is_ok() && read_within(&document, &mut room).is_ok());
        assert!(read_within(&document, &mut room).is_err());
    }

    #[test]
    fn values_are_a_map_or_nothing() {
        assert_eq!(values("").unwrap(), Map::new());
        assert_eq!(values("# x\n").unwrap(), Map::new());
        assert_eq!(Value::Object(values("mode: 0644\n").unwrap()), json!({"mode": 420}));
        assert!(values("- a\n").is_err());
    }
}
