//! A running cluster is compared with its cluster.yaml before it is adopted, and nothing but its nodes' stamps is planned.

use std::collections::BTreeMap;

use kubexm_plan::cluster_facts::{AppliedCluster, NodeFacts};
use kubexm_plan::facts::{Leftover, Stamp};
use kubexm_plan::{BundleRecord, ClusterFacts, ClusterId, Facts, Op, Pipeline, lint};
use kubexm_recipes::adoption::{Origin, refuse};
use kubexm_recipes::{
    AdoptContext, Adoption, AdoptionInput, BundleVersions, RecipeError, Verdict, adopt, sample, sample_adoption,
};
use kubexm_spec::cluster::{EtcdKind, NetworkPlugin};
use kubexm_spec::{Cluster, Digest, ExitCode};

const ID: ClusterId = ClusterId::from_random([9; 16]);

struct Site {
    cluster: Cluster,
    facts: BTreeMap<String, Facts>,
    unreached: BTreeMap<String, String>,
    running: ClusterFacts,
    bundle: Option<BundleVersions>,
}

impl Site {
    /// Two control planes and a worker that agree with cluster.yaml and the bundle.
    fn agreeing() -> Self {
        let cluster = sample::fleet(2, 1);
        let version = |text: &str| Some(text.to_owned());
        let bundle =
            BundleVersions { kubernetes: "v1.34.4".to_owned(), runtime: version("2.2.7"), etcd: version("3.6.5") };
        let (facts, running) = (sample::all_facts(&cluster), sample_adoption::running(&cluster));
        Self { cluster, facts, unreached: BTreeMap::new(), running, bundle: Some(bundle) }
    }

    fn input(&self) -> AdoptionInput<'_> {
        let Self { cluster, facts, unreached, running, bundle } = self;
        AdoptionInput { cluster, facts, unreached, running, bundle: bundle.as_ref() }
    }

    fn found(&self) -> Adoption {
        Adoption::of(&self.input())
    }

    fn plan(&self) -> Result<kubexm_plan::Plan, RecipeError> {
        adopt(&AdoptContext { input: self.input(), cluster_digest: Digest::of("yaml"), cluster_id: ID })
    }

    fn facts(&mut self, host: &str) -> &mut Facts {
        self.facts.get_mut(host).unwrap()
    }

    fn stamp(&mut self, host: &str, cluster: &str, adopted: bool) {
        let stamp = Stamp { cluster: cluster.to_owned(), id: Some(ID), run: "r1".to_owned(), bundle: None, adopted };
        let facts = self.facts(host);
        (facts.stamp, facts.joined) = (Some(stamp), true);
    }

    fn kubeadm(&mut self) -> &mut kubexm_plan::cluster_facts::KubeadmCluster {
        self.running.kubeadm.as_mut().unwrap()
    }
}

/// `what of host` of a verdict.
fn named(found: &Adoption, verdict: Verdict) -> Vec<String> {
    let name = |item: &kubexm_recipes::AdoptionItem| {
        let host = item.host.as_ref().map(|host| format!(" of {host}")).unwrap_or_default();
        format!("{}{host}", item.what)
    };
    found.of_verdict(verdict).map(name).collect()
}

#[test]
fn a_cluster_that_agrees_has_nothing_in_the_way_and_nothing_different() {
    let site = Site::agreeing();
    let found = site.found();
    assert_eq!(found.origin, Origin::Foreign);
    assert_eq!(named(&found, Verdict::InTheWay), Vec::<String>::new());
    assert_eq!(named(&found, Verdict::Differs), Vec::<String>::new());
    let known = named(&found, Verdict::Known);
    for what in ["pod network", "service network", "DNS domain", "Kubernetes", "endpoint of the API servers"] {
        assert!(known.iter().any(|known| known == what), "{what}: {known:#?}");
    }
    for what in
        ["node name of node3", "role of node3", "cluster CA of node3", "CA of etcd of node2", "kubelet of node1"]
    {
        assert!(known.iter().any(|known| known == what), "{what}: {known:#?}");
    }
    let unknown = named(&found, Verdict::Unknown);
    assert_eq!(unknown, ["pod network's settings", "other settings"]);
}

#[test]
fn only_stamps_are_planned_the_first_control_planes_first_and_all_of_them_are_rolled_back() {
    let plan = Site::agreeing().plan().unwrap();
    let steps: Vec<_> = plan.steps.iter().map(|step| step.id.to_string()).collect();
    assert_eq!(steps, ["node1/adopt.stamp", "node2/adopt.stamp", "node3/adopt.stamp"]);
    for step in &plan.steps[1..] {
        assert_eq!(step.after, [plan.steps[0].id.clone()]);
    }
    for op in plan.steps.iter().flat_map(|step| &step.ops) {
        let Op::Stamp(stamp) = op else { panic!("{op}") };
        assert!(stamp.adopted && stamp.id == Some(ID) && stamp.bundle.is_none(), "{stamp:?}");
    }
    assert_eq!((plan.pipeline, plan.cluster_id, plan.bundle), (Pipeline::Adopt, Some(ID), None));
    lint::check(plan).unwrap();
}

#[test]
fn what_later_commands_would_go_wrong_by_is_in_the_way() {
    type Bend = fn(&mut Site);
    let cases: [(&str, Bend); 27] = [
        ("pod network", |site| site.kubeadm().pod_networks = "10.1.0.0/16".to_owned()),
        ("pod network", |site| site.kubeadm().pod_networks = String::new()),
        ("service network", |site| site.kubeadm().service_networks = "10.96.0.0/12".to_owned()),
        ("DNS domain", |site| site.kubeadm().dns_domain = "lab.local".to_owned()),
        ("kubeadm", |site| site.running.kubeadm = None),
        ("API server", |site| site.running.server_version = None),
        ("etcd", |site| site.kubeadm().etcd_data = None),
        ("etcd", |site| {
            site.running = sample_adoption::running(&sample_adoption::with_external_etcd(sample::fleet(2, 1)))
        }),
        ("etcd", |site| site.cluster = sample_adoption::with_external_etcd(sample::fleet(2, 1))),
        ("etcd", |site| site.cluster.etcd.kind = EtcdKind::Kubexm),
        ("members of etcd", |site| site.running.etcd.clear()),
        ("member of etcd", |site| site.running.etcd[1].name = "old1".to_owned()),
        ("member of etcd of node2", |site| drop(site.running.etcd.pop())),
        ("pod network's plugin", |site| site.running.network = Some("calico".to_owned())),
        ("pod network's plugin", |site| site.running.network = None),
        ("node that cluster.yaml does not have", |site| {
            site.running.nodes.push(NodeFacts { name: "stranger".to_owned(), ..NodeFacts::default() });
        }),
        ("node of node3", |site| site.running.kubelets.retain(|one| one.host != "node3")),
        ("node name of node3", |site| {
            let of_node3 = site.running.certificates.iter_mut().filter(|one| one.host == "node3");
            of_node3.for_each(|one| one.subject = "system:node:ip-10-0-0-3".to_owned());
        }),
        ("node object of node3", |site| site.running.nodes.retain(|node| node.name != "node3")),
        ("role of node3", |site| site.running.nodes[2].roles.push("control-plane".to_owned())),
        ("container runtime of node3", |site| site.running.nodes[2].runtime = "docker".to_owned()),
        ("cluster CA of node3", |site| {
            let ca = site.running.certificates.iter_mut().find(|one| one.host == "node3").unwrap();
            ca.file = Some(Digest::of("another cluster's"));
        }),
        ("host of node3", |site| {
            site.facts.remove("node3");
            site.unreached.insert("node3".to_owned(), "no route to host".to_owned());
        }),
        ("clock of node3", |site| site.facts("node3").clock_offset_ms = -86_400_000),
        ("stamp of node3", |site| site.stamp("node3", "other", false)),
        ("stamp of node3", |site| site.facts("node3").unreadable_stamp = Some("damaged".to_owned())),
        ("stamp of node3", |site| site.stamp("node3", "demo", false)),
    ];
    for (what, bend) in cases {
        let mut site = Site::agreeing();
        bend(&mut site);
        let found = named(&site.found(), Verdict::InTheWay);
        assert!(found.iter().any(|found| found == what), "{what}: {found:#?}");
        let error = site.plan().unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Preflight);
        assert!(site.found().of_verdict(Verdict::InTheWay).all(|item| item.fix.is_some()), "{error}");
    }
}

#[test]
fn versions_names_and_addresses_differ_and_are_kept() {
    let mut site = Site::agreeing();
    site.running.server_version = Some("v1.33.1".to_owned());
    site.running.nodes[0].kubelet = "v1.33.1".to_owned();
    site.running.nodes[0].runtime_version = "1.7.29".to_owned();
    site.running.nodes[1].addresses = vec!["192.168.0.9".to_owned()];
    site.running.nodes[2].ready = false;
    site.running.etcd[0].version = Some("3.5.21".to_owned());
    site.running.kubelets[0].runtime = Some("unix:///var/run/crio/crio.sock".to_owned());
    site.running.kubelets[1].runtime = Some("unix:///var/run/containerd/containerd.sock".to_owned());
    site.kubeadm().endpoint = "lb.example.com".to_owned();
    site.kubeadm().name = "production".to_owned();
    site.kubeadm().image_repository = "registry.example.com/k8s".to_owned();
    let found = site.found();
    assert_eq!(named(&found, Verdict::InTheWay), Vec::<String>::new());
    let mut differs = named(&found, Verdict::Differs);
    differs.sort();
    assert_eq!(
        differs,
        [
            "Kubernetes",
            "address of node2",
            "condition of node3",
            "endpoint of the API servers",
            "kubelet of node1",
            "name inside the cluster",
            "registry of kubeadm's images",
            "runtime endpoint of node1",
            "version of etcd of node1",
            "version of the container runtime of node1",
        ]
    );
    let endpoint = found.items.iter().find(|item| item.what == "endpoint of the API servers").unwrap();
    assert_eq!(endpoint.found, "lb.example.com:6443", "kubeadm's own port");
    assert_eq!(site.plan().unwrap().steps.len(), 3);
}

#[test]
fn what_cannot_be_told_is_unknown_and_a_plugin_of_the_operators_own_stays_his() {
    let mut site = Site::agreeing();
    site.bundle = None;
    site.cluster.network.plugin = NetworkPlugin::None;
    site.running.network = None;
    site.running.kubelets[1].runtime = None;
    let leftover = |what: &str| Leftover { what: what.to_owned(), ours: false };
    site.facts("node1").leftovers =
        vec![leftover("/etc/kubernetes/manifests/haproxy.yaml"), leftover("/etc/cni/net.d/10-weave.conflist")];
    let found = site.found();
    assert_eq!(named(&found, Verdict::InTheWay), Vec::<String>::new());
    let unknown = named(&found, Verdict::Unknown);
    for what in
        ["Kubernetes", "versions of node3", "static pod of node1", "pod network's plugin", "runtime endpoint of node2"]
    {
        assert!(unknown.iter().any(|unknown| unknown == what), "{what}: {unknown:#?}");
    }
    let plugin = found.items.iter().find(|item| item.what == "pod network's plugin").unwrap();
    assert!(plugin.found.starts_with("10-weave.conflist"), "{plugin:?}");
}

#[test]
fn an_adopted_cluster_is_known_and_one_that_kubexm_made_has_nothing_to_adopt() {
    let hosts = ["node1", "node2", "node3"];
    let mut site = Site::agreeing();
    site.stamp("node1", "demo", true);
    assert_eq!((site.found().origin, site.plan().unwrap().steps.len()), (Origin::Foreign, 3), "a crash after one host");
    hosts.iter().for_each(|host| site.stamp(host, "demo", true));
    assert_eq!((site.found().origin, site.plan().unwrap().steps.len()), (Origin::Adopted, 3));
    let refused = refuse(Pipeline::Create, &site.cluster, &site.facts).unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::Unsupported);
    refuse(Pipeline::CertsRenew, &site.cluster, &site.facts).unwrap();
    let text = refused.to_string();
    assert!(text.contains("`kubexm-install create`") && text.contains("node1, node2, node3"), "{text}");

    hosts.iter().for_each(|host| site.stamp(host, "demo", false));
    assert_eq!((site.found().origin, site.found().items.len()), (Origin::Kubexm, 0));
    assert!(site.plan().unwrap().steps.is_empty());
    refuse(Pipeline::Create, &site.cluster, &site.facts).unwrap();
}

#[test]
fn a_cluster_with_kubexms_record_whose_hosts_have_lost_their_stamps_is_not_adopted() {
    let mut site = Site::agreeing();
    site.running.applied = Some(AppliedCluster {
        schema: kubexm_plan::cluster_facts::applied::SCHEMA.to_owned(),
        name: "demo".to_owned(),
        id: Some(ID),
        kubernetes: "v1.34.4".to_owned(),
        cluster_sha256: Digest::of("yaml"),
        cluster: serde_json::json!({}),
        bundle: BundleRecord { manifest: Digest::of("m"), signers: Default::default(), date: None, sequence: None },
        program: "kubexm-install 0.1.0".to_owned(),
    });
    assert_eq!(named(&site.found(), Verdict::InTheWay), ["record of kubexm-install in the cluster"]);
}

#[test]
fn a_node_that_says_very_much_does_not_push_the_rest_out_of_sight() {
    let mut site = Site::agreeing();
    let stranger = |n| NodeFacts { name: format!("{n}{}", "x".repeat(9_000)), ..NodeFacts::default() };
    site.running.nodes.extend((0..5_000).map(stranger));
    let found = site.found();
    assert_eq!(found.of_verdict(Verdict::InTheWay).count(), 41);
    assert!(found.items.iter().all(|item| item.found.chars().count() <= 403));
    assert!(found.in_the_way().iter().any(|line| line.contains("4960 more like these")));
}

/// Over an etcd outside of kubeadm's control, which cluster.yaml names.
fn over_etcd_of_others() -> Site {
    let cluster = sample_adoption::with_external_etcd(sample::fleet(2, 1));
    let running = sample_adoption::running(&cluster);
    Site { cluster, running, ..Site::agreeing() }
}

fn etcd<'s>(site: &'s mut Site, host: &str) -> &'s mut kubexm_plan::cluster_facts::ApiServerEtcd {
    site.running.kubelets.iter_mut().find(|one| one.host == host).unwrap().etcd.as_mut().unwrap()
}

#[test]
fn an_etcd_of_others_that_cluster_yaml_names_is_known_with_its_members_and_files() {
    let site = over_etcd_of_others();
    let found = site.found();
    assert_eq!(named(&found, Verdict::InTheWay), Vec::<String>::new());
    assert_eq!(named(&found, Verdict::Differs), Vec::<String>::new());
    let known = named(&found, Verdict::Known);
    for what in [
        "endpoints of etcd",
        "member of etcd",
        "etcd of the API server of node1",
        "prefix in etcd of node2",
        "files for etcd of node2",
        "CA of etcd of node2",
    ] {
        assert!(known.iter().any(|known| known == what), "{what}: {known:#?}");
    }
    let unknown = named(&found, Verdict::Unknown);
    assert_eq!(unknown, ["pod network's settings", "other settings", "version of etcd", "certificates for etcd"]);
    assert_eq!(site.plan().unwrap().steps.len(), 3);
}

#[test]
fn what_of_an_etcd_of_others_is_another_one_is_in_the_way_and_what_is_only_different_is_kept() {
    type Bend = fn(&mut Site);
    let in_the_way: [(&str, &str, Bend); 6] = [
        ("endpoints of etcd", "write `endpoints: [\"https://10.0.9.1:2379\"]`", |site| {
            site.cluster.etcd.external.as_mut().unwrap().endpoints = vec!["https://10.0.9.2:2379".to_owned()];
        }),
        // One that is missing in cluster.yaml would be missing in what an upgrade asks.
        ("endpoints of etcd", "\"https://10.0.9.2:2379\"]`", |site| {
            site.kubeadm().external_etcd.as_mut().unwrap().endpoints.push("https://10.0.9.2:2379".to_owned());
        }),
        ("endpoints of etcd", "by https://", |site| {
            site.kubeadm().external_etcd.as_mut().unwrap().endpoints = vec!["http://10.0.9.1:2379".to_owned()];
        }),
        ("prefix in etcd of node2", "write `prefix: /lab`", |site| etcd(site, "node2").prefix = "/lab".to_owned()),
        ("etcd of the API server of node2", "another etcd", |site| {
            etcd(site, "node2").access.endpoints = vec!["https://10.0.9.9:2379".to_owned()];
        }),
        ("etcd of the API server of node1", "find out which etcd", |site| site.running.kubelets[0].etcd = None),
    ];
    for (what, fix, bend) in in_the_way {
        let mut site = over_etcd_of_others();
        bend(&mut site);
        let found = site.found();
        let item =
            found.of_verdict(Verdict::InTheWay).find(|item| item.fix.as_ref().is_some_and(|text| text.contains(fix)));
        assert!(item.is_some() && named(&found, Verdict::InTheWay).iter().any(|one| one == what), "{what}: {found:#?}");
        assert_eq!(site.plan().unwrap_err().exit_code(), ExitCode::Preflight);
    }
    let kept: [(&str, Bend); 5] = [
        ("files for etcd of node2", |site| {
            etcd(site, "node2").lacks.push("/etc/ssl/etcd/ssl/node-node1.pem".to_owned())
        }),
        ("etcd of the API server of node2", |site| {
            etcd(site, "node2").access.endpoints.push("https://10.0.9.2:2379".to_owned());
        }),
        ("member of etcd", |site| site.running.etcd[0].healthy = false),
        ("CA of etcd of node2", |site| {
            let of_node2 = |one: &&mut kubexm_plan::cluster_facts::Certificate| {
                one.host == "node2" && one.path.ends_with("/ca.pem")
            };
            site.running.certificates.iter_mut().find(of_node2).unwrap().file = Some(Digest::of("with two"));
        }),
        ("CA of etcd of node1", |_| ()),
    ];
    for (what, bend) in kept {
        let mut site = over_etcd_of_others();
        bend(&mut site);
        let found = site.found();
        assert_eq!(named(&found, Verdict::InTheWay), Vec::<String>::new(), "{what}");
        let verdict = if what == "CA of etcd of node1" { Verdict::Known } else { Verdict::Differs };
        assert!(named(&found, verdict).iter().any(|one| one == what), "{what}: {found:#?}");
    }
    // Its members need not answer: what cannot be asked is unknown.
    let mut site = over_etcd_of_others();
    site.running.etcd.clear();
    assert!(named(&site.found(), Verdict::Unknown).contains(&"members of etcd".to_owned()));
    site.plan().unwrap();
}

#[test]
fn the_lines_that_are_to_be_written_are_a_cluster_yaml_with_which_nothing_is_in_the_way() {
    let mut site = over_etcd_of_others();
    let five = (1..=5).map(|n| format!("https://10.0.9.{n}:2379")).collect::<Vec<_>>();
    site.kubeadm().external_etcd.as_mut().unwrap().endpoints = five.clone();
    for host in ["node1", "node2"] {
        let etcd = etcd(&mut site, host);
        (etcd.access.endpoints, etcd.prefix) = (five.clone(), "/lab".to_owned());
    }
    site.cluster = sample::fleet(2, 1);
    let found = site.found();
    let [item] = found.of_verdict(Verdict::InTheWay).collect::<Vec<_>>()[..] else { panic!("{found:#?}") };
    let fix = item.fix.clone().unwrap();
    let line = fix.split('`').nth(1).unwrap();
    let yaml = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n  hosts: [{{name: a, address: 10.0.0.1}}]\n  \
         roleGroups: {{master: [a]}}\n  kubernetes: {{version: v1.34.4}}\n  {line}\n"
    );
    let written = kubexm_spec::cluster::parse(&yaml).expect("a cluster");
    site.cluster.etcd = written.etcd;
    site.cluster.role_groups.etcd.clear();
    assert_eq!(named(&site.found(), Verdict::InTheWay), Vec::<String>::new());
    assert!(fix.contains("/etc/ssl/etcd/ssl/ca.pem") && fix.contains("/etc/ssl/etcd/ssl/node-node1.pem"), "{fix}");
}
