//! `certs renew --authorities`: the certificates of kubeadm's authorities are renewed under their own keys, host by host.

use kubexm_plan::SlotProvider;
use kubexm_plan::kubeadm_certificates::{AUTHORITIES, CLUSTER_CA};
use kubexm_plan::op::{KUBELET_CLIENT, Op, RenewedFrom};
use kubexm_recipes::Renew;
use kubexm_spec::Digest;
use kubexm_spec::cluster::EtcdKind;

use crate::certs_renew::{DAY, NOW, Site};

/// Its authorities end in so many days.
fn site(control_planes: u8, workers: u8, days: i64) -> Site {
    let mut site = Site::of(control_planes, workers, 300);
    for one in site.running.certificates.iter_mut().filter(|one| AUTHORITIES.contains(&one.path.as_str())) {
        one.ends = NOW + days * DAY;
        one.file = Some(Digest::of(&one.path));
    }
    site.wanted = Renew { authorities: true, ..Renew::default() };
    site
}

/// `(host, path, whether it is signed there)`.
fn renewed(site: &Site) -> Vec<(String, String, bool)> {
    let plan = site.plan().unwrap().plan;
    let ops = plan.steps.iter().flat_map(|step| step.ops.iter().map(|op| (step.host.clone(), op)));
    let of = |(host, op): (String, &Op)| match op {
        Op::AuthorityRenewed(op) => Some((host, op.path.clone(), matches!(op.from, RenewedFrom::Key { .. }))),
        _ => None,
    };
    ops.filter_map(of).collect()
}

const OF_PLANE: [&str; 8] = [
    "certs.kubeconfigs",
    "certs.kubelet-authority",
    "certs.restart-etcd",
    "certs.restart-apiserver",
    "certs.restart-controller-manager",
    "certs.restart-scheduler",
    "kubeconfig.users",
    "certs.ready",
];

#[test]
fn every_control_plane_has_them_before_the_first_is_restarted_and_workers_come_last() {
    let site = site(2, 1, 30);
    let mut wanted = vec!["node1/certs.authorities".to_owned(), "node2/certs.authorities-taken".to_owned()];
    wanted.extend(["node1", "node2"].iter().flat_map(|host| OF_PLANE.map(|step| format!("{host}/{step}"))));
    wanted.extend(
        [
            "node1/certs.published",
            "@controller/kubeconfig.operator",
            "node3/certs.kubelet-authority",
            "node1/certs.ready-node3",
        ]
        .map(str::to_owned),
    );
    assert_eq!(site.steps(), wanted);
    let all = |host: &str, signed| AUTHORITIES.map(|path| (host.to_owned(), path.to_owned(), signed));
    let mut wanted: Vec<_> = all("node1", true).into_iter().chain(all("node2", false)).collect();
    wanted.push(("node3".to_owned(), CLUSTER_CA.to_owned(), false));
    assert_eq!(renewed(&site), wanted);
    let plan = site.plan().unwrap();
    let from = |path: &str| SlotProvider::SharedFile { host: "node1".to_owned(), path: path.to_owned() };
    for path in AUTHORITIES {
        assert!(plan.plan.slots.values().any(|provider| *provider == from(path)), "{path}");
    }
    assert!(plan.warnings.iter().any(|text| text.contains("within 30 days, when it ends")), "{:?}", plan.warnings);
}

#[test]
fn what_reads_an_authority_when_it_starts_is_started_again() {
    let plan = site(1, 0, 30).plan().unwrap().plan;
    let after = |pod: &str| {
        let ops = plan.steps.iter().flat_map(|step| &step.ops);
        ops.filter_map(|op| match op {
            Op::StaticPodStarted(op) if op.pod == pod => Some(op.after.clone()),
            _ => None,
        })
        .next()
        .unwrap()
    };
    let [ca, etcd, front_proxy] = AUTHORITIES.map(str::to_owned);
    assert!(after("etcd").contains(&etcd) && !after("etcd").contains(&ca));
    assert!([&ca, &etcd, &front_proxy].iter().all(|path| after("kube-apiserver").contains(path)));
    assert!(after("kube-controller-manager").contains(&ca));
    // Without the option nobody is started again for them.
    let mut plain = site(1, 0, 30);
    plain.wanted = Renew::default();
    let plan = plain.plan().unwrap();
    assert!(!format!("{:?}", plan.plan.steps).contains(CLUSTER_CA));
    assert!(plan.warnings.iter().any(|text| text.contains("certs renew --authorities")), "{:?}", plan.warnings);
}

#[test]
fn those_that_end_late_are_only_compared_and_what_a_renewal_has_left_is_brought_to_the_end() {
    let late = site(3, 1, 400);
    assert!(renewed(&late).iter().all(|(_, _, signed)| !signed));
    assert!(!late.plan().unwrap().warnings.iter().any(|text| text.contains("pods that run")));
    // The second control plane renewed the CA; the run was lost, and with it its plan.
    let mut left = site(3, 1, 30);
    left.ends("node2", CLUSTER_CA, NOW + 3_000 * DAY);
    let ca: Vec<_> = renewed(&left).into_iter().filter(|(_, path, _)| path == CLUSTER_CA).collect();
    assert_eq!(ca.iter().map(|(host, ..)| host.as_str()).collect::<Vec<_>>(), ["node1", "node3", "node4"]);
    assert!(ca.iter().all(|(_, _, signed)| !signed));
    // The others are renewed where that is first.
    assert!(renewed(&left).contains(&("node1".to_owned(), AUTHORITIES[1].to_owned(), true)));
    let mut forced = late;
    forced.wanted.force = true;
    assert_eq!(renewed(&forced).iter().filter(|(_, _, signed)| *signed).count(), 3);
}

#[test]
fn where_one_has_ended_all_hosts_get_theirs_before_the_first_restart() {
    let mut site = site(2, 1, -1);
    site.running.server_version = None;
    let healthy = || self::site(2, 1, -1);
    let steps = site.steps();
    let at =
        |wanted: &str| steps.iter().position(|step| step == wanted).unwrap_or_else(|| panic!("{wanted}: {steps:?}"));
    assert!(at("node2/certs.kubelet-authority") < at("node1/certs.restart-etcd"));
    assert!(at("node2/certs.restart-apiserver") < at("node1/certs.restart-controller-manager"));
    // One whose certificate has ended gets another one before kubelet is restarted.
    site.ends("node3", KUBELET_CLIENT, NOW - DAY);
    let steps = site.steps();
    let at =
        |wanted: &str| steps.iter().position(|step| step == wanted).unwrap_or_else(|| panic!("{wanted}: {steps:?}"));
    assert!(at("node3/certs.kubelet") < at("node3/certs.kubelet-authority"));
    // While everything runs, or where only aggregated APIs are away, one control plane follows the other.
    let mut runs = Site { running: site.running.clone(), ..healthy() };
    runs.running.server_version = Some("v1.34.4".to_owned());
    let steps = runs.steps();
    let at =
        |wanted: &str| steps.iter().position(|step| step == wanted).unwrap_or_else(|| panic!("{wanted}: {steps:?}"));
    assert!(at("node1/certs.ready") < at("node2/certs.kubeconfigs"));
    // Without the option it is refused, with the command that helps.
    site.wanted = Renew::default();
    site.refused("certs renew --authorities");
}

#[test]
fn those_of_others_stay() {
    let mut own_etcd = site(1, 1, 30);
    own_etcd.cluster.etcd.kind = EtcdKind::Kubexm;
    own_etcd.cluster.role_groups.etcd = vec!["node1".to_owned()];
    assert!(renewed(&own_etcd).iter().all(|(_, path, _)| path != AUTHORITIES[1]));
}

#[test]
fn every_node_is_needed_and_a_host_that_is_none_yet_is_left() {
    let mut site = site(1, 1, 30);
    site.facts.get_mut("node2").unwrap().joined = false;
    assert!(renewed(&site).iter().all(|(host, ..)| host == "node1"));
    site.facts.remove("node2");
    site.refused("node2 was not reached: with --authorities every node is needed");
}
