//! The laws of a renewal and of an upgrade on a cluster that was adopted: the hosts let nothing else be done there.

use kubexm_plan::Op;
use kubexm_tests::laws::{Case, Fleet, Points, Rooted, Simulated};
use kubexm_tests::samples::{ADOPTED, ADOPTED_ETCD, SAMPLES};

async fn renewal<F: Fleet>() -> Case<F> {
    Case::<F>::of_adopted(&SAMPLES[0]).await.unwrap_or_else(|why| panic!("{why}"))
}

async fn upgrade<F: Fleet>() -> Case<F> {
    Case::<F>::of_adopted_upgrade(&ADOPTED).await.unwrap_or_else(|why| panic!("{why}"))
}

async fn hold<F: Fleet>(case: Case<F>, count: usize) -> Result<(), String> {
    let points = Points::Drawn { count, seed: 4 };
    case.a_failure_anywhere_unwinds_to_the_state_before(points).await?;
    case.a_crash_at_any_record_resumes_to_the_same_end(points).await?;
    case.a_rollback_resumed_after_a_crash_at_any_record_has_the_same_end(points).await?;
    case.a_second_run_changes_nothing().await
}

#[tokio::test]
async fn a_copy_of_the_earlier_admin_conf_becomes_one_of_the_renewed() {
    let case = renewal::<Rooted>().await;
    let host = case.plan().hosts[0].name.clone();
    let copies = case.plan().steps.iter().flat_map(|step| &step.ops);
    assert!(copies.into_iter().any(|op| matches!(op, Op::Kubeconfig(op) if op.replaces.is_some())));
    let read = |fleet: &Rooted, path: &str| std::fs::read(fleet.machine(&host).path(path)).expect("a file");
    let (admin, copy) = ("/etc/kubernetes/admin.conf", "/root/.kube/config");
    let before = read(case.start(), admin);
    assert_eq!(read(case.start(), copy), before);
    let fleet = case.carried_out().await.unwrap_or_else(|why| panic!("{why}"));
    assert_ne!(read(&fleet, admin), before);
    assert_eq!(read(&fleet, copy), read(&fleet, admin));
}

#[tokio::test]
async fn an_upgrade_brings_every_node_the_new_version_and_leaves_the_cluster_adopted() {
    let case = upgrade::<Rooted>().await;
    let before = |host: &str, path: &str| std::fs::read(case.start().machine(host).path(path)).ok();
    let fleet = case.carried_out().await.unwrap_or_else(|why| panic!("{why}"));
    let read = |host: &str, path: &str| std::fs::read_to_string(fleet.machine(host).path(path)).expect("a file");
    for host in case.plan().hosts.iter().map(|host| host.name.as_str()) {
        for program in ["kubeadm", "kubelet", "kubectl"] {
            assert!(read(host, &format!("/usr/local/bin/{program}")).contains("1.35.4"), "{program} on {host}");
        }
        let stamp = read(host, "/var/lib/kubexm/stamp.json");
        assert!(stamp.contains("\"adopted\": true"), "{stamp}");
        for theirs in [
            "/etc/containerd/config.toml",
            "/etc/systemd/system/kubelet.service",
            "/usr/local/bin/containerd",
            "/etc/hosts",
        ] {
            assert_eq!(
                before(host, theirs),
                std::fs::read(fleet.machine(host).path(theirs)).ok(),
                "{theirs} of {host}"
            );
        }
    }
    let manifest = read("node2", "/etc/kubernetes/manifests/kube-apiserver.yaml");
    assert!(manifest.contains("kube-apiserver:v1.35.4"), "{manifest}");
}

#[tokio::test]
async fn the_laws_of_a_renewal_hold_on_the_simulated_fleet() {
    hold(renewal::<Simulated>().await, 12).await.unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test]
async fn the_laws_of_a_renewal_hold_with_the_real_ops() {
    hold(renewal::<Rooted>().await, 3).await.unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test]
async fn the_laws_of_an_upgrade_hold_on_the_simulated_fleet() {
    hold(upgrade::<Simulated>().await, 12).await.unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test]
async fn the_laws_of_an_upgrade_hold_with_the_real_ops() {
    hold(upgrade::<Rooted>().await, 3).await.unwrap_or_else(|why| panic!("{why}"));
}

async fn beside_an_etcd_of_others<F: Fleet>() -> Case<F> {
    Case::<F>::of_adopted_upgrade(&ADOPTED_ETCD).await.unwrap_or_else(|why| panic!("{why}"))
}

#[tokio::test]
async fn the_laws_of_an_upgrade_beside_an_etcd_of_others_hold_on_the_simulated_fleet() {
    hold(beside_an_etcd_of_others::<Simulated>().await, 12).await.unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test]
async fn the_laws_of_an_upgrade_beside_an_etcd_of_others_hold_with_the_real_ops() {
    hold(beside_an_etcd_of_others::<Rooted>().await, 3).await.unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test]
async fn the_laws_of_a_renewal_beside_an_etcd_of_others_hold_on_the_simulated_fleet() {
    let case = Case::<Simulated>::of_adopted(&ADOPTED_ETCD).await.unwrap_or_else(|why| panic!("{why}"));
    assert!(!case.plan().render().contains("pki/etcd"), "{}", case.plan().render());
    hold(case, 12).await.unwrap_or_else(|why| panic!("{why}"));
}
