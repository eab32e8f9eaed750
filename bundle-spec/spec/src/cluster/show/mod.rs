//! A whole cluster as YAML, every default written out and called one, and what is not set named.

mod document;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::{Map, Value};

pub use self::document::document;
use crate::cluster::{FILE, Read};
use crate::yaml::{Object, Shape};

/// Where comments begin.
const COMMENTS: usize = 44;

/// A cluster that was written out.
#[derive(Clone, Debug)]
pub struct Shown {
    /// For people: cluster.yaml with comments. Reading it gives the same cluster again.
    pub yaml: String,
    /// For machines.
    pub document: Value,
    /// Paths of the document that were not written in the file.
    pub defaults: Vec<String>,
}

/// Writes out what was read. `chosen` are values that something else chooses where the file has none, by path: the versions of a
/// catalogue.
pub fn show(read: &Read, chosen: &BTreeMap<String, String>) -> Shown {
    let document = document(&read.cluster);
    let mut writer = Writer { written: &read.written, chosen, yaml: String::new(), defaults: Vec::new() };
    if let Value::Object(map) = &document {
        writer.object(&FILE, map, "", 0);
    }
    Shown { yaml: writer.yaml, defaults: writer.defaults, document }
}

struct Writer<'w> {
    written: &'w BTreeSet<String>,
    chosen: &'w BTreeMap<String, String>,
    yaml: String,
    defaults: Vec<String>,
}

impl Writer<'_> {
    /// Keys in the order of the format; those that are not there as comments.
    fn object(&mut self, of: &'static Object, map: &Map<String, Value>, path: &str, indent: usize) {
        for field in of.fields {
            let path = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
            match map.get(field.name) {
                Some(value) => self.field(field.name, value, Some(&field.shape), &path, indent),
                None => self.unset(field.name, field.about, &path, indent),
            }
        }
    }

    /// Of a list of alternatives only what was chosen is shown, and never where a secret would be refused.
    fn unset(&mut self, name: &str, about: &str, path: &str, indent: usize) {
        if about.starts_with("Refused") || is_alias(path) {
            return;
        }
        let (value, about) = match self.chosen.get(path) {
            Some(value) => (format!("# {name}: {value}"), "chosen by the catalogue"),
            None => (format!("# {name}:"), about),
        };
        let line = format!("{:indent$}{value}", "");
        let _ = writeln!(self.yaml, "{line:COMMENTS$} # {about}");
    }

    fn field(&mut self, name: &str, value: &Value, shape: Option<&'static Shape>, path: &str, indent: usize) {
        let key = format!("{:indent$}{}:", "", scalar_text(name));
        match value {
            Value::Object(map) if !map.is_empty() => {
                self.line(&key, path, false);
                self.mapping(map, shape, path, indent + 2);
            }
            Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
                self.line(&key, path, false);
                for (index, item) in items.iter().enumerate() {
                    self.item(item, shape.and_then(item_of), &format!("{path}[{index}]"), indent);
                }
            }
            value => self.line(&format!("{key} {}", flow(value)), path, true),
        }
    }

    fn mapping(&mut self, map: &Map<String, Value>, shape: Option<&'static Shape>, path: &str, indent: usize) {
        if let Some(Shape::Mapping(of)) = shape {
            return self.object(of, map, path, indent);
        }
        for (key, value) in map {
            self.field(key, value, shape.and_then(item_of), &format!("{path}.{key}"), indent);
        }
    }

    /// One of a list: a mapping begins on the line of its dash.
    fn item(&mut self, item: &Value, shape: Option<&'static Shape>, path: &str, indent: usize) {
        let start = self.yaml.len();
        match item {
            Value::Object(map) if !map.is_empty() => self.mapping(map, shape, path, indent + 2),
            item => self.line(&format!("{:indent$}  {}", "", flow(item)), path, true),
        }
        // The first line that is no comment carries the dash.
        let mut at = start;
        for line in self.yaml[start..].split_inclusive('\n') {
            if !line.trim_start().starts_with('#') {
                break;
            }
            at += line.len();
        }
        if self.yaml.len() > at + indent {
            self.yaml.replace_range(at + indent..at + indent + 1, "-");
        }
    }

    /// A line, marked as a default where the file does not set it.
    fn line(&mut self, line: &str, path: &str, leaf: bool) {
        let default = leaf && !self.written.contains(path);
        if default {
            self.defaults.push(path.to_owned());
            let _ = writeln!(self.yaml, "{line:COMMENTS$} # default");
        } else {
            let _ = writeln!(self.yaml, "{line}");
        }
    }
}

/// What items of a list, or values by names of the user's, look like; of alternatives the one that is a mapping, since what
/// was read is shown in its long form.
fn item_of(shape: &'static Shape) -> Option<&'static Shape> {
    let item = match shape {
        Shape::List(item) | Shape::Some(item) | Shape::OneOrTwo(item) | Shape::Named(item) => *item,
        _ => return None,
    };
    Some(match item {
        Shape::Either(one, other) => {
            if one.object().is_some() {
                one
            } else {
                other
            }
        }
        item => item,
    })
}

/// Another name of a key that is shown anyway, or one that is shown elsewhere.
fn is_alias(path: &str) -> bool {
    path == "spec.roleGroups.control-plane" || (path.starts_with("spec.hosts[") && path.ends_with("].roles"))
}

/// A value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar_text(text),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// A text as a plain scalar where nobody could read it otherwise, in quotes (JSON's, which are YAML's) where somebody could.
fn scalar_text(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._/@+-".contains(&b))
        && text.parse::<f64>().is_err();
    let word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_lowercase().as_str());
    // 0x10 and 0o17 are numbers to YAML, and so would digits with underscores be to older readers
    let number = text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(['.', '/', '-']);
    if plain && !word && !number { text.to_owned() } else { Value::from(text).to_string() }
}
