//! A cluster that is shown with its defaults, and the schema that editors have: both say what the reader does.

#![expect(clippy::expect_used, clippy::panic, reason = "a helper of tests may fail the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use kubexm_spec::cluster::{FILE, document, parse, read, sample, schema, show};
use kubexm_spec::yaml::{self, At, Object, Shape, Sink};
use proptest::prelude::*;
use serde_json::{Value, json};

fn shown(text: &str) -> kubexm_spec::cluster::Shown {
    show(&read(text).unwrap_or_else(|problems| panic!("{text}\n{problems}")), &BTreeMap::new())
}

fn validator() -> &'static jsonschema::Validator {
    static MADE: OnceLock<jsonschema::Validator> = OnceLock::new();
    MADE.get_or_init(|| jsonschema::draft202012::new(&schema()).expect("the schema is one"))
}

#[test]
fn the_schema_is_a_schema_and_takes_every_sample() {
    jsonschema::draft202012::meta::validate(&schema()).unwrap_or_else(|error| panic!("{error}"));
    for text in crate::every_field::files() {
        for document in [as_written(&text), shown(&text).document] {
            let errors: Vec<String> =
                validator().iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
            assert!(errors.is_empty(), "{text}\n{}", errors.join("\n"));
        }
    }
}

/// The text as an editor has it: the short forms, aliases and numbers that the reader takes.
fn as_written(text: &str) -> Value {
    let tree = yaml::parse(text).expect("it is YAML");
    At::root(&tree, &Sink::default()).json()
}

#[test]
fn a_file_that_is_all_wrong_is_refused_by_the_schema_at_each_place_that_it_can_see() {
    let text = "apiVersion: kubexm.io/v1\nkind: Cluster\nmetadata: {name: My_Cluster}\nspec:\n  hosts:\n  - {name: node1, \
                address: 10.0.0.1, password: hunter2}\n  - {name: node2, address: 10.0.0.2, prot: 22}\n  kubernetes: {versoin: \
                v1.34.4, maxPods: many, proxyMode: ipvz}\n  network: {plugin: calicoo}\n  bundle: {extraFiles: [{url: \
                \"ftp://x\"}]}\n";
    let document = as_written(text);
    let places: BTreeSet<String> =
        validator().iter_errors(&document).map(|error| error.instance_path().to_string()).collect();
    for place in [
        "/apiVersion",
        "/metadata/name",
        "/spec/hosts/0/password",
        "/spec/hosts/1",
        "/spec/kubernetes",
        "/spec/kubernetes/maxPods",
        "/spec/kubernetes/proxyMode",
        "/spec/network/plugin",
        "/spec/bundle/extraFiles/0/url",
    ] {
        assert!(places.contains(place), "{place}: {places:?}");
    }
    assert!(parse(text).is_err());
}

#[test]
fn the_schema_refuses_what_is_wrong_by_its_form_as_the_reader_does() {
    let base = || shown(sample()).document;
    let wrong: [(&str, Value); 22] = [
        ("/spec/kubernets", json!({})),
        ("/spec/kubernetes/versoin", json!("v1.34.4")),
        ("/spec/kubernetes/version", json!("latest")),
        ("/spec/kubernetes/maxPods", json!("many")),
        ("/spec/kubernetes/maxPods", json!(255)),
        ("/spec/kubernetes/type", json!("kubespray")),
        ("/spec/kubernetes/featureGates", json!({"A": "yes"})),
        ("/spec/hosts/0/prot", json!(22)),
        ("/spec/hosts/0/port", json!(70000)),
        ("/spec/hosts/0/password", json!("hunter2")),
        ("/spec/hosts/0/passwordFrom", json!({"env": "A", "file": "b"})),
        ("/spec/hosts/0/passwordFrom", json!({"dockerConfig": "a"})),
        ("/spec/etcd/backup", json!({"recipients": ["age1abc"]})),
        ("/spec/etcd/type", json!("stacked")),
        ("/spec/network/plugin", json!("calicoo")),
        ("/spec/network/podCidr", json!("10.233.0.0")),
        ("/spec/loadBalancer/external", json!({"type": "kubexm"})),
        ("/spec/registry/auths", json!({"a.test": {"username": "me", "password": "hunter2"}})),
        ("/spec/addons", json!([{"name": "a", "type": "helm"}])),
        ("/spec/addons", json!([{"name": "a", "type": "helm", "source": {"path": "a", "url": "https://a.test/b"}}])),
        ("/spec/bundle/platforms", json!([])),
        ("/apiVersion", json!("kubexm.io/v1")),
    ];
    for (at, value) in wrong {
        let mut document = base();
        let (parent, key) = at.rsplit_once('/').expect("a path");
        document.pointer_mut(parent).expect("the parent is there")[key] = value;
        assert!(!validator().is_valid(&document), "the schema takes {at}: {document}");
        assert!(parse(&document.to_string()).is_err(), "the reader takes {at}: {document}");
    }
}

#[test]
fn the_schema_has_every_key_that_the_reader_knows_and_no_other() {
    let whole = schema();
    assert_eq!(whole["$schema"], "https://json-schema.org/draft/2020-12/schema");
    compare(&FILE, &whole, "");
    // what is not in the description is unknown to the reader: one that was read and not described would be refused here
    let described = keys_of(&FILE);
    let mut seen = BTreeSet::new();
    for text in crate::every_field::files() {
        keys_in(&shown(&text).document, "", &mut seen);
    }
    let missing: Vec<_> = seen.iter().filter(|key| !described.contains(*key) && !inside_raw(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let unseen: Vec<_> = described.iter().filter(|key| !seen.contains(*key)).collect();
    assert!(unseen.is_empty(), "no sample has them, so nothing here tries them: {unseen:?}");
}

/// Keys below these are somebody else's, or names of the user's.
fn inside_raw(key: &str) -> bool {
    let raw = [
        "spec.kubernetes.kubelet.",
        "spec.kubernetes.kubeProxy.",
        "spec.runtime.extraConfig.",
        "spec.network.options.",
        "spec.registry.harborConfig.config.",
        "spec.addons.values.",
        "spec.addons.secrets.dataFrom.",
        "spec.bundle.extraCharts.values.",
        "spec.hosts.annotations.",
        "spec.hosts.labels.",
        "spec.kubernetes.featureGates.",
        "spec.kubernetes.apiServerArgs.",
        "spec.kubernetes.controllerManagerArgs.",
        "spec.kubernetes.schedulerArgs.",
        "spec.registry.auths.",
    ];
    raw.iter().any(|raw| key.starts_with(raw))
}

fn compare(object: &Object, schema: &Value, path: &str) {
    let found: BTreeSet<&str> = schema["properties"]
        .as_object()
        .unwrap_or_else(|| panic!("{path}: {schema}"))
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(object.keys().collect::<BTreeSet<_>>(), found, "{path}");
    assert_eq!(schema["additionalProperties"], json!(false), "{path}");
    for field in object.fields {
        let property = &schema["properties"][field.name];
        assert!(property["description"].as_str().is_some_and(|text| text.len() > 5), "{path}.{}", field.name);
        if let Shape::Mapping(below) = &field.shape {
            compare(below, property, &format!("{path}.{}", field.name));
        }
    }
}

fn keys_of(object: &Object) -> BTreeSet<String> {
    fn add(object: &Object, path: &str, into: &mut BTreeSet<String>) {
        for field in object.fields {
            let path = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
            // another name of a key, refused, or shown at another place
            let elsewhere = ["spec.roleGroups.control-plane", "spec.hosts.roles"];
            if matches!(field.shape, Shape::Refused) || elsewhere.contains(&path.as_str()) {
                continue;
            }
            // keys of values by names of the user's have those names in their paths
            if !matches!(field.shape, Shape::Named(_))
                && let Some(below) = field.shape.object()
            {
                add(below, &path, into);
            }
            into.insert(path);
        }
    }
    let mut keys = BTreeSet::new();
    add(object, "", &mut keys);
    keys
}

fn keys_in(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                keys_in(value, &path, into);
                into.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys_in(item, path, into)),
        _ => {}
    }
}

#[test]
fn what_is_shown_is_read_as_the_same_cluster() {
    for text in crate::every_field::files() {
        let cluster = parse(&text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
        let shown = shown(&text);
        let again = read(&shown.yaml).unwrap_or_else(|problems| panic!("{}\n{problems}", shown.yaml));
        assert_eq!(again.cluster, cluster, "{}", shown.yaml);
        assert_eq!(parse(&shown.document.to_string()).as_ref(), Ok(&cluster), "{}", shown.document);
        // everything is written now, so nothing is called a default any more
        assert_eq!(show(&again, &BTreeMap::new()).defaults, Vec::<String>::new(), "{}", shown.yaml);
    }
}

/// Another default would make another cluster of the same file: it belongs to another `apiVersion` (docs/decisions/0108).
#[test]
fn what_a_minimal_file_means_stays_within_its_version_of_the_format() {
    let text = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec:\n  hosts: [{name: a, address: 10.0.0.1}]\n  \
                roleGroups: {master: [a]}\n";
    insta::assert_json_snapshot!(shown(text).document);
}

#[test]
fn config_marks_defaults_and_not_values_from_the_file() {
    let text = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec:\n  hosts:\n  - {name: a, address: \
                10.0.0.1, via: [\"ops@bastion\"], roles: [control-plane]}\n  kubernetes: {maxPods: 110, audit: {}}\n  network: \
                {plugin: multus}\n";
    let shown = shown(text);
    let defaults: BTreeSet<&str> = shown.defaults.iter().map(String::as_str).collect();
    for path in [
        "spec.hosts[0].port",
        "spec.hosts[0].via[0].port",
        "spec.roleGroups.registry",
        "spec.kubernetes.audit.maxAge",
        "spec.network.plugin",
    ] {
        assert!(defaults.contains(path), "{path}: {defaults:?}");
    }
    for path in
        ["spec.hosts[0].via[0].user", "spec.roleGroups.master", "spec.kubernetes.maxPods", "spec.network.multus"]
    {
        assert!(!defaults.contains(path), "{path}: {defaults:?}");
    }
    insta::assert_snapshot!(shown.yaml);
}

#[test]
fn a_bundle_of_extras_is_shown_without_a_cluster() {
    let text = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec:\n  bundle: {extraFiles: [{path: a}]}\n";
    let document = shown(text).document;
    assert_eq!(
        document["spec"].as_object().map(|spec| spec.keys().cloned().collect()),
        Some(vec!["bundle".to_owned()])
    );
    assert_eq!(document, self::document(&parse(text).expect("it is one")));
}

proptest! {
    /// Any fields of the format together, as long as the reader takes them.
    #[test]
    fn any_cluster_is_shown_and_read_again(picks in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let document = crate::every_field::pick(&picks);
        if let Ok(cluster) = parse(&document.to_string()) {
            let shown = shown(&document.to_string());
            prop_assert_eq!(parse(&shown.yaml), Ok(cluster), "{}", shown.yaml);
            prop_assert!(validator().is_valid(&shown.document), "{}", shown.document);
            prop_assert!(validator().is_valid(&document), "{document}");
        }
    }

    /// Texts, numbers and mappings of somebody else's formats keep their types.
    #[test]
    fn raw_values_are_shown_and_read_again(key in "[ -~]{1,12}", text in "[ -~\\n\u{e9}]{0,20}", number in any::<i32>(), truth in any::<bool>()) {
        let raw = json!({key.as_str(): text, "n": number, "t": truth, "l": [text, [text], {"k": text}], "m": {"x": null, "y": 0.5}});
        let document = json!({
            "apiVersion": "kubexm.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {"kubernetes": {"kubelet": raw}},
        });
        let shown = shown(&document.to_string());
        let kubelet = parse(&shown.yaml).unwrap_or_else(|p| panic!("{}\n{p}", shown.yaml)).kubernetes.expect("it is there").kubelet;
        prop_assert_eq!(Value::Object(kubelet), raw, "{}", shown.yaml);
    }
}
