//! The record of what was applied, without deleted hosts.

use std::collections::BTreeSet;

use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::cluster_facts::applied;
use kubexm_plan::op::KubeObject;
use kubexm_plan::{Step, Undo};
use kubexm_spec::Digest;
use serde_json::Value;

use super::context::DeleteContext;
use crate::error::RecipeError;
use crate::modules::record;

/// The step that writes the record and the text of its object; none if the record does not name the hosts, or there is
/// none that can be read.
pub(super) fn without(
    cx: &DeleteContext<'_>,
    on: &str,
    gone: &BTreeSet<&str>,
) -> Result<Option<(Step, String)>, RecipeError> {
    let Some(found) = &cx.running.applied else { return Ok(None) };
    let mut cluster = found.cluster.clone();
    remove(&mut cluster, gone);
    if cluster == found.cluster {
        return Ok(None);
    }
    let program = record::PROGRAM.to_owned();
    let text =
        record::object(&AppliedCluster { cluster, program, cluster_sha256: cx.cluster_digest, ..found.clone() })?;
    let step = Step::on(on, "record.applied", "Record in the cluster what it consists of")
        .ensure(KubeObject::new(applied::CONFIG_MAP, Digest::of(&text)))
        .retries(3)
        .undo(Undo::RestoreBefore)
        .build();
    Ok(Some((step, text)))
}

/// Removes hosts from `spec.hosts` and from every role group but that of the registry.
fn remove(cluster: &mut Value, gone: &BTreeSet<&str>) {
    let is_gone = |name: &Value| name.as_str().is_some_and(|name| gone.contains(name));
    if let Some(hosts) = cluster.pointer_mut("/spec/hosts").and_then(Value::as_array_mut) {
        hosts.retain(|host| !is_gone(&host["name"]));
    }
    let groups = cluster.pointer_mut("/spec/roleGroups").and_then(Value::as_object_mut);
    let groups = groups.into_iter().flatten();
    // A registry host is deleted only where it was lost: nodes pull from it still, and the same host is to come back.
    for group in groups.filter(|(role, _)| *role != "registry").filter_map(|(_, group)| group.as_array_mut()) {
        group.retain(|name| !is_gone(name));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deleted_host_is_in_no_list_of_the_record() {
        let mut cluster = json!({"spec": {
            "hosts": [{"name": "node1"}, {"name": "node2"}],
            "roleGroups": {"master": ["node1"], "worker": ["node1", "node2"], "registry": ["node2"]},
        }});
        remove(&mut cluster, &BTreeSet::from(["node2"]));
        let wanted = json!({"spec": {
            "hosts": [{"name": "node1"}],
            "roleGroups": {"master": ["node1"], "worker": ["node1"], "registry": ["node2"]},
        }});
        assert_eq!(cluster, wanted);
    }
}
