//! Bundles whose catalogue.json is of v1 are planned as those of today are.

use kubexm_manifests::Catalogue;
use kubexm_manifests::catalogue::{SCHEMA, SCHEMA_1};
use serde_json::{Map, Value, json};

use crate::common::Site;

/// Written by the last program of v1: which fields there were.
const V1: &str = include_str!("../../../../manifests/tests/fixtures/catalogue-v1.json");

/// A catalogue of today as a program of v1 would have written it: with the fields that its own file has.
fn as_v1(catalogue: &Catalogue) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(&catalogue.to_json().unwrap()).unwrap();
    let model: Value = serde_json::from_str(V1).unwrap();
    value["schema"] = json!(SCHEMA_1);
    for list in ["components", "releases"] {
        let known = keys(model[list].as_object().unwrap().values());
        for item in value[list].as_object_mut().unwrap().values_mut() {
            item.as_object_mut().unwrap().retain(|key, _| known.contains(key));
        }
    }
    let known = keys(model["releases"].as_object().unwrap().values().map(|release| &release["support"]));
    let patches = keys(model["releases"].as_object().unwrap().values().flat_map(|r| r["patches"].as_array().unwrap()));
    for release in value["releases"].as_object_mut().unwrap().values_mut() {
        release["support"].as_object_mut().unwrap().retain(|key, _| known.contains(key));
        for range in release["patches"].as_array_mut().unwrap() {
            let range = range.as_object_mut().unwrap();
            range.retain(|key, _| patches.contains(key) && key != "unverified");
        }
    }
    serde_json::to_vec(&value).unwrap()
}

fn keys<'v>(objects: impl Iterator<Item = &'v Value>) -> Vec<String> {
    objects.filter_map(Value::as_object).flat_map(Map::keys).cloned().collect()
}

#[test]
fn a_bundle_of_v1_is_planned_like_one_of_today_and_passes_preflight() {
    let mut site = Site::new();
    let today = site.create().unwrap();
    let older = as_v1(&site.catalogue);
    let text = String::from_utf8(older.clone()).unwrap();
    for newer in [SCHEMA, "\"libc\"", "\"endOfLife\"", "\"verified\"", "\"recommendedContainerd\""] {
        assert!(!text.contains(newer), "{newer}");
    }
    site.catalogue = Catalogue::from_json(&older).unwrap();
    // of glibc a catalogue of v1 says nothing, so that nothing is compared
    site.facts().glibc = Some("2.17".to_owned());
    assert_eq!(kubexm_recipes::preflight(&site.cx()), Vec::new());
    site.facts().glibc = Site::new().facts().glibc.clone();
    assert_eq!(site.create().unwrap(), today);
}
