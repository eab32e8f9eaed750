//! kubeadm may leave its etcd alone only where nothing of it is to change.

use kubexm_plan::op::UpgradeOf;
use kubexm_spec::cluster::Selinux;

use super::*;

/// Of what kubeadm upgrades in the plan, whether its etcd has the settings that it is to have.
fn same_etcd(plan: &Plan) -> Vec<(&'static str, bool)> {
    let acts = plan.steps.iter().flat_map(|step| &step.ops).filter_map(|op| match op {
        Op::Act(Act::KubeadmUpgrade(act)) => Some(act),
        _ => None,
    });
    let of = |act: &KubeadmUpgrade| match act.of {
        UpgradeOf::Cluster { .. } => "first",
        UpgradeOf::ControlPlane => "other",
        UpgradeOf::Worker => "worker",
    };
    acts.map(|act| (of(act), act.same_etcd)).collect()
}

#[test]
fn etcd_keeps_its_settings_where_those_of_the_last_run_are_known_and_the_same() {
    let case = |cluster: Cluster, had: Option<Cluster>| {
        let mut case = Case::with(cluster, PATCH);
        case.running.applied = had.map(applied);
        same_etcd(&case.steps())
    };
    let cluster = || sample::fleet(2, 1);
    let all = |same| vec![("first", same), ("other", same), ("worker", false)];
    assert_eq!(case(cluster(), Some(cluster())), all(true));
    assert_eq!(case(cluster(), None), all(false), "no record");
    let mut smaller = cluster();
    smaller.etcd.quota = Some(4 << 30);
    assert_eq!(case(cluster(), Some(smaller)), all(false), "another quota");
    let confined = || {
        let mut cluster = cluster();
        cluster.system.selinux = Selinux::Confine;
        cluster
    };
    assert!(case(confined(), Some(confined()))[0] == ("first", false), "a patch may be one of its manifest");
}

#[test]
fn what_others_have_made_is_left_to_kubeadm() {
    let mut case = adopted::adopted(2, 1, PATCH);
    case.running.applied = Some(applied(case.site.cluster.clone()));
    assert!(same_etcd(&case.steps()).iter().all(|(_, same)| !same));
}
