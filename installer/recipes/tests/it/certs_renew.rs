//! Certificates are renewed in an order in which the cluster stays up, or comes up again; and not before what is wrong is mended.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::cluster_facts::{Certificate, EtcdMember, Gap};
use kubexm_plan::facts::Stamp;
use kubexm_plan::kubeadm_certificates::{AUTHORITIES, MANAGED};
use kubexm_plan::op::{KUBELET_CLIENT, Op, PodReady};
use kubexm_plan::{ClusterFacts, ClusterId, Facts, Probe, SlotProvider, lint};
use kubexm_recipes::{
    OwnAuthorities, RecipeError, Renew, RenewContext, Renewed, RestoreContext, SignedCertificates, certs_renew,
    restore, sample,
};
use kubexm_spec::cluster::{API_PORT, EtcdKind, InternalKind, LoadBalancerMode};
use kubexm_spec::{Cluster, Digest, ExitCode};

pub const ID: ClusterId = ClusterId::from_random([7; 16]);
pub const NOW: i64 = 1_800_000_000;
pub const DAY: i64 = 24 * 3600;

pub struct Site {
    pub cluster: Cluster,
    pub facts: BTreeMap<String, Facts>,
    pub running: ClusterFacts,
    pub wanted: Renew,
    pub begun: bool,
    pub sealed: BTreeSet<Digest>,
    pub own: Option<OwnAuthorities>,
    pub signed: Option<SignedCertificates>,
}

impl Site {
    /// Control planes and workers whose certificates all end in so many days.
    pub fn of(control_planes: u8, workers: u8, days: i64) -> Self {
        let cluster = sample::fleet(control_planes, workers);
        let mut facts = sample::all_facts(&cluster);
        for facts in facts.values_mut() {
            let cluster = cluster.name.clone();
            facts.stamp = Some(Stamp { cluster, run: "r".to_owned(), id: Some(ID), bundle: None, adopted: false });
            facts.joined = true;
        }
        let planes = &cluster.role_groups.control_plane;
        let member = |name: &String| EtcdMember {
            id: "1".to_owned(),
            name: name.clone(),
            peer_urls: Vec::new(),
            version: Some("3.6.5".to_owned()),
            healthy: true,
            learner: false,
            database: None,
        };
        let certificate = |host: &str, path: &str, ends| Certificate {
            host: host.to_owned(),
            path: path.to_owned(),
            subject: String::new(),
            ends,
            file: Some(Digest::of(format!("{host} {path}"))),
            leaf: None,
        };
        let mut certificates = Vec::new();
        for host in &cluster.hosts {
            certificates.push(certificate(&host.name, KUBELET_CLIENT, NOW + 200 * DAY));
            if planes.contains(&host.name) {
                certificates.extend(AUTHORITIES.map(|path| certificate(&host.name, path, NOW + 3_000 * DAY)));
                certificates.extend(MANAGED.map(|(_, path)| certificate(&host.name, path, NOW + days * DAY)));
            }
        }
        let etcd = planes.iter().map(member).collect();
        let running = ClusterFacts {
            id: Some(ID),
            server_version: Some("v1.34.4".to_owned()),
            etcd,
            certificates,
            ..ClusterFacts::default()
        };
        Self {
            cluster,
            facts,
            running,
            wanted: Renew::default(),
            begun: false,
            sealed: BTreeSet::new(),
            own: None,
            signed: None,
        }
    }

    pub fn ends(&mut self, host: &str, path: &str, ends: i64) {
        let all = self.running.certificates.iter_mut();
        all.filter(|one| one.host == host && one.path == path).for_each(|one| one.ends = ends);
    }

    pub fn plan(&self) -> Result<Renewed, RecipeError> {
        let renewed = certs_renew(&RenewContext {
            cluster: &self.cluster,
            cluster_digest: Digest::of("yaml"),
            cluster_id: Some(ID),
            running: &self.running,
            facts: &self.facts,
            now: NOW,
            wanted: self.wanted,
            begun: self.begun,
            sealed: &self.sealed,
            own: self.own.as_ref(),
            signed: self.signed.as_ref(),
        })?;
        let (_, warnings) = lint::check(renewed.plan.clone()).unwrap_or_else(|problems| panic!("{problems:?}"));
        assert!(warnings.is_empty(), "{warnings:?}");
        Ok(renewed)
    }

    pub fn steps(&self) -> Vec<String> {
        self.plan().unwrap().plan.steps.iter().map(|step| step.id.0.clone()).collect()
    }

    pub fn refused(&self, words: &str) {
        let error = self.plan().unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.exit_code(), ExitCode::Preflight);
    }
}

fn renewed(plan: &Renewed, host: &str) -> Vec<String> {
    let ops = plan.plan.steps.iter().filter(|step| step.host == host).flat_map(|step| &step.ops);
    let of = |op: &Op| match op {
        Op::CertificatesRenewed(op) => op.certificates.iter().map(|one| one.name.clone()).collect(),
        _ => Vec::new(),
    };
    ops.flat_map(of).collect()
}

const OF_ONE: [&str; 7] = [
    "certs.renew",
    "certs.restart-etcd",
    "certs.restart-apiserver",
    "certs.restart-controller-manager",
    "certs.restart-scheduler",
    "kubeconfig.users",
    "certs.ready",
];

#[test]
fn one_control_plane_is_renewed_and_healthy_before_the_next() {
    let site = Site::of(3, 2, 30);
    let planes = &site.cluster.role_groups.control_plane;
    let mut wanted: Vec<String> = planes.iter().flat_map(|host| OF_ONE.map(|step| format!("{host}/{step}"))).collect();
    wanted.push("@controller/kubeconfig.operator".to_owned());
    assert_eq!(site.steps(), wanted);
    let plan = site.plan().unwrap();
    for (earlier, step) in plan.plan.steps.iter().zip(&plan.plan.steps[1..]) {
        assert_eq!(step.after.as_slice(), std::slice::from_ref(&earlier.id), "{}", step.id);
    }
    assert_eq!(renewed(&plan, &planes[0]), MANAGED.map(|(name, _)| name));
    let ready = plan.plan.steps.iter().flat_map(|step| &step.ops).filter_map(|op| match op {
        Op::StaticPodStarted(op) => Some((op.pod.as_str(), op.ready)),
        _ => None,
    });
    let wanted = [
        ("etcd", PodReady::Member),
        ("kube-apiserver", PodReady::ApiServer),
        ("kube-controller-manager", PodReady::ApiServer),
        ("kube-scheduler", PodReady::ApiServer),
    ];
    assert_eq!(ready.take(4).collect::<Vec<_>>(), wanted);
}

/// It has admin.conf's certificate as long as it runs.
#[test]
fn kube_vip_is_started_anew_with_what_it_asks_with() {
    let mut site = Site::of(2, 1, 30);
    assert!(!site.steps().iter().any(|step| step.ends_with("restart-vip")));
    let vip = Some([10, 77, 0, 100].into());
    site.cluster.load_balancer.mode =
        LoadBalancerMode::Internal { kind: InternalKind::KubeVip, vip, port: API_PORT, interface: None };
    let steps = site.steps();
    let at = |wanted: &str| steps.iter().position(|step| step == wanted).unwrap();
    assert!(at("node1/certs.restart-vip") < at("node2/certs.renew"), "{steps:?}");
    assert!(at("node2/certs.renew") < at("node2/certs.restart-vip"), "{steps:?}");
}

#[test]
fn an_etcd_that_is_not_kubeadms_has_no_pod_to_restart_or_to_wait_for() {
    let mut site = Site::of(1, 0, 30);
    site.cluster.etcd.kind = EtcdKind::Kubexm;
    site.cluster.role_groups.etcd = site.cluster.role_groups.control_plane.clone();
    let steps = site.steps();
    assert!(!steps.iter().any(|step| step.ends_with("restart-etcd")), "{steps:?}");
    let plan = site.plan().unwrap().plan;
    let ready = plan.steps.iter().find(|step| step.id.0 == "node1/certs.ready").unwrap();
    let Some(Probe::StaticPodsReady { external_etcd, .. }) = ready.probe.as_ref().map(|timed| &timed.probe) else {
        panic!("it is not asked")
    };
    assert!(external_etcd);
}

#[test]
fn where_one_has_ended_all_are_renewed_before_the_first_is_restarted() {
    let mut site = Site::of(2, 0, 30);
    let planes = site.cluster.role_groups.control_plane.clone();
    site.ends(&planes[1], "/etc/kubernetes/pki/etcd/peer.crt", NOW);
    // Nobody answers any more.
    (site.running.server_version, site.running.etcd) = (None, Vec::new());
    let steps = site.steps();
    let at = |step: &str| steps.iter().position(|id| id == step).unwrap_or_else(|| panic!("{step} in {steps:?}"));
    let [one, other] = [&planes[0], &planes[1]];
    assert!(at(&format!("{other}/certs.renew")) < at(&format!("{one}/certs.restart-etcd")));
    assert!(at(&format!("{other}/certs.restart-etcd")) < at(&format!("{one}/certs.restart-apiserver")));
    let plan = site.plan().unwrap();
    let ops = plan.plan.steps.iter().flat_map(|step| &step.ops);
    let ready = |op: &Op| if let Op::StaticPodStarted(op) = op { Some(op.ready) } else { None };
    let ready: Vec<PodReady> = ops.filter_map(ready).collect();
    assert_eq!(ready[..4], [PodReady::Running, PodReady::Running, PodReady::ApiServerAgain, PodReady::ApiServerAgain]);
}

#[test]
fn only_what_ends_within_the_time_is_renewed_and_with_force_all() {
    let mut site = Site::of(1, 1, 200);
    let first = site.cluster.role_groups.control_plane[0].clone();
    assert!(renewed(&site.plan().unwrap(), &first).is_empty());
    site.ends(&first, "/etc/kubernetes/admin.conf", NOW + 90 * DAY - 1);
    assert_eq!(renewed(&site.plan().unwrap(), &first), ["admin.conf"]);
    site.wanted.within_s = 10 * DAY;
    assert!(renewed(&site.plan().unwrap(), &first).is_empty());
    site.wanted.force = true;
    assert_eq!(renewed(&site.plan().unwrap(), &first).len(), MANAGED.len());
}

/// It reads them with every connection: one that an upgrade has left running has new ones, and is not started anew for them.
#[test]
fn etcd_is_started_anew_only_where_its_own_certificates_are_renewed() {
    let mut site = Site::of(1, 1, 200);
    let first = site.cluster.role_groups.control_plane[0].clone();
    let restarts = |site: &Site| site.steps().contains(&format!("{first}/certs.restart-etcd"));
    assert!(!restarts(&site));
    site.ends(&first, "/etc/kubernetes/pki/apiserver.crt", NOW + DAY);
    assert!(!restarts(&site));
    site.ends(&first, "/etc/kubernetes/pki/etcd/peer.crt", NOW + DAY);
    assert!(restarts(&site));
}

#[test]
fn a_kubelet_that_can_no_longer_renew_its_certificate_gets_one_before_the_restarts_that_need_it() {
    let mut site = Site::of(2, 1, 200);
    let planes = site.cluster.role_groups.control_plane.clone();
    let worker = site.cluster.hosts.last().unwrap().name.clone();
    site.ends(&planes[1], KUBELET_CLIENT, NOW - DAY);
    site.ends(&worker, KUBELET_CLIENT, NOW - DAY);
    let steps = site.steps();
    let at = |step: &str| steps.iter().position(|id| id == step).unwrap_or_else(|| panic!("{step} in {steps:?}"));
    assert!(at(&format!("{}/certs.kubelet", planes[1])) < at(&format!("{}/certs.restart-apiserver", planes[0])));
    assert!(at(&format!("{worker}/certs.kubelet")) > at(&format!("{}/certs.ready", planes[1])));
    assert!(steps.contains(&format!("{}/certs.ready-{worker}", planes[0])));
    let slots = site.plan().unwrap().plan.slots;
    let signer = |node: &str| {
        slots.values().find_map(|provider| match provider {
            SlotProvider::KubeletClient { host, node: of } if of == node => Some(host.clone()),
            _ => None,
        })
    };
    // A control plane's own CA key is enough: no other host has to work for that.
    assert_eq!((signer(&planes[1]), signer(&worker)), (Some(planes[1].clone()), Some(planes[0].clone())));
}

#[test]
fn a_kubelet_that_is_late_but_valid_excuses_no_member_that_is_down_and_one_that_has_ended_does() {
    let mut site = Site::of(3, 0, 10);
    let host = site.cluster.role_groups.control_plane[1].clone();
    site.running.etcd[2].healthy = false;
    site.ends(&host, KUBELET_CLIENT, NOW + DAY);
    site.refused("not healthy");
    site.ends(&host, KUBELET_CLIENT, NOW);
    site.plan().unwrap();
}

#[test]
fn an_end_at_the_border_of_the_calendar_is_no_panic() {
    for ends in [i64::MIN, i64::MAX] {
        let mut site = Site::of(1, 0, 10);
        let host = site.cluster.role_groups.control_plane[0].clone();
        for path in [KUBELET_CLIENT, MANAGED[0].1] {
            site.ends(&host, path, ends);
        }
        assert_eq!(
            renewed(&site.plan().unwrap(), &host).len(),
            if ends < 0 { MANAGED.len() } else { MANAGED.len() - 1 }
        );
    }
}

#[test]
fn a_clock_that_is_off_by_a_day_is_named() {
    let mut site = Site::of(1, 1, 30);
    let worker = site.cluster.hosts.last().unwrap().name.clone();
    site.facts.get_mut(&worker).unwrap().clock_offset_ms = -(26 * 3_600_000);
    site.refused(&format!("{worker}: its clock is 1 d 2 h behind this machine's"));
    site.facts.get_mut(&worker).unwrap().clock_offset_ms = 59_000;
    assert!(site.plan().is_ok());
}

#[test]
fn every_problem_is_named_at_once() {
    let mut site = Site::of(3, 0, 30);
    let planes = site.cluster.role_groups.control_plane.clone();
    site.ends(&planes[0], AUTHORITIES[0], NOW);
    site.facts.remove(&planes[1]);
    site.running.etcd[2].healthy = false;
    let why = "there is no certificate in it that can be read".to_owned();
    let what = "certificate /etc/kubernetes/scheduler.conf".to_owned();
    site.running.gaps.push(Gap { host: planes[2].clone(), what, why });
    let error = site.plan().unwrap_err().to_string();
    for words in [
        "the certificate authority /etc/kubernetes/pki/ca.crt has ended",
        &format!("{} was not reached", planes[1]),
        "certificate /etc/kubernetes/scheduler.conf: there is no certificate",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn a_member_that_is_down_or_an_api_that_does_not_answer_is_mended_first() {
    let mut site = Site::of(3, 0, 30);
    site.running.etcd[1].healthy = false;
    site.refused("members of etcd are not healthy");
    site.refused("`kubexm-install delete-node` removes one that is gone for good");
    // One that was deleted, of a cluster.yaml that names its host still.
    let mut site = Site::of(3, 0, 30);
    site.running.etcd.remove(1);
    site.refused("only 2 were seen, and not that of node2: start it; a host that was deleted is added again (`kubexm-install add-node`)");
    let mut site = Site::of(1, 0, 30);
    site.running.server_version = None;
    site.refused("the API server does not answer, and no certificate has ended");
    // With nothing to renew nothing is restarted.
    let mut site = Site::of(1, 0, 300);
    site.running.server_version = None;
    assert!(site.plan().is_ok());
}

#[test]
fn what_is_renewed_in_another_way_is_named_with_the_command() {
    let mut site = Site::of(1, 0, 200);
    let first = site.cluster.role_groups.control_plane[0].clone();
    for (path, ends) in
        [("/etc/kubexm/registry-ca.crt", -1), ("/etc/kubexm/registry/tls.crt", 10 * DAY), (AUTHORITIES[1], 20 * DAY)]
    {
        site.running.certificates.push(Certificate {
            host: first.clone(),
            path: path.to_owned(),
            subject: String::new(),
            ends: NOW + ends,
            file: None,
            leaf: None,
        });
    }
    let warnings = site.plan().unwrap().warnings;
    for words in [
        "has ended: it is the registry's own authority",
        "--new-registry-ca` makes another one",
        "cluster.yaml has no use for it on this host",
        "certs renew --authorities` renews it under its own key",
    ] {
        assert!(warnings.iter().any(|warning| warning.contains(words)), "{words}: {warnings:#?}");
    }
}

#[test]
fn a_restore_stops_all_members_before_the_first_gets_data_and_gives_it_to_all_before_the_first_starts() {
    let site = Site::of(3, 1, 200);
    let cx = RestoreContext {
        cluster: &site.cluster,
        cluster_digest: Digest::of("yaml"),
        facts: &site.facts,
        archive: kubexm_plan::backup::Archive { sha256: Digest::of("archive"), size: 7 },
        snapshot: 7,
        id: "1",
    };
    let plan = restore(&cx).unwrap();
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:?}"));
    for (at, phase) in ["archive", "stop", "data", "start", "ready"].into_iter().enumerate() {
        let steps = &plan.steps[at * 3..at * 3 + 3];
        assert!(steps.iter().all(|step| step.id.0.ends_with(&format!("/restore.{phase}"))), "{phase}");
        let before: Vec<_> =
            plan.steps[(at * 3).saturating_sub(3)..at * 3].iter().map(|step| step.id.clone()).collect();
        assert!(steps.iter().all(|step| step.after == before), "{phase}");
    }
    let data = plan.steps.iter().filter(|step| step.id.0.ends_with("restore.data")).map(|step| step.ops[0].to_string());
    let members: Vec<String> = data.collect();
    let planes = &site.cluster.role_groups.control_plane;
    assert!(members.iter().zip(planes).all(|(text, name)| text.contains(name)), "{members:?}");
    let mut lost = site.facts.clone();
    lost.remove(&planes[2]);
    let error = restore(&RestoreContext { facts: &lost, ..cx.clone() }).unwrap_err().to_string();
    assert!(error.contains(&format!("{} was not reached", planes[2])), "{error}");
    // A disk that fills up after the stop would leave no API server.
    let mut full = site.facts.clone();
    full.get_mut(&planes[1]).unwrap().disks[0].free = 1 << 30;
    let room = |snapshot| restore(&RestoreContext { facts: &full, snapshot, ..cx.clone() });
    room(300 << 20).unwrap();
    let error = room(400 << 20).unwrap_err().to_string();
    assert!(error.contains(&format!("{}: / has 1.0 GiB free", planes[1])) && !error.contains(&planes[0]), "{error}");
}
