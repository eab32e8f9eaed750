//! A cluster that is made from a backup: what its plan has that of another one has not, and what refuses the backup.

use kubexm_plan::backup::{Archive, BackedUpNode, FROM_BACKUP, FromBackup};
use kubexm_plan::facts::Stamp;
use kubexm_plan::op::{Act, KubeadmInit, Op};
use kubexm_plan::{ClusterFacts, ClusterId, Pipeline, Plan, SlotProvider, Step, StepId};
use kubexm_recipes::from_backup::{BackupSource, compare, dials};
use kubexm_recipes::preflight::Severity;
use kubexm_recipes::{Recipe, RecipeError, create_from_backup, sample, sample_backup};
use kubexm_spec::cluster::{EtcdKind, NetworkPlugin};
use kubexm_spec::{Digest, ExitCode};
use serde_json::json;

use crate::common::{Site, text};

fn archive() -> Archive {
    Archive { sha256: Digest::of("archive"), size: 7 }
}

fn source(site: &Site) -> BackupSource {
    sample_backup::of(&site.cx(), archive())
}

fn plan(site: &Site) -> Plan {
    let (plan, warnings) = create_from_backup(&site.cx(), &source(site)).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    plan
}

fn step<'p>(plan: &'p Plan, id: &str) -> &'p Step {
    plan.step(&StepId(id.to_owned())).unwrap_or_else(|| panic!("no step {id}"))
}

#[test]
fn the_first_control_plane_begins_with_the_authorities_and_the_data_of_the_backup_and_no_other_host_does() {
    let site = Site::of(sample::fleet(2, 1));
    let plan = plan(&site);
    assert_eq!((plan.pipeline, plan.cluster_id), (Pipeline::CreateFromBackup, Some(sample::CLUSTER_ID)));
    assert_eq!(text(&plan, "/etc/kubernetes/pki/etcd/ca.crt"), "/etc/kubernetes/pki/etcd/ca.crt of the backup\n");
    let keys: Vec<&str> = plan
        .slots
        .values()
        .filter_map(|provider| match provider {
            SlotProvider::BackupFile { path } => Some(path.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        keys,
        [
            "/etc/kubernetes/pki/ca.key",
            "/etc/kubernetes/pki/etcd/ca.key",
            "/etc/kubernetes/pki/front-proxy-ca.key",
            "/etc/kubernetes/pki/sa.key"
        ]
    );
    let inits: Vec<&KubeadmInit> = plan
        .steps
        .iter()
        .flat_map(|step| &step.ops)
        .filter_map(|op| match op {
            Op::Act(Act::KubeadmInit(init)) => Some(init),
            _ => None,
        })
        .collect();
    let [init] = inits.as_slice() else { panic!("{} inits", inits.len()) };
    let backup = init.backup.as_ref().unwrap();
    assert_eq!((backup.node.as_str(), backup.peer.as_str()), ("node1", "https://10.77.0.11:2380"));
    assert_eq!((backup.archive, backup.endpoint.as_deref()), (archive().sha256, None));
    for host in ["node1", "node2", "node3"] {
        let stamped = step(&plan, &format!("{host}/os.stamp"));
        assert!(matches!(&stamped.ops[0], Op::File(file) if file.path == FROM_BACKUP), "{host}: before its stamp");
    }
    let others = plan.steps.iter().filter(|step| step.host != "node1");
    assert!(
        !others.flat_map(|step| &step.ops).any(|op| matches!(op, Op::File(file) if file.path.ends_with("/ca.key")))
    );
}

#[test]
fn the_tools_that_restore_the_data_are_there_before_the_init() {
    let site = Site::of(sample::fleet(1, 1));
    let plan = plan(&site);
    let init = step(&plan, "node1/control-plane.init");
    for earlier in ["node1/kubernetes.etcd", "node1/control-plane.authorities", "node1/control-plane.archive"] {
        let (mut found, mut open) = (false, init.after.clone());
        while let Some(id) = open.pop() {
            found |= id.0 == earlier;
            open.extend(step(&plan, &id.0).after.clone());
        }
        assert!(found, "{earlier}");
    }
}

/// What a comparison refuses.
fn problems(site: &Site, source: &BackupSource) -> Vec<String> {
    let error = create_from_backup(&site.cx(), source).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::BackupUnusable, "{error}");
    compare(&site.cx(), source).problems
}

#[test]
fn a_backup_of_another_cluster_is_refused_by_what_differs() {
    type Change = fn(&mut Site, &mut BackupSource);
    let rows: [(Change, &str); 13] = [
        (|_, source| source.cluster = "blue".to_owned(), "it is of cluster blue, and cluster.yaml describes"),
        (|_, source| source.created = source.now + 1, "set the clock"),
        (|site, _| site.cluster.etcd.kind = EtcdKind::External, "spec.etcd.type is external"),
        (|_, source| assert!(source.keys.remove("/etc/kubernetes/pki/sa.key")), "no /etc/kubernetes/pki/sa.key"),
        (
            |_, source| drop(source.texts.remove("/etc/kubernetes/pki/front-proxy-ca.crt")),
            "no /etc/kubernetes/pki/front-proxy-ca.crt",
        ),
        (|_, source| replace(source, "kube-apiserver", ":v1.", ":v1.2"), "and the bundle has"),
        (
            |_, source| {
                replace(source, "kube-apiserver", "service-cluster-ip-range=", "service-cluster-ip-range=10.9.0.0/16,")
            },
            "spec.network.serviceCidr is",
        ),
        (
            |_, source| replace(source, "kube-controller-manager", "cluster-cidr=", "cluster-cidr=10.8.0.0/16,"),
            "spec.network.podCidr is",
        ),
        (
            |_, source| replace(source, "kube-apiserver", "127.0.0.1:2379", "10.0.0.9:2379"),
            "an etcd that is not kubeadm's",
        ),
        (
            |site, _| site.cluster.network.plugin = NetworkPlugin::None,
            "spec.network.plugin is none, and its cluster had flannel",
        ),
        (
            |_, source| {
                let record = source.had.as_mut().unwrap().applied.as_mut().unwrap();
                record["spec"]["addons"] = json!([{"name": "web", "type": "helm", "namespace": "apps"}]);
            },
            "add-on web (helm, namespace apps) is in the backup",
        ),
        (
            |_, source| {
                let config = "---\nkind: ClusterConfiguration\nclusterName: other\n";
                source.texts.insert("/etc/kubexm/kubeadm.yaml".to_owned(), config.to_owned());
            },
            "clusterName: other ->",
        ),
        (
            |_, source| {
                let config = "---\nkind: ClusterConfiguration\nnetworking:\n  dnsDomain: other.local\n";
                source.texts.insert("/etc/kubexm/kubeadm.yaml".to_owned(), config.to_owned());
            },
            "networking.dnsDomain: other.local ->",
        ),
    ];
    for (change, wanted) in rows {
        let mut site = Site::of(sample::fleet(1, 1));
        let mut source = source(&site);
        change(&mut site, &mut source);
        let found = problems(&site, &source);
        assert!(found.iter().any(|one| one.contains(wanted)), "{wanted}: {found:?}");
    }
}

fn replace(source: &mut BackupSource, pod: &str, from: &str, to: &str) {
    let text = source.texts.get_mut(&format!("/etc/kubernetes/manifests/{pod}.yaml")).unwrap();
    assert!(text.contains(from), "{text}");
    *text = text.replace(from, to);
}

#[test]
fn a_backup_of_an_earlier_program_is_taken_with_a_warning_that_names_what_it_does_not_say() {
    let site = Site::of(sample::fleet(1, 1));
    let source = BackupSource { had: None, ..source(&site) };
    let (_, warnings) = create_from_backup(&site.cx(), &source).unwrap();
    assert!(matches!(warnings.as_slice(), [one] if one.contains("which pod network and add-ons")), "{warnings:?}");
}

#[test]
fn a_cluster_that_claims_hundreds_of_control_planes_is_asked_at_some_addresses_of_each_kind() {
    let site = Site::of(sample::fleet(1, 1));
    let mut source = source(&site);
    let had = source.had.as_mut().unwrap();
    let node = |number: usize| BackedUpNode {
        name: format!("a{number:03}"),
        addresses: (1..=4).map(|family| format!("10.{family}.0.{number}")).collect(),
        control_plane: true,
    };
    had.nodes = (0..40).map(node).collect();
    let addresses = vec!["10.66.0.11".to_owned(), "10.66.1.11".to_owned()];
    had.nodes.push(BackedUpNode { name: "old1".to_owned(), addresses, control_plane: true });
    had.members = vec!["old1".to_owned()];
    let (dials, unasked) = dials(&site.cx(), &source);
    let asked: Vec<String> = dials["node1"].iter().map(|dial| format!("{} {}", dial.to, dial.address)).collect();
    // And the new control plane.
    assert_eq!(asked.len(), 64 + 1);
    for one in ["node1 10.77.0.11", "old1 10.66.0.11", "old1 10.66.1.11", "a000 10.1.0.0", "a039 10.1.0.39"] {
        assert!(asked.iter().any(|asked| asked == one), "{one}: {asked:?}");
    }
    let unasked = unasked.unwrap();
    assert!(unasked.severity == Severity::Warn && unasked.found.ends_with(": 98"), "{unasked}");
}

#[test]
fn settings_of_a_backup_that_cannot_be_compared_are_not_passed_in_silence() {
    let site = Site::of(sample::fleet(1, 1));
    let mut source = source(&site);
    source.texts.insert("/etc/kubexm/kubeadm.yaml".to_owned(), "{".to_owned());
    let (_, warnings) = create_from_backup(&site.cx(), &source).unwrap();
    assert!(matches!(warnings.as_slice(), [one] if one.contains("kubeadm.yaml is not what")), "{warnings:?}");
}

fn stamp(id: u8) -> Option<Stamp> {
    let id = if id == 7 { sample::CLUSTER_ID } else { ClusterId::from_random([id; 16]) };
    Some(Stamp { cluster: sample::cluster().name, id: Some(id), run: "r".to_owned(), bundle: None, adopted: false })
}

fn mark(site: &mut Site, id: ClusterId, archive: Digest) {
    let mark = serde_json::to_string(&FromBackup { cluster_id: id, archive }).unwrap();
    for facts in site.facts.values_mut() {
        facts.from_backup = Some(mark.clone());
    }
}

#[test]
fn only_fresh_hosts_and_those_of_an_earlier_try_with_the_same_backup_are_taken() {
    let mut site = Site::of(sample::fleet(1, 1));
    site.cluster.name = sample::cluster().name;
    let source = source(&site);
    site.facts.get_mut("node2").unwrap().stamp = stamp(7);
    let refused = |site: &Site| create_from_backup(&site.cx(), &source).map(drop).unwrap_err();
    let error = refused(&site);
    assert_eq!(error.exit_code(), ExitCode::Preflight);
    assert!(matches!(&error, RecipeError::NotFresh { problems } if problems.len() == 1), "{error}");
    assert!(error.to_string().contains("node2 has the stamp of cluster"), "{error}");
    mark(&mut site, sample::CLUSTER_ID, Digest::of("another archive"));
    assert!(matches!(refused(&site), RecipeError::NotFresh { .. }));
    mark(&mut site, sample::CLUSTER_ID, archive().sha256);
    create_from_backup(&site.cx(), &source).unwrap();
    site.facts.get_mut("node2").unwrap().stamp = stamp(8);
    assert!(matches!(refused(&site), RecipeError::NotFresh { .. }));
}

#[test]
fn a_disk_that_is_too_small_for_the_data_is_found_before_anything_is_changed() {
    let site = Site::of(sample::fleet(1, 1));
    let source = BackupSource { snapshot: 60 << 30, ..source(&site) };
    let error = create_from_backup(&site.cx(), &source).map(drop).unwrap_err().to_string();
    assert!(error.contains("node1: / has"), "{error}");
}

#[test]
fn a_create_without_the_backup_is_refused_until_the_first_control_plane_has_its_data() {
    let mut site = Site::of(sample::fleet(1, 1));
    let create = |site: &Site| Recipe::Create.plan(&site.cx(), &ClusterFacts::default()).map(drop);
    create(&site).unwrap();
    mark(&mut site, sample::CLUSTER_ID, archive().sha256);
    // The file of a run that ended before it wrote the stamp is of no cluster.
    create(&site).unwrap();
    let name = site.cluster.name.clone();
    let of = |id| stamp(id).map(|stamp| Stamp { cluster: name.clone(), ..stamp });
    site.facts.get_mut("node2").unwrap().stamp = of(7);
    let error = create(&site).unwrap_err();
    assert!(matches!(&error, RecipeError::BackupNeeded { host, .. } if host == "node2"), "{error}");
    assert!(error.to_string().contains("create --from-backup"), "{error}");
    // kubelet.conf is there in the middle of an init.
    let first = site.facts.get_mut("node1").unwrap();
    (first.stamp, first.joined) = (of(7), true);
    assert!(matches!(create(&site), Err(RecipeError::BackupNeeded { .. })));
    site.facts.get_mut("node1").unwrap().kubeadm_config = Some(Digest::of("config"));
    create(&site).unwrap();
    for facts in site.facts.values_mut() {
        (facts.kubeadm_config, facts.from_backup) = (None, Some("{".to_owned()));
    }
    assert!(matches!(create(&site), Err(RecipeError::BackupNeeded { .. })), "what cannot be read is of some backup");
}

#[test]
fn the_api_servers_of_before_are_asked_with_the_ca_of_the_backup() {
    let site = Site::of(sample::fleet(2, 1));
    let source = source(&site);
    let (dials, unasked) = dials(&site.cx(), &source);
    assert_eq!(unasked, None);
    let asked: Vec<String> =
        dials["node1"].iter().map(|dial| format!("{} {} {}", dial.to, dial.address, dial.port.number)).collect();
    assert_eq!(asked, ["node1 10.77.0.11 6443", "node2 10.77.0.12 6443", "old1 10.66.0.11 6443"]);
    let ca = source.texts.get("/etc/kubernetes/pki/ca.crt");
    assert!(dials["node1"].iter().all(|dial| dial.authority.as_ref() == ca) && dials.len() == 1);
}
