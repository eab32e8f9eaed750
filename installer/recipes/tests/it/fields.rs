//! No field of cluster.yaml is left out in silence: with a value that is not its default, either the plan of `create` changes, or
//! the cluster is refused and the field is named. The table must have every field that the format's own description has.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::collections::BTreeSet;

use crate::common::Site;
use kubexm_plan::Op;
use kubexm_plan::Plan;
use kubexm_plan::cluster_facts::applied;
use kubexm_plan::facts::InstalledPackages;
use kubexm_recipes::{RecipeError, unsupported};
use kubexm_spec::Family;
use kubexm_spec::cluster;
use kubexm_spec::yaml::{Object, Shape};
use serde_json::{Value, json};

use self::table::{By, fields};

mod table;

fn base() -> Value {
    json!({
        "apiVersion": "kubexm.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "demo"},
        "spec": {
            "hosts": [
                {"name": "node1", "address": "10.77.0.11", "user": "operator"},
                {"name": "node2", "address": "10.77.0.12"},
            ],
            "roleGroups": {"master": ["node1"], "worker": ["node1", "node2"]},
            "kubernetes": {"version": "v1.34.4"},
            "runtime": {"version": "2.2.7"},
            "bundle": {"os": ["debian-12", "rocky-9"]},
        },
    })
}

/// JSON merge patch (RFC 7386).
fn merge(into: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *into = patch;
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(&key);
        } else {
            merge(&mut into[key.as_str()], value);
        }
    }
}

fn outcome(patch: Value) -> Result<Plan, RecipeError> {
    let mut document = base();
    merge(&mut document["spec"], patch);
    let cluster = cluster::parse(&document.to_string()).unwrap_or_else(|problems| panic!("{document}\n{problems}"));
    // What is refused has no bundle yet that it could be asked of.
    unsupported::refuse(&cluster)?;
    let mut site = Site::of(cluster);
    for facts in site.facts.values_mut() {
        facts.firewalls = vec!["firewalld".to_owned()];
        // Something that comes where there are packages.
        facts.programs.insert("socat".to_owned(), None);
    }
    // One host of each family of packages.
    if let Some(facts) = site.facts.get_mut("node2") {
        (facts.os_id, facts.os_version) = ("rocky".to_owned(), "9.4".to_owned());
        let list = "N\tiptables-nft\t0\t1.0\t1\tx86_64\n".to_owned();
        facts.packages = Some(InstalledPackages { family: Family::Rpm, list, broken: None });
    }
    let mut plan = site.create()?;
    // The record of what was applied has every field: it shows nothing of who acts on them.
    let is_record = |op: &Op| matches!(op, Op::KubeObject(object) if object.name == applied::CONFIG_MAP);
    for step in plan.steps.extract_if(.., |step| step.ops.iter().any(is_record)) {
        step.ops.iter().filter_map(Op::text).for_each(|text| drop(plan.texts.remove(&text)));
    }
    Ok(plan)
}

/// Whether a problem at `named` is about `field`: at it or above it; the kind of a part speaks for the whole part.
fn covers(named: &str, field: &str) -> bool {
    let named = named.strip_prefix("spec.").unwrap();
    let named: String = named.chars().filter(|c| !c.is_ascii_digit() && !matches!(c, '[' | ']')).collect();
    // Roles that mean something only to one kind of a part are refused with that kind.
    let field = match field {
        "roleGroups.etcd" => "etcd".to_owned(),
        "roleGroups.loadbalancer" => "loadBalancer".to_owned(),
        _ => field.replace("[]", "").replace("{}", ""),
    };
    let part = named.strip_suffix(".type").or_else(|| named.strip_suffix(".mode")).unwrap_or(&named);
    let part = part.strip_suffix(".external").unwrap_or(part);
    field == part || field.starts_with(&format!("{part}."))
}

#[test]
fn every_field_changes_the_plan_or_is_listed_as_unsupported() {
    let before = outcome(json!({})).unwrap();
    let mut silent = Vec::new();
    for (field, by, patch) in fields() {
        let heard = match outcome(patch) {
            Ok(plan) => plan != before,
            Err(RecipeError::NotInstalled { all }) => all.iter().any(|unsupported| covers(&unsupported.path, field)),
            Err(RecipeError::ArchMismatch { .. }) => field == "hosts[].arch",
            // A role that no host has, say: not what this test means to try.
            Err(error) => panic!("{field}: {error}"),
        };
        // What others act on must not stop the recipes, and needs no row for itself once a recipe acts on it.
        if heard != (by == By::Recipe) {
            silent.push(format!("{field}: {by:?}, and the recipes {}", if heard { "hear it" } else { "are silent" }));
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

#[test]
fn every_field_of_the_format_is_in_the_table() {
    let mut format = BTreeSet::new();
    leaves(&cluster::FILE, "", &mut format);
    let format: BTreeSet<_> = format.iter().filter_map(|path| path.strip_prefix("spec.")).collect();
    let all = fields();
    let table: BTreeSet<_> = all.iter().map(|(field, ..)| *field).collect();
    assert_eq!(format, table);
}

fn leaves(object: &Object, path: &str, into: &mut BTreeSet<String>) {
    for field in object.fields.iter().filter(|field| !matches!(field.shape, Shape::Refused)) {
        let path = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
        leaf(&field.shape, path, into);
    }
}

fn leaf(shape: &Shape, path: String, into: &mut BTreeSet<String>) {
    match shape {
        Shape::Mapping(object) => leaves(object, &path, into),
        Shape::List(item) | Shape::Some(item) if item.object().is_some() => leaf(item, format!("{path}[]"), into),
        Shape::Named(item) if item.object().is_some() => leaf(item, format!("{path}{{}}"), into),
        Shape::Either(one, other) if one.object().is_some() => {
            leaf(one, path.clone(), into);
            leaf(other, path, into);
        }
        _ => {
            into.insert(path);
        }
    }
}
