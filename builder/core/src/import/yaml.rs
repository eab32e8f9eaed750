//! The cluster.yaml that is written: fields in an order that people expect, each with the place it comes from, so that what
//! the strict reader refuses can be reported with that place.

use kubexm_spec::yaml::{At, Data, Node, Sink};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

/// A value with its order.
#[derive(Clone, Debug, PartialEq)]
pub enum Yaml {
    Null,
    Text(String),
    /// Of 64 bits, with a sign or without.
    Int(i128),
    /// Neither infinite nor NaN.
    Float(f64),
    Bool(bool),
    List(Vec<Yaml>),
    Map(Map),
}

/// Fields in order, each name once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    pub fields: Vec<Field>,
    /// Where the block as a whole comes from.
    pub origin: Option<Origin>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: String,
    pub value: Yaml,
    pub origin: Option<Origin>,
    /// Stands behind it in the text.
    pub comment: Option<&'static str>,
}

/// A place of the file that is imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Counted from 1.
    pub line: usize,
    /// `spec.hosts[0].name`.
    pub path: String,
}

impl Map {
    /// Nothing is written of what is empty.
    pub fn set(&mut self, name: &str, value: impl Into<Yaml>) {
        let value = value.into();
        let empty = match &value {
            Yaml::Map(map) => map.fields.is_empty(),
            Yaml::List(list) => list.is_empty(),
            _ => false,
        };
        if !empty {
            self.put(name, value);
        }
    }

    /// Also when it is empty: `{}` says that something is wanted. A name that is there gets the new value.
    pub fn put(&mut self, name: &str, value: impl Into<Yaml>) {
        let value = value.into();
        match self.fields.iter_mut().find(|field| field.name == name) {
            Some(field) => field.value = value,
            None => self.fields.push(Field { name: name.to_owned(), value, origin: None, comment: None }),
        }
    }

    pub fn maybe(&mut self, name: &str, value: Option<impl Into<Yaml>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// The place that a field came from.
    pub fn came_from(&mut self, name: &str, origin: Origin) {
        if let Some(field) = self.fields.iter_mut().find(|field| field.name == name) {
            field.origin = Some(origin);
        }
    }

    pub fn get(&self, name: &str) -> Option<&Yaml> {
        self.fields.iter().find(|field| field.name == name).map(|field| &field.value)
    }

    /// The value of a field, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Yaml> {
        self.fields.iter_mut().find(|field| field.name == name).map(|field| &mut field.value)
    }

    /// Whether there is a value at the end of these names.
    pub fn holds(&self, path: &[&str]) -> bool {
        match path {
            [] => true,
            [name, rest @ ..] => match self.get(name) {
                Some(Yaml::Map(map)) => map.holds(rest),
                Some(_) => rest.is_empty(),
                None => false,
            },
        }
    }

    /// Puts a value at the end of these names, with a comment. What is there already stays, and so does what is no block.
    pub fn add(&mut self, path: &[&str], value: Yaml, comment: &'static str) {
        let [name, rest @ ..] = path else { return };
        if self.get(name).is_none() {
            let value = if rest.is_empty() { value.clone() } else { Yaml::Map(Self::default()) };
            let comment = rest.is_empty().then_some(comment);
            self.fields.push(Field { name: (*name).to_owned(), value, origin: None, comment });
        }
        let field = self.fields.iter_mut().find(|field| field.name == *name);
        if let Some(Field { value: Yaml::Map(map), .. }) = field
            && !rest.is_empty()
        {
            map.add(rest, value, comment);
        }
    }

    /// The order of fields, where they have one; the others come last.
    pub fn order(&mut self, names: &[&str]) {
        let place = |field: &Field| names.iter().position(|name| *name == field.name).unwrap_or(names.len());
        self.fields.sort_by_key(place);
    }
}

impl From<&str> for Yaml {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Yaml {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Yaml {
    fn from(number: u64) -> Self {
        Self::Int(number.into())
    }
}

impl From<bool> for Yaml {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<Map> for Yaml {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl<T: Into<Yaml>> From<Vec<T>> for Yaml {
    fn from(list: Vec<T>) -> Self {
        Self::List(list.into_iter().map(Into::into).collect())
    }
}

impl Serialize for Yaml {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Int(number) => match (i64::try_from(*number), u64::try_from(*number)) {
                (Ok(number), _) => serializer.serialize_i64(number),
                (_, Ok(number)) => serializer.serialize_u64(number),
                _ => Err(S::Error::custom("a number of more than 64 bits")),
            },
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::List(list) => {
                let mut all = serializer.serialize_seq(Some(list.len()))?;
                list.iter().try_for_each(|item| all.serialize_element(item))?;
                all.end()
            }
            Self::Map(Map { fields, .. }) => {
                let mut all = serializer.serialize_map(Some(fields.len()))?;
                fields.iter().try_for_each(|field| all.serialize_entry(&field.name, &field.value))?;
                all.end()
            }
        }
    }
}

/// A cluster.yaml of a name and a `spec`.
pub fn cluster(name: &str, spec: Map) -> Map {
    let (mut root, mut metadata) = (Map::default(), Map::default());
    metadata.set("name", name);
    root.set("apiVersion", kubexm_spec::names::CLUSTER_API_VERSION);
    root.set("kind", "Cluster");
    root.set("metadata", metadata);
    root.put("spec", spec);
    root
}

/// The text, which reads back as what it was made of: a difference is an error and never a file.
pub fn text(root: &Map) -> Result<String, String> {
    let value = Yaml::Map(root.clone());
    let bare = serde_saphyr::to_string(&value).map_err(|e| e.to_string())?;
    let tree = read(&bare, &value)?;
    let mut comments = Vec::new();
    find(&tree, root, &mut comments);
    if comments.is_empty() {
        return Ok(bare);
    }
    let mut lines: Vec<String> = bare.lines().map(str::to_owned).collect();
    for (line, comment) in comments {
        if let Some(text) = lines.get_mut(line - 1) {
            text.push_str("  # ");
            text.push_str(comment);
        }
    }
    let text = lines.join("\n") + "\n";
    read(&text, &value).map(|_| text)
}

fn read(text: &str, value: &Yaml) -> Result<Node, String> {
    let tree = kubexm_spec::yaml::parse(text).map_err(|problems| problems.to_string())?;
    match At::root(&tree, &Sink::default()).json() == json(value) {
        true => Ok(tree),
        false => Err("what was written does not read back as itself".to_owned()),
    }
}

fn json(value: &Yaml) -> Value {
    match value {
        Yaml::Null => Value::Null,
        Yaml::Text(text) => text.as_str().into(),
        Yaml::Int(number) => match u64::try_from(*number) {
            Ok(number) => number.into(),
            Err(_) => i64::try_from(*number).map_or(Value::Null, Value::from),
        },
        Yaml::Float(number) => (*number).into(),
        Yaml::Bool(value) => (*value).into(),
        Yaml::List(list) => list.iter().map(json).collect(),
        Yaml::Map(map) => map.fields.iter().map(|field| (field.name.clone(), json(&field.value))).collect(),
    }
}

/// Lines of the fields that have a comment.
fn find(node: &Node, map: &Map, comments: &mut Vec<(usize, &'static str)>) {
    let Data::Mapping(entries) = &node.data else { return };
    for (field, (key, node)) in map.fields.iter().zip(entries) {
        comments.extend(field.comment.map(|comment| (key.line, comment)));
        match (&field.value, &node.data) {
            (Yaml::Map(map), _) => find(node, map, comments),
            (Yaml::List(list), Data::Sequence(nodes)) => {
                for (item, node) in list.iter().zip(nodes) {
                    if let Yaml::Map(map) = item {
                        find(node, map, comments);
                    }
                }
            }
            _ => {}
        }
    }
}
