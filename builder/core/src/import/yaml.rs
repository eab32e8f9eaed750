//! The cluster.yaml that is written: fields in an order that people expect.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

/// A value with its order.
#[derive(Clone, Debug, PartialEq)]
pub enum Yaml {
    Text(String),
    Number(u64),
    Bool(bool),
    List(Vec<Yaml>),
    Map(Map),
}

/// Fields in order; those without a value are not written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map(Vec<(String, Yaml)>);

impl Map {
    pub fn set(&mut self, name: &str, value: impl Into<Yaml>) {
        let value = value.into();
        let empty = matches!(&value, Yaml::Map(map) if map.0.is_empty())
            || matches!(&value, Yaml::List(list) if list.is_empty());
        if !empty {
            self.put(name, value);
        }
    }

    /// Also when it is empty: `{}` says that something is wanted.
    pub fn put(&mut self, name: &str, value: impl Into<Yaml>) {
        self.0.push((name.to_owned(), value.into()));
    }

    pub fn maybe(&mut self, name: &str, value: Option<impl Into<Yaml>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
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
        Self::Number(number)
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
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::List(list) => {
                let mut all = serializer.serialize_seq(Some(list.len()))?;
                list.iter().try_for_each(|item| all.serialize_element(item))?;
                all.end()
            }
            Self::Map(Map(fields)) => {
                let mut all = serializer.serialize_map(Some(fields.len()))?;
                fields.iter().try_for_each(|(name, value)| all.serialize_entry(name, value))?;
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

/// The text.
pub fn text(root: &Map) -> Result<String, String> {
    serde_saphyr::to_string(&Yaml::Map(root.clone())).map_err(|e| e.to_string())
}
