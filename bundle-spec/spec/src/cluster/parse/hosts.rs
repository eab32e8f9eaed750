//! `spec.hosts`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::values;
use crate::cluster::Host;
use crate::cluster::field::FieldType;
use crate::yaml::{At, Shape};

/// The machines, each with its own name and address.
pub(super) struct Hosts;

impl FieldType for Hosts {
    type Value = Vec<Host>;

    const SHAPE: Shape = Vec::<Host>::SHAPE;

    fn read(at: &At<'_>) -> Option<Vec<Host>> {
        let hosts = Vec::<Host>::read(at);
        let mut names = BTreeMap::new();
        let mut addresses = BTreeMap::new();
        // read again for the places: a name twice is found even when another field of the host is wrong
        for item in at.list() {
            let Some(map) = item.open_mapping_quiet() else { continue };
            for (key, seen) in [("name", &mut names), ("address", &mut addresses)] {
                let Some(field) = map.get(key) else { continue };
                let values = if field.is_list() { field.list() } else { vec![field] };
                for field in values {
                    let Some(text) = field.text_quiet() else { continue };
                    if let Some(line) = seen.insert(text.to_owned(), field.line()) {
                        field.bad(format!("{text:?} is given twice, first in line {line}"), "each host has its own");
                    }
                }
            }
        }
        hosts
    }

    fn show(value: &Vec<Host>) -> Option<Value> {
        Vec::<Host>::show(value)
    }
}

/// Keys of annotations that kubexm writes on nodes.
const OWN_PREFIX: &str = "kubexm.io/";

/// Labels of a node (apimachinery, util/validation).
pub(in crate::cluster) struct Labels;

impl FieldType for Labels {
    type Value = BTreeMap<String, String>;

    const SHAPE: Shape = Shape::Named(&Shape::Text);

    fn read(at: &At<'_>) -> Option<BTreeMap<String, String>> {
        let map = at.open_mapping()?;
        let mut labels = Some(BTreeMap::new());
        for (key, at) in map.entries() {
            match at.text() {
                Some(value) if values::is_label_key(key) && values::is_label_value(value) => {
                    if let Some(labels) = &mut labels {
                        labels.insert(key.to_owned(), value.to_owned());
                    }
                }
                Some(value) => {
                    at.bad(format!("{key}={value} is not a Kubernetes label"), "");
                    labels = None;
                }
                None => labels = None,
            }
        }
        labels
    }

    fn show(value: &BTreeMap<String, String>) -> Option<Value> {
        (!value.is_empty()).then(|| json!(value))
    }
}

/// Bytes that the annotations of one node may have in cluster.yaml; the API server takes 256 KiB of all that are on an object.
const ANNOTATIONS_LIMIT: usize = 64 << 10;

/// Annotations of a node (apimachinery, api/validation).
pub(in crate::cluster) struct Annotations;

impl FieldType for Annotations {
    type Value = BTreeMap<String, String>;

    const SHAPE: Shape = Shape::Named(&Shape::Text);

    fn read(at: &At<'_>) -> Option<BTreeMap<String, String>> {
        let map = at.open_mapping()?;
        let mut annotations = Some(BTreeMap::new());
        for (key, at) in map.entries() {
            let wrong = if !values::is_label_key(&key.to_ascii_lowercase()) {
                Some(format!("{key} is not the key of a Kubernetes annotation"))
            } else if key.starts_with(OWN_PREFIX) {
                Some(format!("{key}: kubexm writes the annotations of {OWN_PREFIX} itself"))
            } else {
                None
            };
            let value = at.text();
            if let Some(wrong) = &wrong {
                at.bad(wrong.clone(), "");
            }
            match (value.filter(|_| wrong.is_none()), &mut annotations) {
                (Some(value), Some(all)) => drop(all.insert(key.to_owned(), value.to_owned())),
                (Some(_), None) => {}
                (None, all) => *all = None,
            }
        }
        let size = annotations.iter().flatten().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        if size > ANNOTATIONS_LIMIT {
            at.bad(format!("the annotations have {size} bytes"), "at most 64 KiB");
            return None;
        }
        annotations
    }

    fn show(value: &BTreeMap<String, String>) -> Option<Value> {
        Labels::show(value)
    }
}
