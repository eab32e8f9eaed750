//! What `create` refuses, and what in cluster.yaml or on a host changes the plan.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::net::{IpAddr, Ipv4Addr};

use crate::common::{Site, text};
use kubexm_plan::cluster_facts::{AppliedCluster, applied};
use kubexm_plan::facts::{SelinuxState, StateFolder};
use kubexm_plan::op::{Act, KubeadmInit, MoveAside, Op};
use kubexm_plan::{BundleRecord, Plan, Undo, lint};
use kubexm_recipes::{PlanContext, RecipeError, sample};
use kubexm_spec::cluster::{Firewall, Selinux};
use kubexm_spec::{ArtifactKey, ClusterImage, ExitCode, Program};
use serde_json::json;

/// The plan of a site after one change; it passes the lint.
fn plan(change: impl FnOnce(&mut Site)) -> Plan {
    let mut site = Site::new();
    change(&mut site);
    let plan = site.create().unwrap();
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    plan
}

fn refused(change: impl FnOnce(&mut Site)) -> RecipeError {
    let mut site = Site::new();
    change(&mut site);
    site.create().unwrap_err()
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|s| s.id.0.as_str()).collect()
}

fn kubeadm(plan: &Plan) -> &str {
    text(plan, "/etc/kubexm/kubeadm.yaml")
}

#[test]
fn everything_that_the_bundle_lacks_is_named_at_once() {
    let lost = [ArtifactKey::Binary(Program::Kubelet), ArtifactKey::Image(ClusterImage::Etcd)];
    let error = refused(|site| site.manifest.artifacts.retain(|a| !lost.contains(&a.key)));
    assert_eq!(error.exit_code(), ExitCode::BundleIncomplete);
    let text = error.to_string();
    for wanted in ["2 artifacts", "binary/kubelet 1.34.4 for linux/amd64", "image/etcd 3.6.5-0 for linux/amd64"] {
        assert!(text.contains(wanted), "{text}");
    }
}

#[test]
fn another_version_than_the_cluster_wants_is_missing() {
    let error = refused(|site| {
        let kubectl = site.manifest.artifacts.iter_mut().find(|a| a.key == ArtifactKey::Binary(Program::Kubectl));
        kubectl.unwrap().version = "1.34.0".to_owned();
    });
    assert!(error.to_string().contains("binary/kubectl 1.34.4 for linux/amd64 (the bundle has 1.34.0)"), "{error}");
}

#[test]
fn a_bundle_of_extras_has_no_cluster_to_create() {
    assert!(matches!(refused(|site| site.cluster.kubernetes = None), RecipeError::NoCluster));
}

#[test]
fn a_host_without_facts_or_address_is_refused() {
    assert!(matches!(refused(|site| site.facts.clear()), RecipeError::NoFacts { .. }));
    let named = refused(|site| site.cluster.hosts[0].address = "node1.example".to_owned());
    assert!(matches!(named, RecipeError::NoAddress { .. }));
    assert!(matches!(refused(|site| site.cluster.hosts.clear()), RecipeError::NoHosts { .. }));
}

#[test]
fn a_service_network_without_room_for_dns_is_refused() {
    let error = refused(|site| site.cluster.network.service_cidr = "10.233.0.0/30".parse().unwrap());
    assert!(matches!(error, RecipeError::BadNetwork { .. }), "{error}");
}

#[test]
fn the_same_input_gives_the_same_plan() {
    assert_eq!(plan(|_| ()).digest().unwrap(), plan(|_| ()).digest().unwrap());
}

/// The reviewed list: a new action, or a step that cannot be rolled back, shows up here.
#[test]
fn the_actions_of_create_are_kubeadm_init_and_its_rollback() {
    let plan = plan(|_| ());
    let mut acts = Vec::new();
    for step in &plan.steps {
        acts.extend(step.ops.iter().filter_map(|op| if let Op::Act(act) = op { Some(act.to_string()) } else { None }));
        match &step.undo {
            Undo::Act { act } => acts.push(format!("undo: {act}")),
            Undo::Irreversible { why } => panic!("{} is irreversible: {why}", step.id),
            _ => (),
        }
    }
    assert_eq!(acts, ["act kubeadm init with /etc/kubexm/kubeadm.yaml", "undo: act kubeadm reset"]);
}

#[test]
fn a_step_that_changes_something_says_how_it_is_rolled_back() {
    for step in plan(|_| ()).steps {
        assert_eq!(step.undo == Undo::Nothing, step.ops.is_empty(), "{}", step.id);
    }
}

#[test]
fn firewall_and_selinux_are_changed_only_if_requested_and_active() {
    let seen = |site: &mut Site| site.facts().firewalls = vec!["firewalld".to_owned(), "nftables".to_owned()];
    let keep = plan(seen);
    assert!(!ids(&keep).contains(&"node1/os.firewall") && !ids(&keep).contains(&"node1/os.selinux"));
    let unseen = plan(|site| site.cluster.system.firewall = Firewall::Off);
    assert!(!ids(&unseen).contains(&"node1/os.firewall"));
    let off = plan(|site| {
        seen(site);
        site.cluster.system.firewall = Firewall::Off;
        site.cluster.system.selinux = Selinux::Permissive;
    });
    assert!(ids(&off).contains(&"node1/os.selinux"));
    assert!(off.render().contains("unit firewalld.service disabled, stopped"));
    assert!(!off.render().contains("nftables"));
}

/// For whoever looks into the cluster: nodes and the controller remember the same, and it is theirs that the next bundle is compared with.
#[test]
fn the_record_in_the_cluster_names_who_has_signed_its_bundle_and_when() {
    let site = Site::new();
    let signers = ["sha256:0123".to_owned()].into();
    let bundle =
        BundleRecord { manifest: site.cx().manifest_digest, signers, date: Some(1_790_000_000), sequence: Some(7) };
    let recorded = |bundle: Option<&BundleRecord>| {
        let plan = kubexm_recipes::create(&PlanContext { bundle_record: bundle, ..site.cx() }).unwrap();
        let record = serde_json::from_str(text(&plan, applied::CONFIG_MAP)).unwrap();
        AppliedCluster::of_config_map(&record).unwrap().bundle
    };
    assert_eq!(recorded(Some(&bundle)), bundle);
    let unsigned = BundleRecord { signers: Default::default(), date: None, sequence: None, ..bundle };
    assert_eq!(recorded(None), unsigned);
}

/// Parts of the node reach its files, other containers do not. What kubeadm was given shows it, so that it is not changed later on
/// a running cluster, whose pods would lose their files at their next start.
#[test]
fn containers_are_confined_by_selinux_only_if_cluster_yaml_wants_it() {
    let kept = plan(|site| site.facts().selinux = SelinuxState::Enforcing);
    let rendered = |plan: &Plan| plan.texts.values().cloned().collect::<Vec<_>>().join("\n");
    assert!(!rendered(&kept).contains("enable_selinux") && !rendered(&kept).contains("spc_t"));
    for version in [None, Some("1.7.32")] {
        let mut cluster = sample::cluster();
        cluster.system.selinux = Selinux::Confine;
        cluster.runtime.version = version.map(str::to_owned);
        let confined = Site::of(cluster).create().unwrap();
        assert!(!ids(&confined).contains(&"node1/os.selinux"), "it goes on enforcing");
        assert!(text(&confined, "/etc/containerd/config.toml").contains("\n  enable_selinux = true\n"), "{version:?}");
        assert!(confined.render().contains("enable_selinux = true"), "the runtime must show it: {}", confined.render());
        assert!(kubeadm(&confined).contains("directory: /etc/kubexm/patches"), "{}", kubeadm(&confined));
        for pod in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            let patch = text(&confined, &format!("/etc/kubexm/patches/{pod}+merge.yaml"));
            assert!(patch.contains("seLinuxOptions:\n      type: spc_t"), "{patch}");
        }
        let flannel = confined.texts.values().find(|text| text.contains("kube-flannel-ds")).unwrap();
        assert!(flannel.contains("type: spc_t"), "{flannel}");
    }
    let mut site = Site::of(sample::fleet(2, 1));
    site.cluster.system.selinux = Selinux::Confine;
    let fleet = site.create().unwrap();
    lint::check(fleet.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert!(ids(&fleet).contains(&"node2/join.patch") && !ids(&fleet).contains(&"node3/join.patch"));
}

#[test]
fn nameservers_of_cluster_yaml_come_first_and_reach_pods_without_loopback_ones() {
    let plan = plan(|site| {
        site.cluster.extra.resolves = vec![IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2))];
        site.facts().nameservers = Some(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]);
    });
    assert!(plan.render().contains("resolver 10.77.0.2"));
    assert!(text(&plan, "/etc/kubexm/resolv.conf").ends_with("\nnameserver 10.77.0.2\n"));
    assert!(kubeadm(&plan).contains("resolvConf: /etc/kubexm/resolv.conf"));
    assert!(!ids(&plan).contains(&"node1/dns.corefile"), "there is somewhere to forward to");
}

#[test]
fn behind_systemd_resolved_pods_get_the_servers_that_it_asks() {
    let stub = |upstream: Vec<IpAddr>| {
        plan(|site| {
            site.facts().nameservers = Some(vec![IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53))]);
            site.facts().resolved_nameservers = Some(upstream.clone());
        })
    };
    let useful = stub(vec![IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1))]);
    assert!(kubeadm(&useful).contains("resolvConf: /run/systemd/resolve/resolv.conf"));
    for absent in ["node1/dns.resolv-conf", "node1/dns.corefile"] {
        assert!(!ids(&useful).contains(&absent), "{absent}");
    }
    for useless in [stub(Vec::new()), stub(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])] {
        assert!(kubeadm(&useless).contains("resolvConf: /etc/kubexm/resolv.conf"));
        assert!(ids(&useless).contains(&"node1/dns.corefile"));
    }
}

#[test]
fn servers_of_cluster_yaml_that_reached_systemd_resolved_do_not_change_the_next_plan() {
    let seen = |upstream: &[[u8; 4]]| {
        plan(|site| {
            site.cluster.extra.resolves = vec![IpAddr::from([10, 77, 0, 2])];
            site.facts().nameservers = Some(vec![IpAddr::from([127, 0, 0, 53])]);
            site.facts().resolved_nameservers = Some(upstream.iter().copied().map(IpAddr::from).collect());
        })
    };
    for own in [Vec::new(), vec![[10, 77, 0, 1]]] {
        let first = seen(&own);
        assert!(kubeadm(&first).contains("resolvConf: /etc/kubexm/resolv.conf"));
        let second = seen(&[vec![[10, 77, 0, 2]], own].concat());
        assert_eq!(first.render(), second.render());
    }
}

#[test]
fn a_usable_resolver_and_a_default_route_are_left_alone() {
    let plan = plan(|_| ());
    assert!(kubeadm(&plan).contains("resolvConf: /etc/resolv.conf"));
    for absent in ["node1/dns.resolv-conf", "node1/dns.corefile", "node1/network.service-route"] {
        assert!(!ids(&plan).contains(&absent), "{absent}");
    }
}

#[test]
fn the_users_kubelet_and_proxy_settings_win_over_ours() {
    let plan = plan(|site| {
        let kubernetes = site.cluster.kubernetes.as_mut().unwrap();
        kubernetes.kubelet.insert("maxPods".to_owned(), json!(200));
        kubernetes.kubelet.insert("evictionHard".to_owned(), json!({"nodefs.available": "1Gi"}));
        kubernetes.kube_proxy.insert("conntrack".to_owned(), json!({"maxPerCore": 0}));
    });
    for wanted in ["maxPods: 200", "nodefs.available: 1Gi", "maxPerCore: 0"] {
        assert!(kubeadm(&plan).contains(wanted), "{wanted}:\n{}", kubeadm(&plan));
    }
}

#[test]
fn runtime_and_kubelet_have_the_same_cgroup_driver() {
    let plan = plan(|site| {
        let kubelet = &mut site.cluster.kubernetes.as_mut().unwrap().kubelet;
        kubelet.insert("cgroupDriver".to_owned(), json!("cgroupfs"));
    });
    assert!(kubeadm(&plan).contains("cgroupDriver: cgroupfs"));
    assert!(text(&plan, "/etc/containerd/config.toml").contains("SystemdCgroup = false"));
}

#[test]
fn from_1_35_kubeadm_ignores_cgroup_v1_if_the_user_wants_it() {
    let mut cluster = sample::cluster();
    let kubernetes = cluster.kubernetes.as_mut().unwrap();
    kubernetes.version = Some("v1.35.4".to_owned());
    kubernetes.kubelet.insert("failCgroupV1".to_owned(), json!(false));
    let mut site = Site::of(cluster);
    site.facts().cgroup_version = 1;
    let plan = site.create().unwrap();
    let ignored = plan.steps.iter().flat_map(|s| &s.ops).find_map(|op| match op {
        Op::Act(Act::KubeadmInit(KubeadmInit { ignore, .. })) => Some(ignore.clone()),
        _ => None,
    });
    assert_eq!(ignored.unwrap(), ["SystemVerification"]);
}

#[test]
fn a_tool_that_cluster_yaml_leaves_out_is_not_installed() {
    let mut cluster = sample::cluster();
    cluster.bundle.exclude = vec!["crictl".to_owned(), "helm".to_owned()];
    let plan = Site::of(cluster).create().unwrap();
    assert!(!ids(&plan).iter().any(|id| id.ends_with("crictl") || id.ends_with("helm")));
}

#[test]
fn labels_names_and_addresses_of_cluster_yaml_reach_the_cluster() {
    let plan = plan(|site| {
        site.cluster.hosts[0].labels.insert("rack".to_owned(), "a1".to_owned());
        site.cluster.hosts[0].address = "node1.example".to_owned();
        site.cluster.hosts[0].internal_address = Some(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 11)));
        site.cluster.kubernetes.as_mut().unwrap().cert_sans = vec!["api.example".to_owned()];
        site.cluster.extra.hosts.push(kubexm_spec::cluster::ExtraHost {
            domain: "nexus.example".to_owned(),
            address: IpAddr::V4(Ipv4Addr::new(10, 77, 0, 5)),
        });
    });
    assert!(plan.render().contains("node node1 with label rack=a1"));
    assert!(plan.render().contains("10.77.0.5 nexus.example"));
    for san in ["- api.example", "- node1.example", "- \"10.77.0.11\""] {
        assert!(kubeadm(&plan).contains(san), "{san}:\n{}", kubeadm(&plan));
    }
}

#[test]
fn a_control_plane_that_is_no_worker_keeps_its_taint() {
    let plan = plan(|site| site.cluster.role_groups.worker.clear());
    assert!(!kubeadm(&plan).contains("taints"));
    let rendered = plan.render();
    assert!(rendered.contains("node node1 with label app.kubernetes.io/managed-by=kubexm"), "{rendered}");
    assert!(!rendered.contains("without taint"), "{rendered}");
}

#[test]
fn the_pod_networks_interface_can_be_named() {
    let plan = plan(|site| site.cluster.network.interface = Some("eth1".to_owned()));
    assert!(text(&plan, "flannel").contains("--iface=eth1"));
}

#[test]
fn containerd_1_from_an_overlay_gets_a_config_of_its_own_shape() {
    let mut site = Site::new();
    let containerd = site.catalogue.components.get_mut("containerd").unwrap();
    let pins = containerd.versions["2.2.7"].clone();
    containerd.versions.insert("1.7.27".to_owned(), pins);
    site.cluster.runtime.version = Some("1.7.27".to_owned());
    site.manifest = sample::manifest(&site.cluster, &site.catalogue).unwrap();
    let plan = site.create().unwrap();
    assert!(text(&plan, "/etc/containerd/config.toml").starts_with("version = 2\n"));
}

#[test]
fn crictls_config_is_yaml_with_the_socket_once_quoted() {
    let socket = "unix:///run/containerd/containerd.sock";
    let wanted = format!("runtime-endpoint: \"{socket}\"\nimage-endpoint: \"{socket}\"\ntimeout: 10\n");
    assert_eq!(text(&plan(|_| ()), "/etc/crictl.yaml"), wanted);
}

#[test]
fn files_in_state_folders_are_moved_aside_right_after_the_stamp_and_only_when_that_was_asked_for() {
    let occupied = |set_aside: bool| {
        plan(|site| {
            site.set_aside = set_aside;
            let path = "/var/lib/etcd".to_owned();
            site.facts().state_folders =
                vec![StateFolder { path, files: 1, first: vec!["snapshot.db".to_owned()], moved: None }];
        })
    };
    let moving = occupied(true);
    assert_eq!(ids(&moving)[..2], ["node1/os.stamp", "node1/os.set-aside"]);
    let step = &moving.steps[1];
    assert!(step.title.contains("/var/lib/etcd"), "{}", step.title);
    assert_eq!(step.ops, [Op::MoveAside(MoveAside { paths: vec!["/var/lib/etcd".to_owned()] })]);
    assert_eq!(step.undo, Undo::RestoreBefore);
    let without = |plan: &Plan| ids(plan).iter().any(|id| id.ends_with("set-aside"));
    assert!(!without(&occupied(false)) && !without(&plan(|site| site.set_aside = true)));
}

#[test]
fn folders_of_kubernetes_are_looked_at_by_the_step_that_fills_them() {
    for step in &plan(|_| {}).steps {
        let folders =
            step.ops.iter().filter(|op| matches!(op, Op::StateDir(dir) if dir.path == "/var/lib/etcd")).count();
        let fills = step.ops.iter().any(|op| matches!(op, Op::Act(Act::KubeadmInit(_) | Act::KubeadmJoin(_))));
        assert_eq!(folders == 1, fills, "{}", step.id);
    }
}
