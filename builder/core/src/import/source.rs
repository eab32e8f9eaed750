//! A foreign YAML file of which is known what was read: what was not is told.

use std::cell::RefCell;
use std::collections::BTreeMap;

use kubexm_spec::yaml::{Data, Node};

use super::Left;
use super::yaml::{Map, Yaml};

/// The default word on a field that nothing of ours stands for.
const NO_FIELD: &str = "cluster.yaml has no field for it";

/// A file, and what became of its fields by path: carried over, or the reason why not.
pub struct Source<'a> {
    tree: &'a Node,
    seen: RefCell<BTreeMap<String, Option<String>>>,
}

/// A place in it.
#[derive(Clone)]
pub struct Place<'a> {
    path: String,
    node: &'a Node,
    seen: &'a RefCell<BTreeMap<String, Option<String>>>,
}

impl<'a> Source<'a> {
    pub fn new(tree: &'a Node) -> Self {
        Self { tree, seen: RefCell::default() }
    }

    pub fn root(&'a self) -> Place<'a> {
        Place { path: String::new(), node: self.tree, seen: &self.seen }
    }

    /// Everything that was not carried over.
    pub fn left(&self) -> Vec<Left> {
        let mut left = Vec::new();
        self.walk("", self.tree, &mut left);
        left
    }

    fn walk(&self, path: &str, node: &Node, left: &mut Vec<Left>) {
        let told = |reason: &str| Left { line: node.line, path: path.to_owned(), reason: reason.to_owned() };
        match self.seen.borrow().get(path) {
            Some(None) => return,
            Some(Some(reason)) => return left.push(told(reason)),
            None => {}
        }
        match &node.data {
            Data::Mapping(entries) => {
                for (key, node) in entries {
                    let before = left.len();
                    self.walk(&join(path, &key.text), node, left);
                    // A block's own line is that of its key.
                    for found in left[before..].iter_mut().filter(|found| found.path == join(path, &key.text)) {
                        found.line = key.line;
                    }
                }
            }
            Data::Sequence(items) => {
                for (index, node) in items.iter().enumerate() {
                    self.walk(&format!("{path}[{index}]"), node, left);
                }
            }
            Data::Scalar { .. } if node.is_null() => {}
            Data::Scalar { text, .. } if text.is_empty() => {}
            Data::Scalar { .. } => left.push(told(NO_FIELD)),
        }
    }
}

impl<'a> Place<'a> {
    /// A field that says something; nothing is carried over by looking.
    pub fn get(&self, name: &str) -> Option<Self> {
        let Data::Mapping(entries) = &self.node.data else { return None };
        let (_, node) = entries.iter().find(|(key, _)| key.text == name)?;
        let empty = node.is_null() || matches!(&node.data, Data::Scalar { text, .. } if text.is_empty());
        (!empty).then(|| Self { path: join(&self.path, name), node, seen: self.seen })
    }

    /// Several steps of [`Place::get`].
    pub fn at(&self, names: &[&str]) -> Option<Self> {
        names.iter().try_fold(self.clone(), |place, name| place.get(name))
    }

    /// Counted from 1.
    pub fn line(&self) -> usize {
        self.node.line
    }

    /// Its text, which is carried over with that.
    pub fn text(&self) -> Option<&'a str> {
        match &self.node.data {
            Data::Scalar { text, .. } => {
                self.taken();
                Some(text)
            }
            _ => None,
        }
    }

    /// A truth value, carried over.
    pub fn is_true(&self) -> bool {
        self.text().is_some_and(|text| matches!(text, "true" | "True" | "TRUE" | "yes" | "on"))
    }

    /// Items of a list; a single text counts as a list of one.
    pub fn items(&self) -> Vec<Self> {
        match &self.node.data {
            Data::Sequence(items) => items
                .iter()
                .enumerate()
                .map(|(index, node)| Self { path: format!("{}[{index}]", self.path), node, seen: self.seen })
                .collect(),
            Data::Scalar { .. } => vec![self.clone()],
            Data::Mapping(_) => Vec::new(),
        }
    }

    /// Texts of a list, carried over.
    pub fn texts(&self) -> Vec<&'a str> {
        self.items().iter().filter_map(Self::text).collect()
    }

    /// Fields in the order of the file.
    pub fn fields(&self) -> Vec<(&'a str, Self)> {
        let Data::Mapping(entries) = &self.node.data else { return Vec::new() };
        let place = |key: &str, node| Self { path: join(&self.path, key), node, seen: self.seen };
        entries.iter().map(|(key, node)| (key.text.as_str(), place(&key.text, node))).collect()
    }

    /// What it is, as it is; carried over.
    pub fn raw(&self) -> Yaml {
        self.taken();
        value(self.node)
    }

    /// It is carried over, with all that is in it.
    pub fn taken(&self) {
        self.seen.borrow_mut().insert(self.path.clone(), None);
    }

    /// It is not carried over, or not as it is.
    pub fn leave(&self, reason: impl Into<String>) {
        self.seen.borrow_mut().insert(self.path.clone(), Some(reason.into()));
    }
}

/// A node as it is meant: a plain scalar may be a number or a truth value.
fn value(node: &Node) -> Yaml {
    match &node.data {
        Data::Sequence(items) => Yaml::List(items.iter().map(value).collect()),
        Data::Mapping(entries) => {
            let mut map = Map::default();
            entries.iter().for_each(|(key, node)| map.put(&key.text, value(node)));
            map.into()
        }
        Data::Scalar { text, plain: true } => match (text.as_str(), text.parse::<u64>()) {
            ("true", _) => true.into(),
            ("false", _) => false.into(),
            (_, Ok(number)) => number.into(),
            (text, Err(_)) => text.into(),
        },
        Data::Scalar { text, plain: false } => text.as_str().into(),
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
