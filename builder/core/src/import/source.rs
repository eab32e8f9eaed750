//! A foreign YAML file that records which fields were read: the others are reported.

use std::cell::RefCell;
use std::collections::HashMap;

use kubexm_spec::yaml::{Data, Node};

use super::left::Left;
use super::yaml::{Map, Origin, Yaml};
use super::{scalar, secrets};

/// The default reason for a field without an equivalent in cluster.yaml.
const NO_FIELD: &str = "cluster.yaml has no field for it";

/// What became of places, by the address of their node: a path may be spelt in two ways.
type Seen = RefCell<HashMap<usize, Fate>>;

/// What became of a place.
#[derive(Default)]
struct Fate {
    /// It is carried over, with what is in it.
    taken: bool,
    /// The note about it.
    reasons: Vec<String>,
    /// What is said of it besides: what is in it is reported by itself all the same.
    notes: Vec<String>,
}

/// A file, and what became of its places.
pub struct Source<'a> {
    tree: &'a Node,
    seen: Seen,
}

/// A place in it.
#[derive(Clone)]
pub struct Place<'a> {
    path: String,
    /// Of the key, where it has one.
    line: usize,
    node: &'a Node,
    seen: &'a Seen,
}

impl<'a> Source<'a> {
    pub fn new(tree: &'a Node) -> Self {
        Self { tree, seen: RefCell::default() }
    }

    pub fn root(&'a self) -> Place<'a> {
        Place { path: String::new(), line: self.tree.line, node: self.tree, seen: &self.seen }
    }

    /// Everything that was not carried over, or that has a note.
    pub fn left(&'a self) -> Vec<Left> {
        let mut left = Vec::new();
        self.root().walk(false, &mut left);
        left
    }
}

impl<'a> Place<'a> {
    /// `reported`: what is above it was carried over or reported as a whole; of what is below only what was said of it by itself
    /// is added.
    fn walk(&self, reported: bool, left: &mut Vec<Left>) {
        let says = |reason: &str| Left { line: self.line, path: self.path.clone(), reason: reason.to_owned() };
        let (taken, silent) = {
            let seen = self.seen.borrow();
            let fate = seen.get(&key(self.node));
            left.extend(fate.iter().flat_map(|fate| fate.reasons.iter().chain(&fate.notes)).map(|reason| says(reason)));
            (fate.is_some_and(|fate| fate.taken), fate.is_none_or(|fate| fate.reasons.is_empty()))
        };
        let reported = reported || taken || !silent;
        match &self.node.data {
            Data::Mapping(_) => self.fields().iter().for_each(|(_, place)| place.walk(reported, left)),
            Data::Sequence(_) => self.items().iter().for_each(|place| place.walk(reported, left)),
            Data::Scalar { text, .. } => {
                if !reported && !self.node.is_null() && !text.is_empty() {
                    left.push(says(NO_FIELD));
                }
            }
        }
    }

    /// A field that says something; nothing is carried over by looking.
    pub fn get(&self, name: &str) -> Option<Self> {
        let Data::Mapping(entries) = &self.node.data else { return None };
        let (key, node) = entries.iter().find(|(key, _)| key.text == name)?;
        let empty = match &node.data {
            Data::Scalar { text, .. } => node.is_null() || text.is_empty(),
            Data::Sequence(items) => items.is_empty(),
            Data::Mapping(entries) => entries.is_empty(),
        };
        (!empty).then(|| Self { path: join(&self.path, name), line: key.line, node, seen: self.seen })
    }

    /// Several steps of [`Place::get`].
    pub fn at(&self, names: &[&str]) -> Option<Self> {
        names.iter().try_fold(self.clone(), |place, name| place.get(name))
    }

    /// Counted from 1.
    pub const fn line(&self) -> usize {
        self.line
    }

    /// As what is written remembers it.
    pub fn origin(&self) -> Origin {
        Origin { line: self.line, path: self.path.clone() }
    }

    /// Whether it is a block or a list.
    pub const fn is_block(&self) -> bool {
        !matches!(self.node.data, Data::Scalar { .. })
    }

    /// Its text, which is carried over with that.
    pub fn text(&self) -> Option<&'a str> {
        match &self.node.data {
            Data::Scalar { text, .. } if !self.node.is_null() => {
                self.taken();
                Some(text)
            }
            _ => None,
        }
    }

    /// A truth value, carried over; what is none is reported.
    pub fn truth(&self) -> Option<bool> {
        match scalar::value(self.node) {
            Some(Yaml::Bool(value)) => {
                self.taken();
                return Some(value);
            }
            Some(Yaml::Text(text)) if text == "true" || text == "false" => {
                self.taken();
                return Some(text == "true");
            }
            _ => self.leave("it is neither true nor false"),
        }
        None
    }

    /// Whether it says yes.
    pub fn is_true(&self) -> bool {
        self.truth() == Some(true)
    }

    /// A number, or a text of one; 0 counts as not set, like Go's zero value.
    pub fn number(&self) -> Option<u64> {
        let number = match scalar::value(self.node)? {
            Yaml::Int(number) => u64::try_from(number).ok(),
            Yaml::Text(text) => text.parse().ok(),
            _ => None,
        };
        match number {
            Some(_) => self.taken(),
            None => self.leave("it is not a whole number, or less than none"),
        }
        number.filter(|number| *number > 0)
    }

    /// Whether it is the number 0, which KubeKey treats as not set.
    pub fn is_zero(&self) -> bool {
        scalar::value(self.node) == Some(Yaml::Int(0))
    }

    /// Items of a list; a single text counts as a list of one.
    pub fn items(&self) -> Vec<Self> {
        match &self.node.data {
            Data::Sequence(items) => items
                .iter()
                .enumerate()
                .map(|(index, node)| Self {
                    path: format!("{}[{index}]", self.path),
                    line: node.line,
                    node,
                    seen: self.seen,
                })
                .collect(),
            Data::Scalar { .. } => vec![self.clone()],
            Data::Mapping(_) => Vec::new(),
        }
    }

    /// Texts of a list, carried over; each once.
    pub fn texts(&self) -> Vec<&'a str> {
        let mut all = Vec::new();
        for text in self.items().iter().filter_map(Self::text) {
            if !all.contains(&text) {
                all.push(text);
            }
        }
        all
    }

    /// Fields in the order of the file.
    pub fn fields(&self) -> Vec<(&'a str, Self)> {
        let Data::Mapping(entries) = &self.node.data else { return Vec::new() };
        let place = |name: &str, line, node| Self { path: join(&self.path, name), line, node, seen: self.seen };
        entries.iter().map(|(key, node)| (key.text.as_str(), place(&key.text, key.line, node))).collect()
    }

    /// What it is, as KubeKey understands it; carried over, but for what looks like a secret.
    pub fn raw(&self) -> Yaml {
        self.taken();
        if let Some(value) = scalar::value(self.node) {
            return value;
        }
        if matches!(self.node.data, Data::Sequence(_)) {
            return Yaml::List(self.items().iter().map(Self::raw).collect());
        }
        let mut map = Map { origin: Some(self.origin()), ..Map::default() };
        for (name, place) in self.fields() {
            let says = !place.is_block() && place.text().is_some_and(|text| !text.is_empty());
            match says && secrets::is_name(name) {
                true => place.leave(secrets::LEFT_OUT),
                false => {
                    map.put(name, place.raw());
                    map.came_from(name, place.origin());
                }
            }
        }
        map.into()
    }

    /// It is carried over, with all that is in it.
    pub fn taken(&self) {
        self.seen.borrow_mut().entry(key(self.node)).or_default().taken = true;
    }

    /// It is not carried over, or not as it is. What is below it is not reported, but for what is said of it by itself.
    pub fn leave(&self, reason: impl Into<String>) {
        let reason = reason.into();
        let mut seen = self.seen.borrow_mut();
        let reasons = &mut seen.entry(key(self.node)).or_default().reasons;
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }

    /// Says something of it; whether it is carried over is another thing.
    pub fn tell(&self, note: impl Into<String>) {
        self.seen.borrow_mut().entry(key(self.node)).or_default().notes.push(note.into());
    }
}

fn key(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
