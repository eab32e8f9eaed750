//! KubeKey's fields as fields of cluster.yaml.

use std::collections::BTreeSet;

use super::source::Place;
use super::yaml::{Map, Yaml};

/// `metadata.name`, as a DNS-1123 label.
pub(super) fn name(root: &Place<'_>, other: &str) -> String {
    let Some(at) = root.at(&["metadata", "name"]) else { return other.to_owned() };
    let Some(text) = at.text() else { return other.to_owned() };
    let label: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).take(63).collect();
    let label = match label.trim_matches('-') {
        "" => other.to_owned(),
        label => label.to_owned(),
    };
    if label != text {
        at.leave(format!("a cluster's name is a label (a-z, 0-9 and -): it is called {label}"));
    }
    label
}

/// What every file has, and what says nothing.
pub(super) fn known(root: &Place<'_>) {
    for name in ["apiVersion", "kind"] {
        root.get(name).inspect(Place::taken);
    }
    root.get("status").inspect(Place::taken);
    root.at(&["metadata", "creationTimestamp"]).inspect(Place::taken);
}

/// Sets a field of cluster.yaml from one of KubeKey's, and records which.
pub(super) fn carry(from: &Place<'_>, old: &str, to: &mut Map, new: &str, read: impl Fn(&Place<'_>) -> Option<Yaml>) {
    let Some(at) = from.get(old) else { return };
    if let Some(value) = read(&at) {
        to.set(new, value);
        to.came_from(new, at.origin());
    }
}

/// Fields that mean the same, as texts.
pub(super) fn same(from: &Place<'_>, to: &mut Map, names: &[(&str, &str)]) {
    names.iter().for_each(|(old, new)| carry(from, old, to, new, |at| at.text().map(Yaml::from)));
}

/// Fields that mean the same, as numbers.
pub(super) fn numbers(from: &Place<'_>, to: &mut Map, names: &[(&str, &str)]) {
    names.iter().for_each(|(old, new)| carry(from, old, to, new, |at| at.number().map(Yaml::from)));
}

/// Fields that mean the same, as lists of texts.
pub(super) fn lists(from: &Place<'_>, to: &mut Map, names: &[(&str, &str)]) {
    names.iter().for_each(|(old, new)| carry(from, old, to, new, |at| Some(at.texts().into())));
}

/// Something that is off by itself and is not done here.
pub(super) fn never(from: &Place<'_>, path: &[&str], reason: &str) {
    if let Some(at) = from.at(path)
        && at.is_true()
    {
        at.leave(reason);
    }
}

pub(super) fn one_or_more(text: &str) -> Yaml {
    let all: Vec<&str> = text.split(',').map(str::trim).filter(|text| !text.is_empty()).collect();
    match all.as_slice() {
        [one] => (*one).into(),
        _ => all.into(),
    }
}

/// Names of environment variables that secrets are read from, one for each name in the file.
#[derive(Default)]
pub(super) struct Variables(BTreeSet<String>);

impl Variables {
    /// A name that shells take.
    pub(super) fn of(&mut self, prefix: &str, name: &str) -> String {
        let name: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
        let first = format!("{prefix}_{name}");
        let further = (2..).map(|number| format!("{first}_{number}"));
        let free = std::iter::once(first.clone()).chain(further).find(|name| !self.0.contains(name));
        let free = free.unwrap_or(first);
        self.0.insert(free.clone());
        free
    }
}

pub(super) fn env(variable: &str) -> Map {
    let mut from = Map::default();
    from.set("env", variable);
    from
}
