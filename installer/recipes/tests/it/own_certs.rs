//! Certificates of the cluster's own authorities are renewed as `create` gives them: members of etcd one after the other, and nothing
//! that an authority of somebody else would have to sign.

use std::collections::BTreeSet;

use kubexm_plan::cluster_facts::{Certificate, Gap};
use kubexm_plan::etcd::{ADMIN_CERT, CA, CLIENT_CA, CLIENT_CERT, PEER_CERT, SERVER_CERT};
use kubexm_plan::op::{Op, Probe};
use kubexm_plan::{Authority, CertificateUse, Plan, SEALED_AUTHORITIES, SlotName, SlotProvider, Step};
use kubexm_recipes::{OwnAuthorities, Renew, RenewContext, certs_renew, needs_authorities, sample};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{EtcdKind, RegistryKind, Validity};

use crate::certs_renew::{DAY, ID, NOW, Site};

const DEPOT: [&str; 2] = ["/etc/kubexm/depot/tls.crt", "/etc/kubexm/depot/ca.crt"];
const REGISTRY: [&str; 2] = ["/etc/kubexm/registry/tls.crt", "/etc/kubexm/registry/ca.crt"];
const MEMBER: [&str; 3] = [SERVER_CERT, PEER_CERT, ADMIN_CERT];

fn ca(authority: Authority) -> Digest {
    Digest::of(format!("{authority:?}"))
}

/// Three members of an etcd of kubexm's on control planes, and a registry beside the depot on the first; kubeadm's certificates end in
/// 200 days, and those of the cluster's own authorities in so many.
fn site(days: i64) -> Site {
    let mut site = Site::of(3, 1, 200);
    site.cluster.etcd.kind = EtcdKind::Kubexm;
    site.cluster.registry.kind = RegistryKind::Registry;
    let planes = site.cluster.role_groups.control_plane.clone();
    site.cluster.role_groups.etcd.clone_from(&planes);
    for host in &planes {
        for path in MEMBER {
            add(&mut site, host, path, days, Digest::of(format!("{host} {path}")));
        }
        add(&mut site, host, CLIENT_CERT, days, Digest::of(CLIENT_CERT));
        add(&mut site, host, CA, 3_000, ca(Authority::Etcd));
        add(&mut site, host, CLIENT_CA, 3_000, ca(Authority::Etcd));
    }
    for [certificate, authority] in [DEPOT, REGISTRY] {
        add(&mut site, &planes[0], certificate, days, Digest::of("serves"));
        add(&mut site, &planes[0], authority, 3_000, ca(Authority::Registry));
    }
    let certificates = [Authority::Registry, Authority::Etcd].map(|authority| (authority, ca(authority)));
    site.own = Some(OwnAuthorities { certificates: certificates.into(), ..OwnAuthorities::default() });
    site
}

fn add(site: &mut Site, host: &str, path: &str, days: i64, file: Digest) {
    let (host, path) = (host.to_owned(), path.to_owned());
    let one = Certificate { host, path, subject: String::new(), ends: NOW + days * DAY, file: Some(file), leaf: None };
    site.running.certificates.push(one);
}

/// Of the cluster's own authorities.
fn own(plan: &Plan) -> Vec<&Step> {
    let is_own =
        |step: &&Step| ["/certs.etcd", "/certs.depot", "/certs.registry"].iter().any(|id| step.id.0.contains(id));
    plan.steps.iter().filter(is_own).collect()
}

fn ids(steps: &[&Step]) -> Vec<String> {
    steps.iter().map(|step| step.id.0.clone()).collect()
}

fn written(step: &Step) -> Vec<&str> {
    let files = step.ops.iter().filter_map(|op| if let Op::File(file) = op { Some(file.path.as_str()) } else { None });
    files.collect()
}

fn replaced(plan: &Plan, slot: &str) -> BTreeSet<Digest> {
    match plan.slots.get(&SlotName(slot.to_owned())) {
        Some(SlotProvider::Certificate(CertificateUse { replaces, .. })) => replaces.clone(),
        other => panic!("{slot}: {other:?}"),
    }
}

#[test]
fn each_member_gets_its_certificates_and_all_are_healthy_before_the_next_and_then_the_api_servers_get_theirs() {
    let plan = site(30).plan().unwrap().plan;
    let hosts = ["node1", "node2", "node3"];
    let mut wanted = vec!["node1/certs.depot".to_owned(), "node1/certs.registry".to_owned()];
    wanted.extend(hosts.map(|host| format!("{host}/certs.etcd-member")));
    wanted.extend(hosts.map(|host| format!("{host}/certs.etcd-client")));
    let steps = own(&plan);
    assert_eq!(ids(&steps), wanted);
    for step in &steps[2..] {
        let Some(Probe::EtcdMembersHealthy { members, .. }) = step.probe.as_ref().map(|timed| &timed.probe) else {
            panic!("{}: nobody is asked", step.id)
        };
        assert_eq!(members.len(), 3, "{}", step.id);
    }
    for (earlier, step) in plan.steps.iter().zip(&plan.steps[1..]) {
        assert_eq!(step.after.as_slice(), std::slice::from_ref(&earlier.id), "{}", step.id);
    }
    // Sealed on every control plane before the first of them is used.
    let seals: Vec<&Step> = plan.steps.iter().filter(|step| written(step).contains(&SEALED_AUTHORITIES)).collect();
    assert_eq!(ids(&seals), hosts.map(|host| format!("{host}/authorities.seal")));
    assert_eq!(plan.steps[..3].iter().collect::<Vec<_>>(), seals);
    // Certificates with their keys, and no CA: hosts trust what they did.
    assert_eq!(written(steps[2]).len(), 6);
    assert!(steps.iter().flat_map(|step| written(step)).all(|path| !path.ends_with("/ca.crt")));
    let units = steps.iter().flat_map(|step| &step.ops).filter(|op| matches!(op, Op::Unit(_)));
    assert_eq!(units.count(), 2, "etcd reads its files with every connection, depot and registry do not");
    assert_eq!(replaced(&plan, "etcd-server-node2"), [Digest::of(format!("node2 {SERVER_CERT}"))].into());
    assert_eq!(replaced(&plan, "registry-cert"), [Digest::of("serves")].into());
}

/// Another slot or use would be another certificate, which the next `create` would bring.
#[test]
fn slots_uses_and_units_are_those_of_create() {
    let site = site(30);
    let renewed = site.plan().unwrap().plan;
    let created = sample::plan(&site.cluster).unwrap();
    for (name, provider) in &renewed.slots {
        let Some(made) = created.slots.get(name) else { continue };
        match (provider, made) {
            (SlotProvider::Certificate(renewed), SlotProvider::Certificate(made)) => {
                assert_eq!(CertificateUse { replaces: BTreeSet::new(), ..renewed.clone() }, *made, "{}", name.0);
            }
            (SlotProvider::SealedAuthorities { .. }, _) => {}
            (renewed, made) => assert_eq!(renewed, made, "{}", name.0),
        }
    }
    let certificates = |plan: &Plan| {
        let names = plan.slots.iter().filter(|(_, made)| matches!(made, SlotProvider::Certificate(_)));
        names.map(|(name, _)| name.clone()).collect::<BTreeSet<_>>()
    };
    assert_eq!(certificates(&renewed), certificates(&created));
    let ops = |plan: &Plan, wanted: fn(&Op) -> bool| -> Vec<String> {
        let all = plan.steps.iter().flat_map(|step| step.ops.iter().map(move |op| (&step.host, op)));
        let mut all: Vec<String> = all.filter(|(_, op)| wanted(op)).map(|(host, op)| format!("{host}: {op}")).collect();
        all.sort();
        all
    };
    let is_unit = |op: &Op| matches!(op, Op::Unit(unit) if unit.name.starts_with("kubexm-depot") || unit.name.starts_with("kubexm-registry"));
    assert_eq!(ops(&renewed, is_unit), ops(&created, is_unit));
    let is_pair = |op: &Op| matches!(op, Op::File(file) if ["tls.crt", "tls.key", "server.key", "client.key"].iter().any(|end| file.path.ends_with(end)));
    assert_eq!(ops(&renewed, is_pair), ops(&created, is_pair));
}

#[test]
fn only_what_is_due_is_renewed_and_with_force_all() {
    let mut site = site(200);
    let context = |site: &Site| {
        let (sealed, facts) = (site.sealed.clone(), site.facts.clone());
        needs_authorities(&RenewContext {
            cluster: &site.cluster,
            cluster_digest: Digest::of("yaml"),
            cluster_id: Some(ID),
            running: &site.running,
            facts: &facts,
            now: NOW,
            wanted: site.wanted,
            begun: false,
            sealed: &sealed,
            own: None,
            signed: None,
        })
        .unwrap()
    };
    assert!(own(&site.plan().unwrap().plan).is_empty());
    assert!(!context(&site), "nobody's identity is asked for");
    site.ends("node2", PEER_CERT, NOW + 90 * DAY - 1);
    let plan = site.plan().unwrap().plan;
    let steps = own(&plan);
    assert_eq!(ids(&steps), ["node2/certs.etcd-member"]);
    assert_eq!(written(steps[0]), [PEER_CERT, "/etc/kubexm/etcd/peer.key"]);
    assert!(context(&site));
    // All control planes have the same one.
    site.ends("node2", PEER_CERT, NOW + 200 * DAY);
    site.ends("node3", CLIENT_CERT, NOW + DAY);
    let plan = site.plan().unwrap().plan;
    assert_eq!(ids(&own(&plan)), ["node1", "node2", "node3"].map(|host| format!("{host}/certs.etcd-client")));
    site.ends("node3", CLIENT_CERT, NOW + 200 * DAY);
    site.wanted.force = true;
    assert_eq!(own(&site.plan().unwrap().plan).len(), 8);
}

/// A run that was cut off between a certificate and its key, or before what loads them was restarted, left nothing that is due.
#[test]
fn a_renewal_that_has_begun_looks_at_every_certificate_again_also_where_etcd_does_not_answer() {
    let mut site = site(200);
    site.begun = true;
    (site.running.server_version, site.running.etcd) = (None, Vec::new());
    let plan = site.plan().unwrap().plan;
    let steps = own(&plan);
    let ids = ids(&steps);
    for id in ["node1/certs.depot", "node1/certs.registry", "node3/certs.etcd-member", "node2/certs.etcd-client"] {
        assert!(ids.contains(&id.to_owned()), "{id} in {ids:?}");
    }
    assert_eq!(written(steps[0])[0], DEPOT[0]);
    assert!(ids.contains(&"node1/certs.etcd-healthy".to_owned()), "all get theirs before the first is asked: {ids:?}");
    for provider in plan.slots.values() {
        let SlotProvider::Certificate(usage) = provider else { continue };
        assert!(usage.replaces.is_empty(), "the ones that were issued stay: {usage:?}");
    }
}

#[test]
fn what_ends_with_its_authority_is_not_renewed_and_the_authority_is_named_with_its_command() {
    let mut site = site(30);
    for (path, days) in [(DEPOT[1], 30), (REGISTRY[1], 10), (CLIENT_CA, 31)] {
        site.ends("node1", path, NOW + days * DAY);
    }
    site.ends("node1", CA, NOW + 30 * DAY);
    let renewed = site.plan().unwrap();
    let steps = ids(&own(&renewed.plan));
    assert!(!steps.iter().any(|id| id == "node1/certs.depot" || id == "node1/certs.etcd-member"), "{steps:?}");
    assert!(steps.contains(&"node2/certs.etcd-member".to_owned()), "{steps:?}");
    assert!(steps.contains(&"node1/certs.etcd-client".to_owned()), "its authority outlasts it");
    for words in [
        "/etc/kubexm/depot/tls.crt ends soon: its authority (/etc/kubexm/depot/ca.crt) ends no later",
        "/etc/kubexm/depot/ca.crt ends soon: it is the registry's own authority: `kubexm-install create --bundle B --new-registry-ca`",
        "/etc/kubexm/etcd/ca.crt ends soon: it is the authority of kubexm's own etcd: `kubexm-install certs renew --authorities`",
    ] {
        assert!(renewed.warnings.iter().any(|warning| warning.contains(words)), "{words}: {:#?}", renewed.warnings);
    }
    // Whoever asks for it gets other keys.
    site.wanted.force = true;
    assert!(ids(&own(&site.plan().unwrap().plan)).contains(&"node1/certs.depot".to_owned()));
}

#[test]
fn where_one_of_etcds_has_ended_all_get_theirs_before_the_first_is_asked() {
    let mut site = site(30);
    site.ends("node2", PEER_CERT, NOW);
    // No majority, and so no API server.
    (site.running.server_version, site.running.etcd) = (None, Vec::new());
    let plan = site.plan().unwrap().plan;
    let steps = own(&plan);
    let ids = ids(&steps);
    let at = |id: &str| ids.iter().position(|found| found == id).unwrap_or_else(|| panic!("{id} in {ids:?}"));
    assert!(at("node3/certs.etcd-member") < at("node1/certs.etcd-healthy"));
    assert!(at("node3/certs.etcd-healthy") < at("node1/certs.etcd-client"));
    assert!(
        steps[at("node1/certs.etcd-member")].probe.is_none() && steps[at("node1/certs.etcd-healthy")].probe.is_some()
    );
    let ready = plan.steps.iter().find(|step| step.id.0 == "node1/certs.ready").unwrap();
    assert!(ready.probe.as_ref().unwrap().within_s > 300, "kubelet pauses for up to five minutes");
}

#[test]
fn a_member_that_is_down_is_mended_before_another_gets_certificates_and_the_registry_does_not_wait_for_it() {
    let mut site = site(30);
    site.running.etcd[1].healthy = false;
    site.refused("members of etcd are not healthy");
    for host in ["node1", "node2", "node3"] {
        for path in MEMBER.into_iter().chain([CLIENT_CERT]) {
            site.ends(host, path, NOW + 200 * DAY);
        }
    }
    assert_eq!(ids(&own(&site.plan().unwrap().plan)), ["node1/certs.depot", "node1/certs.registry"]);
}

#[test]
fn what_a_host_would_not_trust_is_refused_by_its_path() {
    let mut site = site(30);
    let other = site.own.as_mut().unwrap();
    other.certificates.insert(Authority::Etcd, Digest::of("another"));
    let error = site.plan().unwrap_err().to_string();
    for words in ["node1: /etc/kubexm/etcd/ca.crt is not the authority", "node3: /etc/kubexm/etcd-client/ca.crt is not"]
    {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(!error.contains("depot"), "{error}");
    other_than(
        &mut site,
        |site| site.ends("node1", CA, NOW),
        "node1: the authority of kubexm's own etcd /etc/kubexm/etcd/ca.crt has ended",
    );
}

fn other_than(site: &mut Site, change: impl FnOnce(&mut Site), words: &str) {
    change(site);
    site.refused(words);
}

#[test]
fn a_cluster_without_an_id_gets_one_first() {
    let site = site(30);
    let cx = RenewContext {
        cluster: &site.cluster,
        cluster_digest: Digest::of("yaml"),
        cluster_id: None,
        running: &site.running,
        facts: &site.facts,
        now: NOW,
        wanted: site.wanted,
        begun: false,
        sealed: &site.sealed,
        own: site.own.as_ref(),
        signed: None,
    };
    let error = certs_renew(&cx).unwrap_err().to_string();
    assert!(error.contains("no id of the cluster") && error.contains("create --bundle B"), "{error}");
}

/// A run that was interrupted had all of them sealed before it brought the first.
#[test]
fn a_host_that_has_another_certificate_than_the_authorities_gets_it_and_none_is_made_for_that() {
    let mut site = site(200);
    site.sealed = site.running.certificates.iter().filter_map(|one| one.file).collect();
    assert!(own(&site.plan().unwrap().plan).is_empty());
    site.sealed.remove(&Digest::of(format!("node2 {PEER_CERT}")));
    let plan = site.plan().unwrap().plan;
    assert_eq!(ids(&own(&plan)), ["node2/certs.etcd-member"]);
    assert_eq!(replaced(&plan, "etcd-peer-node2"), BTreeSet::new());
}

#[test]
fn a_certificate_that_cannot_be_read_is_named() {
    let mut site = site(200);
    let (what, why) = (format!("certificate {SERVER_CERT}"), "there is no certificate in it".to_owned());
    site.running.gaps.push(Gap { host: "node2".to_owned(), what, why });
    let warnings = site.plan().unwrap().warnings;
    let named = |warning: &String| warning.contains(SERVER_CERT) && warning.contains("create --bundle B");
    assert!(warnings.iter().any(named), "{warnings:#?}");
}

/// With the periods of cluster.yaml, of the registry's authority and etcd's alike, whether they are made or renewed.
#[test]
fn every_certificate_and_authority_has_the_period_of_cluster_yaml() {
    for (written, [leaf, authority]) in [((None, None), [1_825, 3_650]), ((Some("200d"), Some("1000d")), [200, 1_000])]
    {
        let mut site = site(30);
        let kubernetes = site.cluster.kubernetes.as_mut().unwrap();
        kubernetes.certificate_validity = written.0.map(period);
        kubernetes.ca_certificate_validity = written.1.map(period);
        let (renewed, created) = (site.plan().unwrap().plan, sample::plan(&site.cluster).unwrap());
        let mut seen = BTreeSet::new();
        for (name, provider) in renewed.slots.iter().chain(&created.slots) {
            match provider {
                SlotProvider::Certificate(usage) => {
                    assert_eq!(usage.valid_h, Some(leaf * 24), "{}", name.0);
                    seen.insert((usage.authority, false));
                }
                SlotProvider::Authority { authority: of, valid_h, .. } => {
                    assert_eq!(*valid_h, Some(authority * 24), "{}", name.0);
                    seen.insert((*of, true));
                }
                _ => {}
            }
        }
        assert_eq!(seen.len(), 4, "{seen:?}");
    }
}

/// With 200 days a member's certificate is due as kubeadm's are: in its last quarter, not from the day on which half of it is left.
#[test]
fn what_is_due_without_within_follows_a_short_period() {
    let period = period("200d");
    assert_eq!(Renew::default().within_s, 90 * DAY);
    for (days, due) in [(49, false), (48, true)] {
        let mut site = site(days);
        site.wanted = Renew { within_s: period.soon_s(), force: false, authorities: false };
        assert_eq!(!own(&site.plan().unwrap().plan).is_empty(), due, "{days}");
    }
}

fn period(text: &str) -> Validity {
    let yaml = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: a}}\nspec:\n  hosts: [{{name: a, address: 10.0.0.1}}]\n  \
         roleGroups: {{master: [a], worker: [a]}}\n  kubernetes: {{certificateValidityPeriod: {text}}}\n"
    );
    kubexm_spec::cluster::parse(&yaml).unwrap().certificate_validity()
}

#[test]
fn harbors_certificate_is_named_with_the_command_that_renews_it() {
    let mut site = site(200);
    site.cluster.registry.kind = RegistryKind::Harbor;
    add(&mut site, "node1", "/etc/kubexm/harbor/tls.crt", 30, Digest::of("harbor"));
    let plan = site.plan().unwrap();
    assert!(own(&plan.plan).is_empty());
    let named = |line: &&String| line.contains("harbor/tls.crt") && line.contains("create --bundle B");
    assert_eq!(plan.warnings.iter().filter(named).count(), 1, "{:?}", plan.warnings);
}

/// Also where an authority was renewed on some hosts alone, by a run that is lost.
#[test]
fn with_authorities_every_member_and_api_server_is_given_the_one_of_etcd_under_its_key() {
    let mut site = site(200);
    site.wanted = Renew { authorities: true, ..Renew::default() };
    assert!(own(&site.plan().unwrap().plan).is_empty(), "it ends late");
    for path in [CA, CLIENT_CA] {
        ["node1", "node2", "node3"].iter().for_each(|host| site.ends(host, path, NOW + 30 * DAY));
    }
    let plan = site.plan().unwrap().plan;
    let hosts = ["node1", "node2", "node3"];
    let wanted = hosts.map(|host| format!("{host}/certs.etcd-member"));
    let steps = own(&plan);
    assert_eq!(ids(&steps)[..3], wanted);
    assert_eq!(ids(&steps)[3..], hosts.map(|host| format!("{host}/certs.etcd-client")));
    let gives = |step: &Step, path: &str| {
        step.ops.iter().any(|op| matches!(op, Op::AuthorityRenewed(renewed) if renewed.path == path))
    };
    assert!(steps[..3].iter().all(|step| gives(step, CA) && written(step).len() == 6));
    assert!(steps[3..].iter().all(|step| gives(step, CLIENT_CA)));
    // Members and API servers read it when they start.
    assert!(steps[..3].iter().all(|step| step.ops.iter().any(|op| matches!(op, Op::Unit(_)))));
    let after = plan.steps.iter().flat_map(|step| &step.ops).filter_map(|op| match op {
        Op::StaticPodStarted(op) if op.pod == "kube-apiserver" => Some(op.after.contains(&CLIENT_CA.to_owned())),
        _ => None,
    });
    assert_eq!(after.collect::<Vec<_>>(), [true; 3]);
    let replaces = |plan: &Plan| match plan.slots.get(&SlotName("etcd-ca".to_owned())) {
        Some(SlotProvider::Authority { authority: Authority::Etcd, replaces, .. }) => replaces.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(replaces(&plan), [ca(Authority::Etcd)].into());
    // One host has the renewed one: it is brought to the others, and not made once more.
    let later = |one: &mut Certificate| (one.ends, one.file) = (NOW + 3_000 * DAY, Some(Digest::of("renewed")));
    site.running.certificates.iter_mut().filter(|one| one.host == "node2" && one.path == CA).for_each(later);
    let left = site.plan().unwrap().plan;
    assert_eq!((ids(&own(&left)), replaces(&left)), (ids(&steps), BTreeSet::new()));
    site.wanted = Renew::default();
    let warnings = site.plan().unwrap().warnings;
    assert!(warnings.iter().any(|text| text.contains("certs renew --authorities")), "{warnings:?}");
}
