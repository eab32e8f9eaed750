//! Where images come from, by `spec.registry.type`, and how each version of containerd is configured for it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::collections::BTreeSet;

use crate::common::{Site, text};
use kubexm_plan::op::{ImageLoaded, ImageSource, Op};
use kubexm_plan::{Plan, Probe, lint};
use kubexm_recipes::sample;
use kubexm_spec::ExitCode;
use kubexm_spec::cluster::{Cluster, ExtraImage, Harbor, Listen, Registry, RegistryKind};
use kubexm_spec::depot::DepotConfig;

const DEPOT: &str = "/etc/kubexm/depot/config.json";

fn with(kind: RegistryKind, change: impl FnOnce(&mut Cluster)) -> Plan {
    let mut cluster = sample::fleet(1, 1);
    let port = if kind == RegistryKind::Registry { 5000 } else { 5443 };
    cluster.registry = Registry { port, data_dir: "/srv/registry".to_owned(), ..Registry::of(kind) };
    change(&mut cluster);
    let plan = Site::of(cluster).create().unwrap();
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    plan
}

fn extra(name: &str) -> ExtraImage {
    ExtraImage { name: name.to_owned(), from: None }
}

fn ops<'p>(plan: &'p Plan, host: &str) -> impl Iterator<Item = &'p Op> {
    plan.steps.iter().filter(move |step| step.host == host).flat_map(|step| &step.ops)
}

fn images<'p>(plan: &'p Plan, host: &str) -> Vec<&'p ImageLoaded> {
    ops(plan, host).filter_map(|op| if let Op::ImageLoaded(image) = op { Some(image) } else { None }).collect()
}

fn paths(plan: &Plan) -> BTreeSet<&str> {
    let files = plan.steps.iter().flat_map(|step| &step.ops);
    files.filter_map(|op| if let Op::File(file) = op { Some(file.path.as_str()) } else { None }).collect()
}

#[test]
fn the_registry_gets_every_image_under_names_that_nodes_ask_for_and_is_asked_for_all_of_it() {
    let plan =
        with(RegistryKind::Registry, |cluster| cluster.bundle.extra_images = vec![extra("localhost:5000/x/y:1")]);
    let layout =
        ops(&plan, "node1").find_map(|op| if let Op::RegistryLayout(layout) = op { Some(layout) } else { None });
    let layout = layout.unwrap();
    assert_eq!(layout.data_dir, "/srv/registry");
    assert!(layout.repositories.contains_key("registry.k8s.io/pause"));
    assert!(layout.repositories["localhost_5000/x/y"].tags.contains_key("1"));
    assert!(layout.repositories.keys().all(|name| !name.contains(':')), "distribution refuses a colon in a name");
    let probe = plan.steps.iter().find_map(|step| step.probe.as_ref().filter(|_| step.id.0 == "node1/registry.serve"));
    let Probe::RegistryServes { url, repositories, .. } = &probe.unwrap().probe else { panic!("it is not asked") };
    assert_eq!(url, "https://registry.demo.kubexm.internal:5000");
    assert_eq!(repositories, &layout.repositories);
    let hosts = text(&plan, "/etc/containerd/certs.d/localhost:5000/hosts.toml");
    assert!(hosts.contains("server = \"https://registry.demo.kubexm.internal:5000/v2/localhost_5000\""), "{hosts}");
    let config = text(&plan, "/etc/kubexm/registry/config.yml");
    assert!(
        config.contains("rootdirectory: \"/srv/registry\"\n") && config.contains("addr: 0.0.0.0:5000\n"),
        "{config}"
    );
    assert!(ops(&plan, "node2").all(|op| !matches!(op, Op::RegistryLayout(_))));
    insta::assert_snapshot!(config);
}

#[test]
fn the_registry_listens_on_the_nodes_address_alone_where_that_is_said() {
    let plan = with(RegistryKind::Registry, |cluster| cluster.registry.listen = Listen::NodeAddress);
    let config = text(&plan, "/etc/kubexm/registry/config.yml");
    assert!(config.contains("\n  addr: \"10.77.0.11:5000\"\n") && !config.contains("0.0.0.0"), "{config}");
}

#[test]
fn the_depot_stays_for_blobs_beside_every_registry_and_serves_images_only_as_the_embedded_one() {
    for kind in [RegistryKind::Embedded, RegistryKind::Registry, RegistryKind::None] {
        let plan = with(kind, |_| {});
        let config: DepotConfig = serde_json::from_str(text(&plan, DEPOT)).unwrap();
        assert_eq!(
            (config.listen.port(), config.images.is_empty()),
            (5443, kind != RegistryKind::Embedded),
            "{kind:?}"
        );
        let depots =
            ops(&plan, "node2").find_map(|op| if let Op::Blobs(blobs) = op { blobs.depots.clone() } else { None });
        assert_eq!(depots.unwrap().urls, ["https://10.77.0.11:5443"], "{kind:?}");
    }
}

#[test]
fn without_a_registry_every_node_imports_all_that_may_run_there_and_asks_nobody() {
    let plan = with(RegistryKind::None, |cluster| {
        cluster.bundle.extra_images = vec![extra("docker.io/library/busybox:1"), extra("registry.k8s.io/pause:3.10.1")];
    });
    let names = |host: &str| images(&plan, host).into_iter().map(|image| image.reference.clone()).collect::<Vec<_>>();
    assert!(names("node1").iter().any(|name| name.starts_with("registry.k8s.io/etcd:")));
    assert!(!names("node2").iter().any(|name| name.starts_with("registry.k8s.io/etcd:")));
    for host in ["node1", "node2"] {
        assert_eq!(names(host).iter().filter(|name| *name == "docker.io/library/busybox:1").count(), 1);
        assert_eq!(
            names(host).iter().filter(|name| *name == "registry.k8s.io/pause:3.10.1").count(),
            1,
            "once is enough"
        );
        for image in images(&plan, host) {
            let ImageSource::Store { blobs } = &image.source else { panic!("{} is pulled", image.reference) };
            assert!(blobs.contains(&image.digest), "{}", image.reference);
        }
    }
    let mirrors: Vec<&str> = paths(&plan).into_iter().filter(|path| path.ends_with("/hosts.toml")).collect();
    assert_eq!(mirrors, ["/etc/containerd/certs.d/_default/hosts.toml"]);
    assert!(text(&plan, mirrors[0]).contains("server = \"https://127.0.0.1:1/"));
}

#[test]
fn with_a_registry_images_that_the_user_adds_stay_where_they_are_until_a_pod_wants_them() {
    for kind in [RegistryKind::Embedded, RegistryKind::Registry] {
        let plan = with(kind, |cluster| cluster.bundle.extra_images = vec![extra("docker.io/library/busybox:1")]);
        assert!(
            images(&plan, "node2")
                .iter()
                .all(|image| image.source.is_registry() && !image.reference.contains("busybox"))
        );
    }
}

#[test]
fn containerd_1_7_gets_its_own_config_format_and_is_checked_for_it() {
    let plan = with(RegistryKind::Embedded, |cluster| cluster.runtime.version = Some("1.7.32".to_owned()));
    let config = text(&plan, "/etc/containerd/config.toml");
    let probe = plan.steps.iter().find(|step| step.id.0 == "node1/runtime.run").unwrap().probe.clone().unwrap();
    let Probe::CriReady { config_dump, .. } = probe.probe else { panic!("the runtime is not looked at") };
    for wanted in &config_dump {
        assert!(config.contains(wanted.as_str()), "{wanted} is not in\n{config}");
    }
    insta::assert_snapshot!(config);
}

#[test]
fn a_containerd_of_an_unknown_shape_is_refused_while_planning() {
    let mut site = Site::new();
    for artifact in site.manifest.artifacts.iter_mut().filter(|a| a.key.to_string() == "binary/containerd") {
        artifact.version = "3.0.0".to_owned();
    }
    site.cluster.runtime.version = None;
    let error = site.create().unwrap_err();
    assert!(matches!(error.exit_code(), ExitCode::Unsupported | ExitCode::BundleIncomplete), "{error}");
}

/// Three nodes, of which the second and the third serve the registry.
fn two_hosts(kind: RegistryKind) -> Site {
    let mut cluster = sample::fleet(1, 3);
    cluster.registry = Registry { data_dir: "/srv/registry".to_owned(), ..Registry::of(kind) };
    cluster.role_groups.registry = vec!["node2".to_owned(), "node3".to_owned()];
    Site::of(cluster)
}

fn on<'p>(plan: &'p Plan, step: &str) -> &'p kubexm_plan::Step {
    plan.steps.iter().find(|found| found.id.0 == step).unwrap_or_else(|| panic!("the plan has no {step}"))
}

/// The text of a file of a step.
fn file_of<'p>(plan: &'p Plan, step: &str, path: &str) -> &'p str {
    let digest = on(plan, step).ops.iter().find_map(|op| match op {
        Op::File(file) if file.path == path => match &file.content {
            kubexm_plan::op::Content::Text { digest } => Some(digest),
            _ => None,
        },
        _ => None,
    });
    &plan.texts[digest.unwrap_or_else(|| panic!("{step} writes no {path}"))]
}

#[test]
fn of_several_registry_hosts_the_first_is_filled_by_the_controller_and_the_others_from_it() {
    let plan = two_hosts(RegistryKind::Embedded).create().unwrap();
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let urls = |host: &str| {
        on(&plan, &format!("{host}/store.fill")).ops.iter().find_map(|op| match op {
            Op::Blobs(blobs) => Some(blobs.depots.as_ref().map(|depots| depots.urls.clone()).unwrap_or_default()),
            _ => None,
        })
    };
    let [second, third] = ["https://10.77.0.12:5443", "https://10.77.0.13:5443"].map(str::to_owned);
    assert_eq!(urls("node2"), Some(vec![]));
    assert_eq!(urls("node3"), Some(vec![second.clone()]));
    // Hosts that serve nothing begin with different ones.
    assert_eq!(urls("node1"), Some(vec![third.clone(), second.clone()]));
    assert_eq!(urls("node4"), Some(vec![second, third]));
    let order = lint::Order::of(&plan);
    let at = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).unwrap();
    let before = |a: &str, b: &str| order.is_before(at(a), at(b));
    assert!(before("node2/depot.serve", "node3/store.fill") && before("node3/depot.serve", "node4/store.fill"));
    for (host, probe) in [("node2", "https://10.77.0.12:5443/v2/"), ("node3", "https://10.77.0.13:5443/v2/")] {
        let asked = on(&plan, &format!("{host}/depot.serve")).probe.as_ref().map(|probe| &probe.probe);
        assert!(matches!(asked, Some(Probe::Https { url, .. }) if url == probe), "{host}: {asked:?}");
    }
    // Each has a certificate for its own address.
    assert!(["registry-cert", "registry-cert-node3"].iter().all(|slot| plan.slots.keys().any(|name| name.0 == *slot)));
}

#[test]
fn runtimes_ask_every_registry_host_and_one_that_is_a_node_asks_itself_first() {
    for (kind, port) in [(RegistryKind::Embedded, 5443), (RegistryKind::Registry, 5000)] {
        let mut site = two_hosts(kind);
        site.cluster.registry.port = port;
        let plan = site.create().unwrap();
        let path = "/etc/containerd/certs.d/registry.k8s.io/hosts.toml";
        let asked = |host: &str| -> Vec<&str> {
            let text = file_of(&plan, &format!("{host}/runtime.mirrors"), path);
            let first = text.lines().filter_map(|line| line.strip_prefix("[host.\"https://")?.strip_suffix("\"]"));
            let last = text.lines().filter_map(|line| line.strip_prefix("server = \"https://")?.strip_suffix('"'));
            first.chain(last).map(|url| url.split_once('/').unwrap().0).collect()
        };
        let [second, third] = [2, 3].map(|host| format!("10.77.0.1{host}:{port}"));
        for host in ["node2", "node4"] {
            assert_eq!(asked(host), [second.as_str(), third.as_str()], "{host}");
        }
        for host in ["node1", "node3"] {
            assert_eq!(asked(host), [third.as_str(), second.as_str()], "{host}");
        }
        let text = file_of(&plan, "node1/runtime.mirrors", path);
        assert_eq!(text.matches("ca = ").count(), 2, "{text}");
    }
}

#[test]
fn the_registrys_name_leads_to_every_host_and_to_none_beside_harbors_one() {
    let plan = two_hosts(RegistryKind::Embedded).create().unwrap();
    let lines = |host: &str| -> Vec<&String> {
        let step = on(&plan, &format!("{host}/os.hosts"));
        let lines =
            step.ops.iter().find_map(|op| if let Op::HostsBlock(block) = op { Some(&block.lines) } else { None });
        lines.unwrap().iter().filter(|line| line.ends_with(" registry.demo.kubexm.internal")).collect()
    };
    let [second, third] = [2, 3].map(|host| format!("10.77.0.1{host} registry.demo.kubexm.internal"));
    assert_eq!(lines("node2"), [&second, &third]);
    assert_eq!(lines("node3"), [&third, &second]);
    let refused = two_hosts(RegistryKind::Harbor).create().unwrap_err();
    assert!(refused.to_string().contains("there is one Harbor"), "{refused}");
}

#[test]
fn other_registry_hosts_come_with_create_before_nodes_are_added_or_upgraded() {
    let mut site = two_hosts(RegistryKind::Embedded);
    let record = text(&site.create().unwrap(), "kubexm-cluster").to_owned();
    let record =
        kubexm_plan::cluster_facts::AppliedCluster::of_config_map(&serde_json::from_str(&record).unwrap()).unwrap();
    let running = kubexm_plan::ClusterFacts { applied: Some(record), ..kubexm_plan::ClusterFacts::default() };
    site.join_all_but("node4");
    let add = |site: &Site| kubexm_recipes::add_node(&site.cx(), &running, &["node4".to_owned()]);
    add(&site).unwrap();
    site.cluster.role_groups.registry.push("node4".to_owned());
    let refused = add(&site).unwrap_err().to_string();
    assert!(refused.contains("which has node2, node3") && refused.contains("kubexm-install create"), "{refused}");
    // In another order they are the same hosts.
    site.cluster.role_groups.registry = vec!["node3".to_owned(), "node2".to_owned()];
    add(&site).unwrap();
}

/// Harbor answers 401 to whoever asks a public project without a token, so who looks at what it serves has a login; nodes need none.
#[test]
fn public_projects_of_harbor_are_looked_at_with_the_robots_login() {
    let mut cluster = sample::fleet(1, 1);
    cluster.hosts.push(sample::host("store", 30));
    cluster.role_groups.registry = vec!["store".to_owned()];
    let harbor = Some(Harbor { public: true, ..Harbor::default() });
    cluster.registry = Registry { harbor, ..Registry::of(RegistryKind::Harbor) };
    let plan = Site::of(cluster).create().unwrap();
    let login = "/etc/kubexm/harbor/login";
    let probe = plan.steps.iter().filter_map(|step| step.probe.as_ref()).find_map(|probe| match &probe.probe {
        Probe::RegistryServes { login, .. } => Some(login.as_deref()),
        _ => None,
    });
    assert_eq!(probe, Some(Some(login)));
    assert!(paths(&plan).contains(login));
    assert!(!text(&plan, "/etc/containerd/certs.d/registry.k8s.io/hosts.toml").contains("Authorization"));
}
