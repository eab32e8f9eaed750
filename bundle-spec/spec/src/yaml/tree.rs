//! YAML text as a tree that knows where each node is. Anchors, aliases and merge keys are resolved; a key given twice,
//! a tag that is not YAML's own, several documents and anything too deep or too large are problems.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::problem::{Problem, ProblemKind, Problems};

/// Deeper nesting is refused: no format of KubeXM has a third of it.
const MAX_DEPTH: usize = 64;
/// More nodes, aliases counted as what they stand for, are refused.
const MAX_NODES: usize = 100_000;

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
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
    twice: Vec<Problem>,
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
                    root = Some(self.node(event, span, 0)?);
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

    fn node(&mut self, event: Event<'input>, span: Span, depth: usize) -> Step<Node> {
        if depth > MAX_DEPTH {
            return Err(syntax(span, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.count(1, span)?;
        let before = self.nodes;
        let (data, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let text_tag = check_tag(tag.as_deref(), span, "str")?;
                let plain = style == ScalarStyle::Plain && !text_tag;
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
                    items.push(self.node(event, span, depth + 1)?);
                }
                (Data::Sequence(items), anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                check_tag(tag.as_deref(), span, "map")?;
                (Data::Mapping(self.mapping(depth)?), anchor)
            }
            Event::Alias(id) => {
                let Some((target, size)) = self.anchors.get(&id).cloned() else {
                    return Err(syntax(span, "this alias is inside the anchor it names"));
                };
                self.count(size, span)?;
                let (line, column) = place(span);
                return Ok(Node { line, column, data: target.data });
            }
            _ => return Err(syntax(span, "expected a value")),
        };
        let (line, column) = place(span);
        let node = Node { line, column, data };
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), self.nodes - before + 1));
        }
        Ok(node)
    }

    fn mapping(&mut self, depth: usize) -> Step<Vec<(Key, Node)>> {
        let mut own: Vec<(Key, Node)> = Vec::new();
        let mut merged: Vec<(Key, Node)> = Vec::new();
        loop {
            let (event, span) = self.content()?;
            if event == Event::MappingEnd {
                break;
            }
            let key = self.node(event, span, depth + 1)?;
            let Data::Scalar { text, plain } = key.data else {
                return Err(syntax(span, "a key must be text"));
            };
            let (event, value_span) = self.content()?;
            let value = self.node(event, value_span, depth + 1)?;
            if plain && text == "<<" {
                merge(&mut merged, value, value_span)?;
                continue;
            }
            if let Some((first, _)) = own.iter().find(|(known, _)| known.text == text) {
                let found = format!("the key {text:?} is here again, first in line {}", first.line);
                self.twice.push(*syntax(span, found));
            } else {
                own.push((Key { text, line: key.line, column: key.column }, value));
            }
        }
        for (key, value) in merged {
            if !own.iter().any(|(known, _)| known.text == key.text) {
                own.push((key, value));
            }
        }
        Ok(own)
    }

    fn count(&mut self, more: usize, span: Span) -> Step<()> {
        self.nodes = self.nodes.saturating_add(more);
        if self.nodes > MAX_NODES {
            return Err(syntax(span, format!("more than {MAX_NODES} values, aliases counted as what they stand for")));
        }
        Ok(())
    }
}

/// `<<: *a` or `<<: [*a, *b]` (YAML 1.1 merge key): earlier ones win.
fn merge(into: &mut Vec<(Key, Node)>, value: Node, span: Span) -> Step<()> {
    let parts = match value.data {
        Data::Sequence(parts) => parts,
        data => vec![Node { data, ..value }],
    };
    for part in parts {
        let Data::Mapping(entries) = part.data else {
            return Err(syntax(span, "`<<` takes a mapping, or a list of mappings"));
        };
        for (key, value) in entries {
            if !into.iter().any(|(known, _)| known.text == key.text) {
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
