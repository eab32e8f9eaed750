//! Every field of KubeKey's types is carried over or reported as left out, and none is silently lost.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{at, import, is_reported, json as yaml};

const TABLE: &str = include_str!("fields.txt");

struct Row {
    field: &'static str,
    value: Value,
    fate: &'static str,
}

fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let [field, value, fate] =
                line.split(" | ").collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("{line}"));
            Row { field, value: yaml(value), fate }
        })
        .collect()
}

/// What a field is in, without which it would mean nothing.
fn base(field: &str) -> Value {
    if field.starts_with("manifest.") {
        let mut spec = json!({"images": ["docker.io/library/alpine:3"]});
        if field.contains("operatingSystems") {
            spec["operatingSystems"] = json!([{"id": "ubuntu", "version": "22.04"}]);
        }
        if field.contains("kubernetesDistributions") {
            spec["kubernetesDistributions"] = json!([{"version": "v1.34.4"}]);
        }
        return json!({"kind": "Manifest", "metadata": {"name": "sample"}, "spec": spec});
    }
    let mut spec = json!({"hosts": [{"name": "node1", "address": "10.0.0.1"}], "roleGroups": {"master": ["node1"]}});
    if field.starts_with("spec.etcd.external.") {
        let files = json!({"endpoints": ["https://10.0.0.5:2379"], "caFile": "/a", "certFile": "/b", "keyFile": "/c"});
        spec["etcd"] = json!({"type": "external", "external": files});
    }
    if field == "spec.controlPlaneEndpoint.port" {
        spec["controlPlaneEndpoint"] = json!({"address": "10.0.0.9"});
    }
    if field == "spec.registry.port" {
        spec["registry"] = json!({"type": "harbor"});
    }
    if field.starts_with("spec.registry.auths.") {
        spec["registry"] = json!({"auths": {"registryhost": {"username": "a", "password": "b"}}});
    }
    if field.starts_with("spec.system.preInstall[]") {
        spec["system"] = json!({"preInstall": [{"name": "a", "bash": "true"}]});
    }
    if field.starts_with("spec.addons") {
        let chart = json!({"name": "web", "repo": "https://charts.example.com", "version": "1.0.0"});
        spec["addons"] = json!([{"name": "web", "sources": {"chart": chart}}]);
    }
    json!({"kind": "Cluster", "metadata": {"name": "sample"}, "spec": spec})
}

/// The document with the value at the field.
fn with(mut document: Value, field: &str, value: &Value) -> Value {
    if field.ends_with(".control-plane") {
        // Two names of one role.
        document["spec"]["roleGroups"] = json!({});
    }
    let mut place = &mut document;
    for step in field.trim_start_matches("manifest.").split('.') {
        place = match step.strip_suffix("[]") {
            Some(name) => &mut place[name][0],
            None => &mut place[step],
        };
    }
    *place = value.clone();
    document
}

fn text(mut document: Value) -> String {
    document["apiVersion"] = super::super::KUBEKEY.into();
    document.to_string()
}

#[test]
fn every_field_of_kubekeys_types_is_carried_over_or_reported() {
    for Row { field, value, fate } in rows() {
        let before = import(&text(base(field)));
        let after = import(&text(with(base(field), field, &value)));
        let said = field.trim_start_matches("manifest.").replace("[]", "[0]");
        if let Some(expected) = fate.strip_prefix("=> ") {
            let (ours, expected) = expected.split_once(' ').unwrap();
            assert_eq!(*at(&yaml(&after.cluster_yaml), ours), yaml(expected), "{field}\n{}", after.cluster_yaml);
        } else if fate == "told" {
            assert!(is_reported(&after, &said), "{field} is lost: {:?}", after.left);
            assert!(!is_reported(&before, &said), "{field} is told where it is not said");
        } else {
            assert!(fate.starts_with("quiet: "), "{field}: {fate}");
            assert_eq!((after.cluster_yaml, after.left), (before.cluster_yaml, before.left), "{field}");
        }
    }
}

#[test]
fn the_table_has_each_field_once_and_a_value_that_says_something() {
    let rows = rows();
    let fields: BTreeSet<&str> = rows.iter().map(|row| row.field).collect();
    assert_eq!((fields.len(), rows.len() > 190), (rows.len(), true));
    assert!(rows.iter().all(|row| !matches!(&row.value, Value::Null) && row.value != json!("")));
}

#[test]
fn a_field_that_nobody_knows_is_reported() {
    for field in ["spec.extra", "spec.hosts[].colour", "spec.kubernetes.imageRepo", "spec.addons[].sources.chart.x"] {
        let after = import(&text(with(base(field), field, &json!("value"))));
        let said = field.replace("[]", "[0]");
        assert!(is_reported(&after, &said), "{field}: {:?}", after.left);
    }
}
