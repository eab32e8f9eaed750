//! Whole plans and the files they write, as text to be read. `cargo insta review` after a wanted change.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use crate::common::{Site, fleet_text, text};
use crate::isulad;
use insta::{Settings, assert_snapshot};
use kubexm_plan::{Plan, lint};
use kubexm_recipes::sample;
use kubexm_spec::ExitCode;
use kubexm_spec::cluster::{
    API_PORT, Audit, Cluster, ExternalKind, Harbor, InternalKind, LoadBalancerMode, MaterialFile, MaterialUse,
    NetworkPlugin, ProxyMode, Registry, RegistryKind, Role, Runtime, RuntimeKind, Script, SecretSource, Taint,
    TaintEffect,
};

/// All texts of a case go into one folder, without a header that changes with the test's line.
fn golden(case: &str, check: impl FnOnce()) {
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path(format!("../golden/{case}"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(check);
}

fn checked(site: &Site) -> Plan {
    let plan = site.create().unwrap();
    let (_, warnings) = lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    plan
}

#[test]
fn one_host_that_is_everything() {
    let plan = checked(&Site::new());
    golden("one-host", || {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("kubeadm", text(&plan, "/etc/kubexm/kubeadm.yaml"));
        assert_snapshot!("flannel", text(&plan, "flannel"));
        assert_snapshot!("containerd-config", text(&plan, "/etc/containerd/config.toml"));
        assert_snapshot!("hosts-toml", text(&plan, "/etc/containerd/certs.d/registry.k8s.io/hosts.toml"));
        assert_snapshot!("hosts-toml-default", text(&plan, "/etc/containerd/certs.d/_default/hosts.toml"));
        assert_snapshot!("depot-config", text(&plan, "/etc/kubexm/depot/config.json"));
        for unit in ["containerd", "kubelet", "kubexm-depot"] {
            assert_snapshot!(unit, text(&plan, &format!("/etc/systemd/system/{unit}.service")));
        }
    });
}

#[test]
fn one_host_without_default_route_and_with_an_empty_resolv_conf() {
    let mut site = Site::new();
    site.facts().default_route = false;
    site.facts().nameservers = Some(Vec::new());
    let plan = checked(&site);
    golden("no-route-no-resolver", || {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("kubeadm", text(&plan, "/etc/kubexm/kubeadm.yaml"));
        assert_snapshot!("resolv-conf", text(&plan, "/etc/kubexm/resolv.conf"));
        assert_snapshot!("coredns", text(&plan, "coredns"));
        assert_snapshot!("service-route", text(&plan, "/etc/systemd/system/kubexm-service-route.service"));
    });
}

#[test]
fn pods_with_addresses_of_both_families() {
    let mut cluster = sample::cluster();
    cluster.network.more_pod_cidrs = vec!["fd85:1::/56".parse().unwrap()];
    cluster.network.more_service_cidrs = vec!["fd85:2::/112".parse().unwrap()];
    let first = cluster.hosts[0].node_ip();
    cluster.hosts[0].internal_address = first;
    cluster.hosts[0].more_internal_addresses = vec!["fd00::11".parse().unwrap()];
    let plan = checked(&Site::of(cluster));
    golden("two-stacks", || {
        assert_snapshot!("kubeadm", text(&plan, "/etc/kubexm/kubeadm.yaml"));
        assert_snapshot!("flannel", text(&plan, "flannel"));
        assert!(plan.render().contains("net.ipv6.conf.all.forwarding"));
    });
}

#[test]
fn a_network_that_the_operator_brings() {
    let mut cluster = sample::cluster();
    cluster.network.plugin = NetworkPlugin::None;
    let plan = checked(&Site::of(cluster));
    golden("network-none", || assert_snapshot!("plan", plan.render()));
}

#[test]
fn cri_o_in_place_of_containerd() {
    let mut cluster = sample::cluster();
    cluster.runtime = Runtime { kind: RuntimeKind::CriO, ..Runtime::default() };
    let plan = checked(&Site::of(cluster));
    golden("cri-o", || {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("kubeadm", text(&plan, "/etc/kubexm/kubeadm.yaml"));
        assert_snapshot!("config", text(&plan, "/etc/crio/crio.conf.d/90-kubexm.conf"));
        assert_snapshot!("registries", text(&plan, "/etc/containers/registries.conf.d/90-kubexm.conf"));
        let policy = text(&plan, "/etc/crio/kubexm-policy.json");
        assert_snapshot!("policy", policy);
        let read: serde_json::Value = serde_json::from_str(policy).expect("JSON");
        assert_eq!(read["transports"]["docker"].as_object().map(serde_json::Map::len), Some(3));
        for unit in ["crio", "kubelet"] {
            assert_snapshot!(unit, text(&plan, &format!("/etc/systemd/system/{unit}.service")));
        }
    });
}

#[test]
fn docker_in_place_of_containerd() {
    let mut cluster = sample::cluster();
    cluster.runtime = Runtime { kind: RuntimeKind::Docker, ..Runtime::default() };
    let plan = checked(&Site::of(cluster));
    golden("docker", || {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("kubeadm", text(&plan, "/etc/kubexm/kubeadm.yaml"));
        assert_snapshot!("daemon", text(&plan, "/etc/docker/daemon.json"));
        for unit in ["docker", "cri-docker", "kubelet"] {
            assert_snapshot!(unit, text(&plan, &format!("/etc/systemd/system/{unit}.service")));
        }
    });
}

#[test]
fn isulad_of_the_hosts_packages() {
    let mut site = Site::of(isulad::alone());
    isulad::host(site.facts());
    let plan = checked(&site);
    golden("isulad", || {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("kubeadm", text(&plan, "/etc/kubexm/kubeadm.yaml"));
        assert_snapshot!("daemon", text(&plan, "/etc/isulad/daemon.json"));
        assert_snapshot!("isulad", text(&plan, "/etc/systemd/system/isulad.service"));
    });
}

#[test]
fn docker_without_a_registry() {
    let mut cluster = sample::cluster();
    cluster.runtime = Runtime { kind: RuntimeKind::Docker, ..Runtime::default() };
    cluster.registry = Registry::of(RegistryKind::None);
    let plan = checked(&Site::of(cluster));
    golden("docker-none", || assert_snapshot!("plan", plan.render()));
}

#[test]
fn harbor_on_a_host_of_its_own() {
    let mut cluster = sample::fleet(1, 1);
    cluster.hosts.push(sample::host("store", 30));
    cluster.role_groups.registry = vec!["store".to_owned()];
    cluster.network.pod_cidr = "172.29.0.0/16".parse().unwrap();
    let config =
        serde_json::json!({"log": {"level": "debug"}, "database": {"max_open_conns": 50}, "http": {"port": 8080}});
    cluster.registry = Registry {
        harbor: Some(Harbor {
            project_quota: Some(200 << 30),
            admin_password: Some(SecretSource::Env("ADMIN".to_owned())),
            config: config.as_object().unwrap().clone(),
            ..Harbor::default()
        }),
        ..Registry::of(RegistryKind::Harbor)
    };
    let plan = checked(&Site::of(cluster));
    golden("harbor", || {
        assert_snapshot!("plan", plan.render());
        for file in ["harbor.yml", "database.yml", "engine.json"] {
            assert_snapshot!(file, text(&plan, &format!("/etc/kubexm/harbor/{file}")));
        }
        for script in ["engine", "start", "stop"] {
            assert_snapshot!(script, text(&plan, &format!("/usr/local/lib/kubexm-harbor/{script}")));
        }
        for unit in ["kubexm-harbor", "kubexm-harbor-engine"] {
            assert_snapshot!(unit, text(&plan, &format!("/etc/systemd/system/{unit}.service")));
        }
        assert_snapshot!("hosts-toml", text(&plan, "/etc/containerd/certs.d/registry.k8s.io/hosts.toml"));
        assert_snapshot!(
            "hosts-toml-own",
            text(&plan, "/etc/containerd/certs.d/registry.demo.kubexm.internal/hosts.toml")
        );
    });
}

#[test]
fn two_control_planes_and_a_worker() {
    let site = Site::of(sample::fleet(2, 1));
    let plan = checked(&site);
    golden("fleet", || {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("kubeadm", text(&plan, "/etc/kubexm/kubeadm.yaml"));
        assert_snapshot!("join-control-plane", fleet_text(&plan, "node2/join.node"));
        assert_snapshot!("join-worker", fleet_text(&plan, "node3/join.node"));
    });
}

#[test]
fn flags_gates_and_taints_of_cluster_yaml() {
    let mut cluster = sample::fleet(2, 1);
    let kubernetes = cluster.kubernetes.as_mut().unwrap();
    kubernetes.feature_gates =
        [("APIServerIdentity".to_owned(), false), ("APIResponseCompression".to_owned(), true)].into();
    kubernetes.api_server_args = [("event-ttl".to_owned(), "2h".to_owned())].into();
    kubernetes.scheduler_args = [("profiling".to_owned(), "false".to_owned())].into();
    cluster.etcd.quota = Some(4 << 30);
    cluster.etcd.snapshots.keep = Some(7);
    let taint = |key: &str, value: &str, effect| Taint { key: key.into(), value: value.into(), effect };
    for host in &mut cluster.hosts {
        host.taints =
            vec![taint("dedicated", "database", TaintEffect::NoSchedule), taint("gpu", "", TaintEffect::NoExecute)];
    }
    let plan = checked(&Site::of(cluster));
    golden("flags", || {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("kubeadm", text(&plan, "/etc/kubexm/kubeadm.yaml"));
        assert_snapshot!("join-control-plane", fleet_text(&plan, "node2/join.node"));
        assert_snapshot!("join-worker", fleet_text(&plan, "node3/join.node"));
    });
}

/// Its watches end within seconds; a cluster that was made without the flag stays as it is until it is upgraded.
#[test]
fn an_api_server_that_ends_does_not_wait_for_those_who_watch() {
    const FLAG: &str = "shutdown-watch-termination-grace-period";
    let config = |site: &Site| text(&checked(site), "/etc/kubexm/kubeadm.yaml").to_owned();
    let mut site = Site::of(sample::cluster());
    let fresh = config(&site);
    assert!(fresh.contains(&format!("{FLAG}\n    value: 5s\n")), "{fresh}");
    for (had, stays) in [(fresh.as_str(), true), ("kind: ClusterConfiguration\n", false)] {
        site.facts.values_mut().for_each(|facts| facts.kubeadm_config_text = Some(had.to_owned()));
        assert_eq!(config(&site).contains(FLAG), stays);
    }
    let mut cluster = sample::cluster();
    cluster.kubernetes.as_mut().unwrap().api_server_args = [(FLAG.to_owned(), "20s".to_owned())].into();
    let theirs = config(&Site::of(cluster));
    assert!(theirs.matches(FLAG).count() == 1 && theirs.contains("value: 20s"), "{theirs}");
}

#[test]
fn ipvs_gets_its_modules_and_what_kube_proxy_sets_is_remembered() {
    let mut cluster = sample::cluster();
    cluster.kubernetes.as_mut().unwrap().proxy_mode = ProxyMode::Ipvs;
    let plan = checked(&Site::of(cluster));
    assert!(text(&plan, "/etc/kubexm/kubeadm.yaml").contains("mode: ipvs"));
    let rendered = plan.render();
    for wanted in ["ip_vs_wrr", "ip_vs_sh", "remembering net.ipv4.vs.conntrack"] {
        assert!(rendered.contains(wanted), "{wanted}");
    }
    assert!(!checked(&Site::of(sample::cluster())).render().contains("ip_vs"));
}

#[test]
fn control_planes_with_an_audit_log_by_our_policy_and_by_one_of_the_user() {
    let mut cluster = sample::fleet(2, 0);
    let of = |cluster: &mut Cluster, audit| cluster.kubernetes.as_mut().unwrap().audit = Some(audit);
    of(&mut cluster, Audit::default());
    let ours = checked(&Site::of(cluster.clone()));
    let file = MaterialFile::parse("policies/audit.yaml").unwrap();
    of(&mut cluster, Audit { policy_file: Some(file), max_age: 7, ..Audit::default() });
    let mut site = Site::of(cluster);
    let plan = checked(&site);
    golden("audit", || {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("kubeadm", text(&plan, "/etc/kubexm/kubeadm.yaml"));
        assert_snapshot!("policy", text(&ours, "/etc/kubexm/audit/policy.yaml"));
    });
    assert_eq!(text(&plan, "/etc/kubexm/audit/policy.yaml"), site.materials["policies/audit.yaml"]);
    for text in [text(&ours, "/etc/kubexm/audit/policy.yaml"), text(&plan, "/etc/kubexm/audit/policy.yaml")] {
        assert_eq!(MaterialUse::AuditPolicy.check(text), Ok(()));
    }
    // Without the text there is no plan.
    site.materials.clear();
    let error = site.create().unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::BundleIncomplete);
    assert!(error.to_string().contains("material/policies/audit.yaml"), "{error}");
}

#[test]
fn a_script_runs_on_the_hosts_that_it_selects_by_role_or_name_and_keeps_its_number() {
    let script = |roles: &[Role], hosts: &[&str]| Script {
        name: "x".to_owned(),
        bash: "true".to_owned(),
        materials: Vec::new(),
        timeout: 90,
        undo: Some("true".to_owned()),
        roles: roles.to_vec(),
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
    };
    let mut cluster = sample::fleet(2, 2);
    cluster.system.pre_install =
        vec![script(&[Role::Worker], &[]), script(&[], &["node1"]), script(&[Role::Worker], &["node2"])];
    cluster.system.post_install = vec![script(&[Role::LoadBalancer], &[]), script(&[], &[])];
    let plan = checked(&Site::of(cluster));
    let ids = plan.steps.iter().map(|step| step.id.0.as_str()).filter(|id| id.contains("/script."));
    let mut ids: Vec<&str> = ids.collect();
    ids.sort_unstable();
    let wanted = [
        "node1/script.post-2",
        "node1/script.pre-2",
        "node2/script.post-2",
        "node2/script.pre-3",
        "node3/script.post-2",
        "node3/script.pre-1",
        "node3/script.pre-3",
        "node4/script.post-2",
        "node4/script.pre-1",
        "node4/script.pre-3",
    ];
    assert_eq!(ids, wanted);
}

#[test]
fn scripts_run_before_and_after_everything_and_one_without_an_undo_is_said() {
    let script = |name: &str, undo: Option<&str>| Script {
        name: name.to_owned(),
        bash: format!("./{name}.sh\n"),
        materials: vec![MaterialFile::parse("scripts/disks.sh").unwrap()],
        timeout: 90,
        undo: undo.map(str::to_owned),
        roles: Vec::new(),
        hosts: Vec::new(),
    };
    let mut cluster = sample::fleet(1, 1);
    cluster.system.pre_install = vec![script("disks", Some("./disks.sh off\n"))];
    cluster.system.post_install = vec![script("report", None)];
    let plan = Site::of(cluster).create().unwrap();
    let (_, warnings) = lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let said: Vec<&str> = warnings.iter().map(|warning| warning.text.as_str()).collect();
    let said_of =
        |host: &str| format!("{host}/script.post-1 cannot be rolled back: cluster.yaml has no undo for this script");
    assert_eq!(said, [said_of("node1"), said_of("node2")]);
    let rendered = plan.render();
    let steps: Vec<&str> = rendered.split("\n\n").filter(|step| step.contains("/script.")).collect();
    golden("scripts", || assert_snapshot!("steps", steps.join("\n\n")));
    let first =
        |host: &str| plan.steps.iter().filter(|step| step.host == host).take(2).map(|s| &*s.id.0).collect::<Vec<_>>();
    assert_eq!(first("node2"), ["node2/os.stamp", "node2/script.pre-1"]);
}

#[test]
fn a_worker_that_is_added_to_a_cluster() {
    let mut site = Site::of(sample::fleet(1, 2));
    site.join_all_but("node3");
    let plan =
        kubexm_recipes::add_node(&site.cx(), &kubexm_plan::ClusterFacts::default(), &["node3".to_owned()]).unwrap();
    let (_, warnings) = lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    golden("add-node", || assert_snapshot!("plan", plan.render()));
}

#[test]
fn a_proxy_on_every_worker_and_a_control_plane_that_is_added_behind_it() {
    let mut cluster = sample::fleet(2, 1);
    let mode = |kind| LoadBalancerMode::Internal { kind, vip: None, port: API_PORT, interface: None };
    cluster.load_balancer.mode = mode(InternalKind::Nginx);
    let nginx = checked(&Site::of(cluster.clone()));
    cluster.load_balancer.mode = mode(InternalKind::Haproxy);
    let mut site = Site::of(cluster);
    let plan = checked(&site);
    site.join_all_but("node2");
    let added = kubexm_recipes::add_node(&site.cx(), &kubexm_plan::ClusterFacts::default(), &["node2".to_owned()]);
    let added = added.unwrap();
    let (_, warnings) = lint::check(added.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    golden("balancer", || {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("add-node", added.render());
        assert_snapshot!("haproxy", text(&plan, "/etc/kubexm/haproxy/haproxy.cfg"));
        assert_snapshot!("haproxy-pod", text(&plan, "/etc/kubernetes/manifests/kubexm-haproxy.yaml"));
        assert_snapshot!("nginx", text(&nginx, "/etc/kubexm/nginx/nginx.conf"));
        assert_snapshot!("nginx-pod", text(&nginx, "/etc/kubernetes/manifests/kubexm-nginx.yaml"));
    });
}

/// Three control planes behind two hosts that are nothing else and lack the packages.
fn behind_keepalived(kind: ExternalKind) -> Site {
    let mut cluster = sample::fleet(3, 1);
    for (name, last) in [("lb1", 21), ("lb2", 22)] {
        cluster.hosts.push(sample::host(name, last));
        cluster.role_groups.load_balancer.push(name.to_owned());
    }
    cluster.bundle.os = vec!["debian-12".to_owned()];
    cluster.load_balancer.mode = LoadBalancerMode::External {
        kind,
        vip: [10, 77, 0, 100].into(),
        port: API_PORT,
        interface: None,
        virtual_router_id: None,
    };
    Site::of(cluster)
}

fn added_behind_keepalived(mut site: Site) -> Plan {
    site.join_all_but("node3");
    let added = kubexm_recipes::add_node(&site.cx(), &kubexm_plan::ClusterFacts::default(), &["node3".to_owned()]);
    let added = added.unwrap();
    let (_, warnings) = lint::check(added.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    added
}

/// With nginx only what lb1 has is another: the rest of the plan is the same.
#[test]
fn keepalived_and_nginx_before_three_control_planes() {
    let site = behind_keepalived(ExternalKind::KubexmKn);
    let plan = checked(&site);
    let with_haproxy = checked(&behind_keepalived(ExternalKind::KubexmKh));
    let of = |plan: &Plan| -> Vec<String> {
        let ids = plan.steps.iter().map(|step| step.id.0.clone());
        ids.filter(|id| !id.contains("/packages.")).collect()
    };
    assert_eq!(of(&plan), of(&with_haproxy));
    let added = added_behind_keepalived(site);
    let of_lb1 = |plan: &Plan| -> String {
        let text = plan.render();
        let steps =
            text.split("\n\n").filter(|step| step.starts_with("lb1/balancer") || step.starts_with("lb1/packages"));
        steps.collect::<Vec<_>>().join("\n\n")
    };
    golden("keepalived-nginx", || {
        assert_snapshot!("plan", of_lb1(&plan));
        assert_snapshot!("add-node", of_lb1(&added));
        assert_snapshot!("nginx", text(&plan, "/etc/kubexm/balancer/nginx.conf"));
        assert_snapshot!("nginx-check", text(&plan, "/usr/local/bin/kubexm-nginx-check"));
        assert_snapshot!("keepalived-unit", text(&plan, "/etc/systemd/system/kubexm-keepalived.service"));
        for unit in ["kubexm-nginx", "kubexm-nginx-check"] {
            assert_snapshot!(format!("{unit}-unit"), text(&plan, &format!("/etc/systemd/system/{unit}.service")));
        }
    });
}

#[test]
fn keepalived_and_haproxy_before_three_control_planes() {
    let site = behind_keepalived(ExternalKind::KubexmKh);
    let plan = checked(&site);
    let added = added_behind_keepalived(site);
    golden("keepalived", || {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("add-node", added.render());
        assert_snapshot!("haproxy", text(&plan, "/etc/kubexm/balancer/haproxy.cfg"));
        assert_snapshot!("check", text(&plan, "/usr/local/bin/kubexm-balancer-check"));
        for unit in ["kubexm-haproxy", "kubexm-keepalived"] {
            assert_snapshot!(unit, text(&plan, &format!("/etc/systemd/system/{unit}.service")));
        }
        assert_snapshot!("keepalived", text(&plan, "/etc/kubexm/balancer/keepalived.conf"));
    });
}

/// keepalived without a peer falls back to multicast, where anybody of the network may take the address.
#[test]
fn a_single_host_before_the_control_planes_hears_nobody() {
    let mut cluster = behind_keepalived(ExternalKind::KubexmKh).cluster;
    cluster.hosts.pop();
    cluster.role_groups.load_balancer.pop();
    let plan = checked(&Site::of(cluster));
    let config = text(&plan, "/etc/kubexm/balancer/keepalived.conf");
    let (_, peers) = config.split_once("unicast_peer {").unwrap();
    assert_eq!(peers.split_once('}').unwrap().0.trim(), "127.0.0.1");
}

/// The recipe is there and proven on no host: `create` refuses it, and this is what it would do.
#[test]
fn kube_vip_on_the_control_planes() {
    let mut cluster = sample::fleet(2, 1);
    let vip = Some([10, 77, 0, 100].into());
    cluster.load_balancer.mode =
        LoadBalancerMode::Internal { kind: InternalKind::KubeVip, vip, port: API_PORT, interface: None };
    let site = Site::of(cluster);
    let plan = checked(&site);
    golden("kube-vip", || {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("kubeadm", text(&plan, "/etc/kubexm/kubeadm.yaml"));
        assert_snapshot!("before-init", fleet_text(&plan, "node1/balancer.before-init"));
        assert_snapshot!("pod", fleet_text(&plan, "node2/balancer.run"));
    });
}

#[test]
fn a_host_that_lacks_socat_and_conntrack_gets_them_from_the_bundle() {
    let mut cluster = sample::fleet(1, 1);
    cluster.bundle.os = vec!["debian-12".to_owned()];
    let mut site = Site::of(cluster);
    for program in ["socat", "conntrack"] {
        site.facts.get_mut("node2").unwrap().programs.insert(program.to_owned(), None);
    }
    let plan = checked(&site);
    golden("packages", || assert_snapshot!("plan", plan.render()));
}

#[test]
fn hosts_without_chrony_get_it_and_one_of_them_serves_the_time() {
    let mut cluster = sample::fleet(1, 1);
    cluster.bundle.os = vec!["debian-12".to_owned()];
    cluster.system.ntp_servers = vec!["10.0.0.9".to_owned(), "node1".to_owned()];
    let plan = checked(&Site::of(cluster));
    golden("time", || {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("server", fleet_text(&plan, "node1/time.server"));
        assert_snapshot!("client", fleet_text(&plan, "node2/time.client"));
    });
}
