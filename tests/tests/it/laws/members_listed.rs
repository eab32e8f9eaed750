//! The laws of a `create` after an `add-node` that added a member of etcd, was cut off, and is lost: every place has the whole list then.

use kubexm_engine::sim::Snapshot;
use kubexm_plan::Pipeline;
use kubexm_tests::laws::{Case, Fleet as _, Points, Rooted};
use kubexm_tests::samples;

const FEW: Points = Points::Drawn { count: 2, seed: 4 };

/// Places with the list: the API server's manifest, kubeadm's config with its record, and the ConfigMap.
fn lists(snapshot: &Snapshot) -> Vec<(String, String)> {
    const FILES: [&str; 3] = [
        "path:/etc/kubernetes/manifests/kube-apiserver.yaml",
        "path:/etc/kubexm/kubeadm.yaml",
        "path:/var/lib/kubexm/acts/kubeadm-init.json",
    ];
    let first = snapshot.get("node1").into_iter().flatten();
    let files = first.filter(|(key, _)| FILES.iter().any(|file| file.ends_with(key.as_str()) || key == file));
    let cluster = snapshot.get("(cluster)").into_iter().flatten().filter(|(key, _)| key.contains("kubeadm-config"));
    files.chain(cluster).map(|(key, value)| (key.clone(), value.clone())).collect()
}

async fn is_completed(after: &str) -> Result<(), String> {
    let sample = samples::named("etcd of kubexm's on three hosts of its own");
    let whole = lists(&Case::<Rooted>::of(sample, Pipeline::AddNode).await?.carried_out().await?.snapshot());
    assert_eq!(whole.len(), 4, "{whole:#?}");
    let case = Case::of_cut_off(sample, after).await?;
    assert_ne!(lists(&case.start().snapshot()), whole, "{after}");
    assert_eq!(lists(&case.carried_out().await?.snapshot()), whole, "{after}");
    case.a_failure_anywhere_unwinds_to_the_state_before(FEW).await?;
    case.a_crash_at_any_record_resumes_to_the_same_end(FEW).await?;
    case.a_second_run_changes_nothing().await
}

#[tokio::test]
async fn a_create_gives_every_place_the_members_that_were_added() {
    for last in ["etcd3/etcd.formed", "node1/etcd.endpoints"] {
        is_completed(last).await.unwrap_or_else(|why| panic!("{last}: {why}"));
    }
}
