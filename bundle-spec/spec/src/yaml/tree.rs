//! YAML text as a tree that knows where each node is. Anchors, aliases and merge keys are resolved; a key given twice,
//! a tag that is not YAML's own, several documents and anything too deep or too large are problems.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::problem::{Problem, ProblemKind, Problems};

/// Deeper nesting is refused: no format of KubeXM has a third of it.
const MAX_DEPTH: usize = 64;
/// More nodes, aliases counted as what they stand for, are refused.
const MAX_NODES: usize = 100_000;
/// More bytes of texts and keys are refused, aliases counted as what they stand for.
const MAX_BYTES: usize = 16 << 20;
/// A longer key is refused.
const MAX_KEY: usize = 512;
/// The keys above a node have no more bytes together: who reads the tree names each node by them.
const MAX_PATH: usize = 2048;
/// What an index counts for in a path: `[99999]`.
const INDEX: usize = 7;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// What it is.
    pub data: Data,
}

/// The kind and content of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// A scalar. A plain one may be meant as a number, a truth value or nothing; a quoted one is text.
    Scalar {
        /// After escapes.
        text: String,
        /// Written without quotes.
        plain: bool,
    },
    /// A list.
    Sequence(Vec<Node>),
    /// Keys in the order of the file, merged ones last; no key twice.
    Mapping(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub text: String,
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
}

impl Node {
    /// `null`, `~` or nothing at all.
    pub fn is_null(&self) -> bool {
        matches!(&self.data, Data::Scalar { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }
}

/// Reads one document. Fails with the first problem that leaves no tree, or with all keys that are given twice.
pub fn parse(text: &str) -> Result<Node, Problems> {
    let mut builder = Builder {
        parser: Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text)),
        anchors: HashMap::new(),
        nodes: 0,
        bytes: 0,
        held: (0, 0),
        longest: 0,
        twice: Vec::new(),
    };
    match builder.document() {
        Ok(root) if builder.twice.is_empty() => Ok(root),
        Ok(_) => Err(Problems(builder.twice)),
        Err(problem) => {
            let mut all = builder.twice;
            all.push(*problem);
            Err(Problems(all))
        }
    }
}

struct Builder<'input> {
    parser: Parser<'input, StrInput<'input>>,
    anchors: HashMap<usize, Anchored>,
    nodes: usize,
    bytes: usize,
    /// The values and bytes that anchors keep for aliases.
    held: (usize, usize),
    /// The longest path so far, in bytes.
    longest: usize,
    twice: Vec<Problem>,
}

/// What an alias stands for, and what it costs: values, bytes of texts, and the longest path in it.
struct Anchored {
    node: Node,
    nodes: usize,
    bytes: usize,
    longest: usize,
}

type Step<T> = Result<T, Box<Problem>>;

impl<'input> Builder<'input> {
    fn next(&mut self) -> Step<(Event<'input>, Span)> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(scan_problem(&error)),
            None => Err(syntax(Span::default(), "the file ends too early")),
        }
    }

    fn document(&mut self) -> Step<Node> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(syntax(span, "a second document begins here: one file holds one"));
                }
                Event::DocumentStart(..) => {
                    let (event, span) = self.content()?;
                    root = Some(self.node(event, span, 0, 0)?);
                }
                _ => {}
            }
        }
        root.filter(|node| !node.is_null()).ok_or_else(|| syntax(Span::default(), "the file is empty"))
    }

    /// The next event that is no comment and no other trimming.
    fn content(&mut self) -> Step<(Event<'input>, Span)> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::Scalar(..)
                | Event::SequenceStart(..)
                | Event::MappingStart(..)
                | Event::SequenceEnd
                | Event::MappingEnd
                | Event::Alias(_) => return Ok((event, span)),
                Event::DocumentEnd | Event::StreamEnd => return Err(syntax(span, "the file ends too early")),
                _ => {}
            }
        }
    }

    /// `path`: how many bytes the keys above it have.
    fn node(&mut self, event: Event<'input>, span: Span, depth: usize, path: usize) -> Step<Node> {
        if depth > MAX_DEPTH {
            return Err(syntax(span, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.count(1, 0, span)?;
        self.reach(path, span)?;
        let (nodes, bytes, longest) = (self.nodes, self.bytes, std::mem::replace(&mut self.longest, path));
        let (data, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let text_tag = check_tag(tag.as_deref(), span, "str")?;
                let plain = style == ScalarStyle::Plain && !text_tag;
                self.count(0, text.len(), span)?;
                (Data::Scalar { text: text.into_owned(), plain }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                check_tag(tag.as_deref(), span, "seq")?;
                let mut items = Vec::new();
                loop {
                    let (event, span) = self.content()?;
                    if event == Event::SequenceEnd {
                        break;
                    }
                    items.push(self.node(event, span, depth + 1, path + INDEX)?);
                }
                (Data::Sequence(items), anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                check_tag(tag.as_deref(), span, "map")?;
                (Data::Mapping(self.mapping(depth, path)?), anchor)
            }
            Event::Alias(id) => {
                let Some(&Anchored { nodes, bytes, longest: inside, .. }) = self.anchors.get(&id) else {
                    return Err(syntax(span, "this alias is inside the anchor it names"));
                };
                // Before anything is copied.
                self.count(nodes, bytes, span)?;
                self.reach(path + inside, span)?;
                self.longest = self.longest.max(longest);
                let (line, column) = place(span);
                let data = self.anchors.get(&id).map(|anchored| anchored.node.data.clone());
                let data = data.ok_or_else(|| syntax(span, "expected a value"))?;
                return Ok(Node { line, column, data });
            }
            _ => return Err(syntax(span, "expected a value")),
        };
        let (line, column) = place(span);
        let node = Node { line, column, data };
        if anchor != 0 {
            let (nodes, bytes) = (self.nodes - nodes + 1, self.bytes - bytes);
            // It is a copy, too; anchors within anchors are copies of copies.
            self.held = (self.held.0.saturating_add(nodes), self.held.1.saturating_add(bytes));
            within(self.held, span)?;
            let longest = self.longest - path;
            self.anchors.insert(anchor, Anchored { node: node.clone(), nodes, bytes, longest });
        }
        self.longest = self.longest.max(longest);
        Ok(node)
    }

    fn mapping(&mut self, depth: usize, path: usize) -> Step<Vec<(Key, Node)>> {
        let mut own: Vec<(Key, Node)> = Vec::new();
        // Each key's line: a search in the list would compare each key with all others.
        let mut lines: HashMap<String, usize> = HashMap::new();
        let mut merged: Vec<(Key, Node)> = Vec::new();
        let mut merged_keys: HashSet<String> = HashSet::new();
        loop {
            let (event, span) = self.content()?;
            if event == Event::MappingEnd {
                break;
            }
            let key = self.node(event, span, depth + 1, path)?;
            let Data::Scalar { text, plain } = key.data else {
                return Err(syntax(span, "a key must be text"));
            };
            if text.len() > MAX_KEY {
                return Err(syntax(span, format!("a key of more than {MAX_KEY} bytes")));
            }
            let (event, value_span) = self.content()?;
            let value = self.node(event, value_span, depth + 1, path + text.len() + 1)?;
            if plain && text == "<<" {
                merge(&mut merged, &mut merged_keys, value, value_span)?;
                continue;
            }
            if let Some(first) = lines.get(&text) {
                let found = format!("the key {text:?} is here again, first in line {first}");
                self.twice.push(*syntax(span, found));
            } else {
                lines.insert(text.clone(), key.line);
                own.push((Key { text, line: key.line, column: key.column }, value));
            }
        }
        for (key, value) in merged {
            if !lines.contains_key(&key.text) {
                own.push((key, value));
            }
        }
        Ok(own)
    }

    fn count(&mut self, nodes: usize, bytes: usize, span: Span) -> Step<()> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        within((self.nodes, self.bytes), span)
    }

    /// A node is at a path of so many bytes.
    fn reach(&mut self, path: usize, span: Span) -> Step<()> {
        self.longest = self.longest.max(path);
        match path > MAX_PATH {
            true => Err(syntax(span, format!("the keys above this have more than {MAX_PATH} bytes together"))),
            false => Ok(()),
        }
    }
}

/// So many values and bytes are not too many.
fn within((nodes, bytes): (usize, usize), span: Span) -> Step<()> {
    if nodes > MAX_NODES {
        return Err(syntax(span, format!("more than {MAX_NODES} values, aliases counted as what they stand for")));
    }
    if bytes > MAX_BYTES {
        let most = MAX_BYTES >> 20;
        return Err(syntax(span, format!("more than {most} MiB of text, aliases counted as what they stand for")));
    }
    Ok(())
}

/// `<<: *a` or `<<: [*a, *b]` (YAML 1.1 merge key): earlier ones win.
fn merge(into: &mut Vec<(Key, Node)>, known: &mut HashSet<String>, value: Node, span: Span) -> Step<()> {
    let parts = match value.data {
        Data::Sequence(parts) => parts,
        data => vec![Node { data, ..value }],
    };
    for part in parts {
        let Data::Mapping(entries) = part.data else {
            return Err(syntax(span, "`<<` takes a mapping, or a list of mappings"));
        };
        for (key, value) in entries {
            if known.insert(key.text.clone()) {
                into.push((key, value));
            }
        }
    }
    Ok(())
}

/// Whether the tag says "text"; tags that are not YAML's own for the kind of node are refused.
fn check_tag(tag: Option<&Tag>, span: Span, kind: &str) -> Step<bool> {
    let Some(tag) = tag else { return Ok(false) };
    match tag.core_suffix() {
        Some(suffix) if suffix == kind => Ok(kind == "str"),
        Some("int" | "float" | "bool" | "null") if kind == "str" => Ok(false),
        _ => Err(syntax(span, format!("the tag {} means nothing here", tag.original()))),
    }
}

fn place(span: Span) -> (usize, usize) {
    (span.start.line().max(1), span.start.col() + 1)
}

fn syntax(span: Span, text: impl Into<String>) -> Box<Problem> {
    let (line, column) = place(span);
    Box::new(Problem {
        line,
        column,
        path: String::new(),
        kind: ProblemKind::Syntax,
        text: text.into(),
        hint: String::new(),
    })
}

fn scan_problem(error: &ScanError) -> Box<Problem> {
    let marker = error.marker();
    syntax(Span::empty(*marker), format!("this is not YAML: {}", error.info()))
}
