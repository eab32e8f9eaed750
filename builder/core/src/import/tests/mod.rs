//! What becomes of KubeKey's files.

mod addons;
mod defaults;
mod fields;
mod refused;
mod samples;
mod scripts;
mod secrets;
mod values;

use kubexm_spec::Cluster;
use kubexm_spec::cluster::parse;
use kubexm_spec::yaml::{At, Sink};
use serde_json::Value;

use super::{Defaults, Imported, kubekey};

/// A Cluster of one host, and more of its spec (indented by two).
fn file(spec: &str) -> String {
    format!(
        "apiVersion: kubekey.kubesphere.io/v1alpha2\nkind: Cluster\nmetadata: {{name: sample}}\nspec:\n  hosts: [{{name: node1, address: 10.0.0.1}}]\n  roleGroups: {{master: [node1], etcd: [node1]}}\n{spec}"
    )
}

/// It is imported, and our own reader takes it.
fn import(text: &str) -> Imported {
    let imported = kubekey(text, Defaults::Write).unwrap_or_else(|error| panic!("{error}\n{text}"));
    parse(&imported.cluster_yaml).unwrap_or_else(|error| panic!("{error}\n{}", imported.cluster_yaml));
    imported
}

fn cluster(imported: &Imported) -> Cluster {
    parse(&imported.cluster_yaml).unwrap()
}

/// YAML as JSON, as our reader has it.
fn json(yaml: &str) -> Value {
    let tree = kubexm_spec::yaml::parse(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    At::root(&tree, &Sink::default()).json()
}

/// The value at `spec.hosts[0].name`.
fn at<'v>(document: &'v Value, path: &str) -> &'v Value {
    let mut value = document;
    for step in path.split('.') {
        let (name, index) = step.split_once('[').map_or((step, None), |(name, index)| (name, Some(index)));
        value = &value[name];
        if let Some(index) = index {
            value = &value[index.trim_end_matches(']').parse::<usize>().unwrap()];
        }
    }
    value
}

/// Whether something is reported about a place, of a block that it is in, or of what is in it.
fn is_reported(imported: &Imported, path: &str) -> bool {
    let within = |one: &str, other: &str| {
        one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    imported.left.iter().any(|left| within(path, &left.path) || within(&left.path, path))
}

/// What is reported about exactly this place.
fn left_at<'i>(imported: &'i Imported, path: &str) -> Vec<&'i str> {
    imported.left.iter().filter(|left| left.path == path).map(|left| left.reason.as_str()).collect()
}
