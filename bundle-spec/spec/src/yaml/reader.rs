//! Walking a tree: what a reader expects, and what it did not find.

use std::ops::RangeInclusive;

use super::problem::{Problem, ProblemKind, near, nearest};
use super::shape::{Field, Object};
use super::sink::Sink;
use super::tree::{Data, Key, Node};
use crate::keywords::Keyword;

/// What knows the keys of one mapping of a format.
pub trait Known {
    /// All of them.
    fn known(&self) -> Vec<&'static str>;

    /// The key below which this one is known.
    fn parent_of(&self, _: &str) -> Option<&'static str> {
        None
    }
}

/// The keys of one mapping, where nothing more is said of them than their names.
#[derive(Clone, Copy, Debug)]
pub struct Keys(&'static [&'static str]);

impl Keys {
    /// Keys that are all read.
    pub const fn all(known: &'static [&'static str]) -> Self {
        Self(known)
    }
}

impl Known for Keys {
    fn known(&self) -> Vec<&'static str> {
        self.0.to_vec()
    }
}

impl Known for Object {
    fn known(&self) -> Vec<&'static str> {
        self.keys().collect()
    }

    fn parent_of(&self, key: &str) -> Option<&'static str> {
        let has = |field: &&Field| field.shape.object().is_some_and(|object| object.field(key).is_some());
        self.fields.iter().find(has).map(|field| field.name)
    }
}

/// A node, the path to it, and the sink for its problems.
#[derive(Clone, Debug)]
pub struct At<'a> {
    node: &'a Node,
    path: String,
    sink: &'a Sink,
}

/// A mapping whose keys have been checked.
#[derive(Clone, Debug)]
pub struct Mapping<'a> {
    at: At<'a>,
    entries: &'a [(Key, Node)],
}

impl<'a> At<'a> {
    /// The root of a tree.
    pub const fn root(node: &'a Node, sink: &'a Sink) -> Self {
        Self { node, path: String::new(), sink }
    }

    /// Where it is in the document, `spec.hosts[0].name`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Counted from 1.
    pub const fn line(&self) -> usize {
        self.node.line
    }

    /// Notes a problem of this node.
    pub fn fail(&self, kind: ProblemKind, text: impl Into<String>, hint: impl Into<String>) {
        self.sink.push(Problem {
            line: self.node.line,
            column: self.node.column,
            path: self.path.clone(),
            kind,
            text: text.into(),
            hint: hint.into(),
        });
    }

    /// Notes a bad value.
    pub fn bad(&self, text: impl Into<String>, hint: impl Into<String>) {
        self.fail(ProblemKind::BadValue, text, hint);
    }

    fn wrong_type(&self, wanted: &str) {
        let found = match &self.node.data {
            Data::Scalar { text, plain: true } if self.node.is_null() => format!("nothing ({text:?})"),
            // It may be a secret, and says nothing about the mapping that is missing.
            Data::Scalar { .. } if wanted.starts_with("a mapping") => "a text".to_owned(),
            Data::Scalar { text, .. } => format!("{text:?}"),
            Data::Sequence(_) => "a list".to_owned(),
            Data::Mapping(_) => "a mapping".to_owned(),
        };
        self.fail(ProblemKind::WrongType, format!("expected {wanted}, got {found}"), "");
    }

    /// Whether so many problems were noted that those that come now are only counted: they need no hint.
    pub fn is_full(&self) -> bool {
        self.sink.is_full()
    }

    /// Counts names that a range of this file stands for; an error says that they are too many for one file.
    pub fn stand_for(&self, names: usize) -> Result<(), String> {
        self.sink.stand_for(names)
    }

    /// Whether there is no value.
    pub fn is_nothing(&self) -> bool {
        self.node.is_null()
    }

    /// Whether the node is a list.
    pub const fn is_list(&self) -> bool {
        matches!(self.node.data, Data::Sequence(_))
    }

    /// Whether the node is a mapping.
    pub const fn is_mapping(&self) -> bool {
        matches!(self.node.data, Data::Mapping(_))
    }

    /// A text. Numbers are taken as they are written; truth values and nothing are refused.
    pub fn text(&self) -> Option<&'a str> {
        match &self.node.data {
            Data::Scalar { text, plain } if !(*plain && (self.node.is_null() || truth(text).is_some())) => Some(text),
            _ => {
                self.wrong_type("a text");
                None
            }
        }
    }

    /// A text made into a value by `read`; its refusal becomes a bad value.
    pub fn parsed<T>(&self, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        match read(self.text()?) {
            Ok(value) => Some(value),
            Err(text) => {
                self.bad(text, "");
                None
            }
        }
    }

    /// Notes a login in an address (`https://user:password@host/…`, `…?token=…`): addresses stand in lock, manifest and
    /// logs. Whether there was one.
    pub fn holds_login(&self) -> bool {
        let Data::Scalar { text, .. } = &self.node.data else { return false };
        let address = text.split_once("://").map_or(text.as_str(), |(_, rest)| rest);
        let what = if address.split(['/', '?', '#']).next().is_some_and(|host| host.contains('@')) {
            "a login is".to_owned()
        } else if let Some(name) = secret_parameter(address) {
            format!("what looks like a key ({name}=…) is")
        } else {
            return false;
        };
        let hint = "use an origin without login, or fetch it yourself and give its path";
        self.fail(ProblemKind::InlineSecret, format!("{what} in an address that travels in the bundle"), hint);
        true
    }

    /// A whole number within bounds.
    pub fn number(&self, bounds: RangeInclusive<u32>) -> Option<u32> {
        let Data::Scalar { text, plain: true } = &self.node.data else {
            self.wrong_type("a number");
            return None;
        };
        match text.parse() {
            Ok(number) if bounds.contains(&number) => Some(number),
            Ok(_) => {
                self.bad(format!("{text} is outside {} to {}", bounds.start(), bounds.end()), "");
                None
            }
            Err(_) => {
                self.wrong_type("a number");
                None
            }
        }
    }

    /// `true` or `false`.
    pub fn boolean(&self) -> Option<bool> {
        let found = match &self.node.data {
            Data::Scalar { text, plain: true } => truth(text),
            _ => None,
        };
        if found.is_none() {
            self.wrong_type("true or false");
        }
        found
    }

    /// One of the words of a choice.
    pub fn word<T: Keyword>(&self) -> Option<T> {
        let text = self.text()?;
        let found = T::of_word(text);
        if found.is_none() {
            let hint = || {
                let near: Vec<&str> = nearest(text, T::WORDS.iter().copied()).into_iter().take(3).collect();
                format!("nearest known: {}", near.join(", "))
            };
            self.bad(format!("{text:?} is not known here"), if self.is_full() { String::new() } else { hint() });
        }
        found
    }

    /// The items of a list.
    pub fn list(&self) -> Vec<At<'a>> {
        let Data::Sequence(items) = &self.node.data else {
            self.wrong_type("a list");
            return Vec::new();
        };
        items
            .iter()
            .enumerate()
            .map(|(index, node)| At { node, path: format!("{}[{index}]", self.path), sink: self.sink })
            .collect()
    }

    /// A list of texts.
    pub fn texts(&self) -> Vec<String> {
        self.list().iter().filter_map(|item| item.text()).map(str::to_owned).collect()
    }

    /// A mapping with no keys but these.
    pub fn mapping(&self, keys: &impl Known) -> Option<Mapping<'a>> {
        let mapping = self.open_mapping()?;
        let known = keys.known();
        for (key, _) in mapping.entries.iter().filter(|(key, _)| !known.contains(&key.text.as_str())) {
            let hint = match keys.parent_of(&key.text) {
                _ if self.is_full() => String::new(),
                Some(parent) => format!("it belongs below {}", join(&self.path, parent)),
                None => near(&key.text, &known).map(|near| format!("did you mean {near}?")).unwrap_or_default(),
            };
            self.sink.push(Problem {
                line: key.line,
                column: key.column,
                path: join(&self.path, &key.text),
                kind: ProblemKind::UnknownKey,
                text: format!("unknown field {:?}", key.text),
                hint,
            });
        }
        Some(mapping)
    }

    /// A mapping whose keys are names of the user's.
    pub fn open_mapping(&self) -> Option<Mapping<'a>> {
        let Data::Mapping(entries) = &self.node.data else {
            self.wrong_type("a mapping");
            return None;
        };
        Some(Mapping { at: self.clone(), entries })
    }

    /// A scalar's text without noting a problem, for a second look at what was read before.
    pub fn text_quiet(&self) -> Option<&'a str> {
        match &self.node.data {
            Data::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// A mapping without noting a problem, for a second look at what was read before.
    pub fn open_mapping_quiet(&self) -> Option<Mapping<'a>> {
        match &self.node.data {
            Data::Mapping(entries) => Some(Mapping { at: self.clone(), entries }),
            _ => None,
        }
    }

    /// The node as JSON: plain scalars by YAML 1.2's core schema (section 10.3.2), quoted ones as text.
    pub fn json(&self) -> serde_json::Value {
        json(self.node)
    }
}

impl<'a> Mapping<'a> {
    /// The value of a key; none when the key is not there, or has nothing.
    pub fn get(&self, name: &str) -> Option<At<'a>> {
        self.find(name).filter(|at| !at.node.is_null())
    }

    /// The value of a key that must be there.
    pub fn need(&self, name: &str) -> Option<At<'a>> {
        let found = self.get(name);
        if found.is_none() {
            self.at.fail(ProblemKind::Missing, format!("{name:?} is missing"), "");
        }
        found
    }

    /// Whether the key is there, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Keys and values in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, At<'a>)> {
        self.entries.iter().map(|(key, node)| (key.text.as_str(), self.child(key, node)))
    }

    /// The mapping's own place.
    pub const fn at(&self) -> &At<'a> {
        &self.at
    }

    fn find(&self, name: &str) -> Option<At<'a>> {
        self.entries.iter().find(|(key, _)| key.text == name).map(|(key, node)| self.child(key, node))
    }

    fn child(&self, key: &Key, node: &'a Node) -> At<'a> {
        At { node, path: join(&self.at.path, &key.text), sink: self.at.sink }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

fn json(node: &Node) -> serde_json::Value {
    use serde_json::Value;
    match &node.data {
        Data::Sequence(items) => Value::Array(items.iter().map(json).collect()),
        Data::Mapping(entries) => {
            Value::Object(entries.iter().map(|(key, node)| (key.text.clone(), json(node))).collect())
        }
        Data::Scalar { text, plain } if *plain => {
            if node.is_null() {
                return Value::Null;
            }
            if let Some(found) = truth(text) {
                return Value::Bool(found);
            }
            number(text).map_or_else(|| Value::String(text.clone()), Value::Number)
        }
        Data::Scalar { text, .. } => Value::String(text.clone()),
    }
}

fn number(text: &str) -> Option<serde_json::Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    if let Ok(whole) = text.parse::<u64>() {
        return Some(whole.into());
    }
    text.parse().ok().filter(|n: &f64| n.is_finite()).and_then(serde_json::Number::from_f64)
}

/// Words of names of parameters whose values let somebody in: tokens, keys, and the signatures of signed addresses (S3, Azure,
/// Google).
const SECRET_WORDS: [&str; 13] = [
    "accesskey",
    "accesskeyid",
    "apikey",
    "auth",
    "credential",
    "jwt",
    "key",
    "password",
    "passwd",
    "secret",
    "sig",
    "signature",
    "token",
];

/// The first parameter of an address's query that is named like a secret.
fn secret_parameter(address: &str) -> Option<&str> {
    let query = address.split_once('?')?.1.split('#').next()?;
    query.split(['&', ';']).filter_map(|pair| Some(pair.split_once('=')?.0)).find(|name| {
        let name = name.to_ascii_lowercase();
        name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
            SECRET_WORDS.contains(&word) || word.strip_prefix("aws").is_some_and(|word| SECRET_WORDS.contains(&word))
        }) || name.ends_with("token")
            || name.ends_with("password")
    })
}
