//! A cluster that was adopted: what a backup needs there is what others have put there, and is looked for before anything is asked of a host.

use kubexm_plan::ClusterFacts;
use kubexm_recipes::RecipeError;
use kubexm_spec::{Cluster, one_line};

use crate::error::SessionError;

/// They save a snapshot of etcd, and verify it.
const TOOLS: [&str; 2] = ["etcdctl", "etcdutl"];
const BY_HAND: &str = "mend that, or save a snapshot on a control plane yourself, with `etcdctl snapshot save`";

/// Refuses an adopted cluster whose etcd is another one than cluster.yaml says, or that has nothing to take a snapshot with.
///
/// # Errors
/// Each reason by name.
pub(super) fn refuse(cluster: &Cluster, running: &ClusterFacts) -> Result<(), SessionError> {
    if !running.kubelets.iter().any(|kubelet| !kubelet.programs.is_empty()) {
        return Ok(());
    }
    let mut problems = kubexm_recipes::adoption::other_etcd(cluster, running);
    let planes = &cluster.role_groups.control_plane;
    if !planes.iter().any(|plane| has_tools(running, plane)) {
        problems.push(format!(
            "{} are not both in the PATH of any control plane ({}): put them there, from the release of etcd that the cluster runs",
            TOOLS.join(" and "),
            planes.join(", ")
        ));
    }
    if problems.is_empty() {
        return Ok(());
    }
    let problems = problems.iter().map(|problem| one_line(problem)).collect();
    let cluster = cluster.name.clone();
    Err(RecipeError::ByHand { cluster, what: "back it up", problems, by_hand: BY_HAND }.into())
}

/// Hosts say which programs they have where the cluster was adopted; on others kubexm has put them.
pub(super) fn has_tools(running: &ClusterFacts, host: &str) -> bool {
    let kubelet = running.kubelets.iter().find(|kubelet| kubelet.host == host);
    let programs = kubelet.map(|kubelet| kubelet.programs.as_slice()).unwrap_or_default();
    programs.is_empty() || TOOLS.iter().all(|tool| programs.iter().any(|program| program.name == *tool))
}

#[cfg(test)]
mod tests {
    use kubexm_recipes::{sample, sample_adoption};
    use kubexm_spec::{ExitCode, ExitError as _};

    use super::*;

    #[test]
    fn an_adopted_cluster_without_the_tools_or_with_another_etcd_is_refused_by_name() {
        let cluster = sample::fleet(2, 0);
        let whole = sample_adoption::running(&cluster);
        refuse(&cluster, &whole).unwrap();
        // One control plane with both is enough, and it is the one that is asked.
        let mut running = whole.clone();
        running.kubelets[0].programs.retain(|program| program.name != "etcdutl");
        refuse(&cluster, &running).unwrap();
        assert_eq!([has_tools(&running, "node1"), has_tools(&running, "node2")], [false, true]);
        running.kubelets[1].programs.retain(|program| program.name != "etcdctl");
        let refused = refuse(&cluster, &running).unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::Unsupported);
        let text = refused.to_string();
        assert!(text.contains("etcdctl and etcdutl") && text.contains("(node1, node2)"), "{text}");
        let theirs = sample_adoption::with_external_etcd(cluster.clone());
        let text = refuse(&theirs, &whole).unwrap_err().to_string();
        assert!(text.contains("node1: spec.etcd.type of cluster.yaml is external"), "{text}");
        let text = refuse(&cluster, &sample_adoption::running(&theirs)).unwrap_err().to_string();
        assert!(
            text.contains("`etcd: {type: external, externalConfig: {endpoints: [\"https://10.0.9.1:2379\""),
            "{text}"
        );
        // Of a cluster of kubexm's own nothing of the kind is said.
        running.kubelets.iter_mut().for_each(|kubelet| kubelet.programs.clear());
        refuse(&theirs, &running).unwrap();
    }
}
