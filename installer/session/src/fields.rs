//! Fields of cluster.yaml that are not what was applied last.

use std::collections::BTreeSet;

use kubexm_plan::ClusterFacts;
use kubexm_plan::cluster_facts::applied;
use kubexm_recipes::modules::record;
use kubexm_spec::Cluster;
use kubexm_spec::cluster::document;
use serde_json::Value;

/// A field of cluster.yaml that is not what was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedField {
    /// `spec.network.mtu`, `spec.hosts[1].taints`.
    pub field: String,
    /// None if it had not been there.
    pub applied: Option<Value>,
    /// None if it is no longer there.
    pub wanted: Option<Value>,
}

/// Fields that a warning names.
const MOST_FIELDS: usize = 10;
/// Characters of one of them: its names are what a control plane says.
const LONGEST_FIELD: usize = 100;

/// One sentence if cluster.yaml is not what was applied last, besides the hosts that are deleted: for a command that goes by cluster.yaml
/// and applies nothing of it. None where nothing says what was applied.
pub(crate) fn since_applied(cluster: &Cluster, running: &ClusterFacts, deleted: &[String]) -> Option<String> {
    let last = running.applied.as_ref()?;
    let gone: BTreeSet<&str> = deleted.iter().map(String::as_str).collect();
    let (mut before, mut now) = (last.cluster.clone(), applied::recorded(document(cluster)));
    [&mut before, &mut now].into_iter().for_each(|document| record::remove_hosts(document, &gone));
    let mut fields = Vec::new();
    changed("", Some(&before), Some(&now), &mut fields);
    // Another program may not have known a field, which has its default now.
    fields.retain(|one| last.program == record::PROGRAM || one.applied.is_some());
    let short = |one: &ChangedField| one.field.chars().take(LONGEST_FIELD).collect::<String>();
    let named: Vec<String> = fields.iter().take(MOST_FIELDS).map(short).collect();
    let more = match fields.len().saturating_sub(MOST_FIELDS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!named.is_empty()).then(|| {
        format!(
            "cluster.yaml is not what was applied last, in {}{more}: the hosts leave as cluster.yaml describes them, and nothing of the change \
             is applied; if it is not meant, answer no, otherwise `kubexm-install create` applies it",
            named.join(", ")
        )
    })
}

/// Adds what differs between two documents, as deep as they have the same shape.
pub(crate) fn changed(field: &str, applied: Option<&Value>, wanted: Option<&Value>, into: &mut Vec<ChangedField>) {
    match (applied, wanted) {
        _ if applied == wanted => {}
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                let name = if field.is_empty() { key.clone() } else { format!("{field}.{key}") };
                changed(&name, one.get(key), other.get(key), into);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) if one.len() == other.len() => {
            for (n, pair) in one.iter().zip(other).enumerate() {
                changed(&format!("{field}[{n}]"), Some(pair.0), Some(pair.1), into);
            }
        }
        _ => into.push(ChangedField { field: field.to_owned(), applied: applied.cloned(), wanted: wanted.cloned() }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_named_as_deep_as_both_documents_go() {
        let last = json!({"spec": {"network": {"mtu": 1450, "plugin": "flannel"}, "hosts": [{"name": "a"}, {"name": "b"}], "tags": [1]}});
        let now = json!({"spec": {"network": {"plugin": "flannel"}, "hosts": [{"name": "a"}, {"name": "c"}], "tags": [1, 2]}});
        let mut found = Vec::new();
        changed("", Some(&last), Some(&now), &mut found);
        let named: Vec<&str> = found.iter().map(|one| one.field.as_str()).collect();
        assert_eq!(named, ["spec.hosts[1].name", "spec.network.mtu", "spec.tags"]);
        assert_eq!((found[1].applied.clone(), found[1].wanted.clone()), (Some(json!(1450)), None));
        assert_eq!(found[2].wanted, Some(json!([1, 2])));
        let mut none = Vec::new();
        changed("", Some(&last), Some(&last), &mut none);
        assert!(none.is_empty());
    }
}
