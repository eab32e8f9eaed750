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
