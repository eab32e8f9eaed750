//! Other settings for nodes that have the version already.

use kubexm_spec::Digest;

use super::*;

fn with_settings(of: UpgradeOf, text: &str) -> Op {
    let Op::Act(kubexm_plan::Act::KubeadmUpgrade(act)) = upgrade(of) else { unreachable!("it is one") };
    KubeadmUpgrade { settings: Some(Digest::of(text)), ..act }.into()
}

#[test]
fn a_node_of_the_right_version_gets_other_settings_once() {
    let fleet = fleet();
    let cluster = || UpgradeOf::Cluster { config: Some(CONFIG.to_owned()) };
    let hosts = [(cluster(), 0), (UpgradeOf::ControlPlane, 1), (UpgradeOf::Worker, 2)];
    for (of, host) in &hosts {
        let machine = &fleet.hosts[*host].machine;
        dispatch::converge(&upgrade(of.clone()), machine).expect("the version");
        let settings = |text: &str| with_settings(of.clone(), text);
        assert_eq!(progress(&settings("one"), machine), Progress::NotBegun, "the version is no sign of them");
        dispatch::converge(&settings("one"), machine).expect("the settings");
        assert_eq!(progress(&settings("one"), machine), Progress::Done);
        assert_eq!(progress(&settings("other"), machine), Progress::NotBegun);
        assert_eq!(progress(&upgrade(of.clone()), machine), Progress::Done);
    }
}

/// What comes after kubeadm has failed, and is rolled back: the config of before is there again, and kubeadm was given another one.
#[test]
fn what_kubeadm_was_given_is_known_although_the_file_of_the_cluster_is_that_of_before() {
    let fleet = fleet();
    let (host, machine) = (&fleet.hosts[0], &fleet.hosts[0].machine);
    dispatch::converge(&first(), machine).expect("upgraded");
    host.put("/etc/kubexm/kubeadm.yaml", "kind: ClusterConfiguration\n");
    let found = facts::collect(machine, "node1").expect("facts");
    assert_eq!(found.kubeadm_config_text.as_deref(), Some(TEXT));
}

/// A worker's file of before an earlier upgrade is not what it had before this one.
#[test]
fn a_worker_that_did_not_begin_keeps_its_configuration_when_the_run_is_rolled_back() {
    let fleet = fleet();
    let (host, machine) = (&fleet.hosts[2], &fleet.hosts[2].machine);
    dispatch::converge(&first(), &fleet.hosts[0].machine).expect("the cluster");
    dispatch::converge(&upgrade(UpgradeOf::Worker), machine).expect("the version");
    let now = host.read(KUBELET);
    let undo = |text: &str| -> Op {
        KubeadmUpgradeUndo { version: VERSION.to_owned(), settings: Some(Digest::of(text)) }.into()
    };
    assert_eq!(progress(&undo("one"), machine), Progress::Done, "nothing of it is there");
    dispatch::converge(&undo("one"), machine).expect("nothing to do");
    assert_eq!(host.read(KUBELET), now);
    dispatch::converge(&with_settings(UpgradeOf::Worker, "one"), machine).expect("the settings");
    host.put(KUBELET, "edited\n");
    dispatch::converge(&undo("one"), machine).expect("undone");
    assert_eq!(host.read(KUBELET), now);
}
