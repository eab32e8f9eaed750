//! The laws of a renewal of authorities (`certs renew --authorities`), with the real ops.

use kubexm_plan::kubeadm_certificates::AUTHORITIES;
use kubexm_tests::laws::{Case, Points, Rooted};
use kubexm_tests::samples::{RENEWED, Sample};

const FEW: Points = Points::Drawn { count: 3, seed: 7 };
const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";

async fn hold(sample: &Sample, ended: bool) -> Result<(), String> {
    let case = Case::of_authorities(sample, ended).await?;
    case.its_invariants_hold_at_every_point().await?;
    case.a_failure_anywhere_unwinds_to_the_state_before(FEW).await?;
    case.a_failure_that_is_kept_resumes_to_the_same_end(FEW).await?;
    case.a_crash_at_any_record_resumes_to_the_same_end(FEW).await?;
    case.a_second_run_changes_nothing().await?;
    every_host_has_the_same_and_trusts_it(&case).await
}

async fn every_host_has_the_same_and_trusts_it(case: &Case<Rooted>) -> Result<(), String> {
    let (before, after) = (case.start(), case.carried_out().await?);
    let read = |fleet: &Rooted, host: &str, path: &str| std::fs::read(fleet.machine(host).path(path)).ok();
    let nodes = ["node1", "node2", "node3"];
    let of_kubexm = ["/etc/kubexm/etcd/ca.crt", "/etc/kubexm/etcd-client/ca.crt"];
    for path in AUTHORITIES.into_iter().chain(of_kubexm) {
        let had: Vec<_> =
            nodes.iter().filter_map(|host| Some((read(before, host, path)?, read(&after, host, path)?))).collect();
        let Some((old, new)) = had.first() else { continue };
        assert!(had.iter().all(|(was, is)| was == old && is == new && is != was), "{path} is not renewed everywhere");
    }
    for host in nodes {
        assert_ne!(read(before, host, KUBELET_CONF), read(&after, host, KUBELET_CONF), "{host}: {KUBELET_CONF}");
    }
    Ok(())
}

#[tokio::test]
async fn they_hold_while_everything_is_valid() {
    hold(&RENEWED[0], false).await.unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test]
async fn they_hold_where_the_authorities_have_ended() {
    hold(&RENEWED[0], true).await.unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test]
async fn they_hold_with_an_etcd_of_kubexms() {
    hold(&RENEWED[1], false).await.unwrap_or_else(|why| panic!("{why}"));
}
