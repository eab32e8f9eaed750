//! How a host is set up: names, SELinux, proxies, mounts, networks.

use super::*;

#[test]
fn a_useless_resolv_conf_is_a_warning_unless_cluster_yaml_names_servers() {
    warns(|f| f.nameservers = None, "resolv.conf", "no /etc/resolv.conf");
    warns(|f| f.nameservers = Some(Vec::new()), "resolv.conf", "no name server");
    let loopback = vec![IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53))];
    warns(|f| f.nameservers = Some(loopback.clone()), "resolv.conf", "loopback");
    let behind_the_stub = |servers| {
        let stub = loopback.clone();
        move |f: &mut Facts| {
            f.nameservers = Some(stub);
            f.resolved_nameservers = Some(servers);
        }
    };
    passes(behind_the_stub(vec![IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1))]));
    warns(behind_the_stub(Vec::new()), "resolv.conf", "systemd-resolved");
    let named = findings(|site| {
        site.facts().nameservers = None;
        site.cluster.extra.resolves = vec![IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1))];
    });
    assert_eq!(named, Vec::new());
}

#[test]
fn selinux_firewall_and_swap_are_warnings() {
    warns(|f| f.selinux = SelinuxState::Enforcing, "settings", "SELinux");
    let kept = format!("{:?}", findings(|site| site.facts().selinux = SelinuxState::Enforcing));
    let [as_it_is, confine, permissive] = ["kept as it is", "`system.selinux: confine`", "`permissive` only if"];
    let at = |text: &str| kept.find(text).unwrap_or_else(|| panic!("{text}: {kept}"));
    assert!(at(as_it_is) < at(confine) && at(confine) < at(permissive), "the weakest is named last: {kept}");
    assert!(kept.contains("container-selinux"), "{kept}");
    passes(|f| f.selinux = SelinuxState::Permissive);
    warns(|f| f.fapolicyd = true, "settings", "fapolicyd");
    warns(|f| f.fips = true, "settings", "FIPS");
    let fips = findings(|site| site.facts().fips = true);
    assert!(
        fips.iter().all(|finding| !format!("{finding:?}").contains("off")),
        "no finding advises to turn it off: {fips:#?}"
    );
    warns(|f| f.firewalls = vec!["firewalld".to_owned()], "settings", "kept");
    let off = findings(|site| {
        site.cluster.system.firewall = Firewall::Off;
        site.facts().firewalls = vec!["ufw".to_owned()];
    });
    one(off, Severity::Warn, "settings", "will be stopped");
    warns(|f| f.swaps = vec!["/dev/sda2".to_owned()], "settings", "/dev/sda2");
    warns(|f| f.fstab_swaps = vec!["/swap none swap sw 0 0".to_owned()], "settings", "/swap");
}

#[test]
fn selinux_that_is_to_confine_containers_needs_their_policy() {
    let with = |state: SelinuxState, rpms: &[&str]| {
        findings(|site| {
            site.cluster.system.selinux = Selinux::Confine;
            site.cluster.system.rpms = rpms.iter().map(|name| (*name).to_owned()).collect();
            site.facts().selinux = state;
        })
    };
    one(with(SelinuxState::Enforcing, &[]), Severity::Fail, "settings", "without the policy");
    assert_eq!(with(SelinuxState::Enforcing, &["container-selinux"]), Vec::new());
    one(with(SelinuxState::Absent, &[]), Severity::Warn, "settings", "no SELinux");
    one(with(SelinuxState::Permissive, &[]), Severity::Warn, "settings", "permissive");
}

#[test]
fn a_proxy_is_a_warning_with_the_file_that_sets_it() {
    warns(
        |f| f.proxies = vec![("https_proxy".to_owned(), "/etc/environment".to_owned())],
        "proxies",
        "https_proxy set in /etc/environment",
    );
}

#[test]
fn a_noexec_mount_is_refused() {
    fails(|f| f.noexec = vec!["/usr/local".to_owned()], "noexec", "/usr/local");
}

#[test]
fn clones_are_refused() {
    let with = |change: fn(&mut Facts, &Facts)| {
        findings(|site| {
            second_host(site);
            let first = site.facts().clone();
            change(site.facts.get_mut("node2").unwrap(), &first);
        })
    };
    assert_eq!(with(|_, _| ()), Vec::new());
    one(with(|f, first| f.machine_id.clone_from(&first.machine_id)), Severity::Fail, "clones", "machine id");
    one(with(|f, first| f.product_uuid.clone_from(&first.product_uuid)), Severity::Fail, "clones", "product uuid");
    one(
        with(|f, first| f.interfaces[0].mac.clone_from(&first.interfaces[0].mac)),
        Severity::Fail,
        "clones",
        "hardware address",
    );
}

#[test]
fn a_node_that_runs_keeps_the_folder_of_its_images() {
    let has = |root: Option<&str>, wanted: Option<&str>| {
        findings(|site| {
            site.cluster.runtime.data_dir = wanted.map(str::to_owned);
            let facts = site.facts();
            stamped(facts);
            (facts.joined, facts.runtime_root) = (true, root.map(str::to_owned));
        })
    };
    let named = |found: &[Finding]| found.iter().any(|f| f.found.contains("whose images and containers are in"));
    assert!(!named(&has(None, None)) && !named(&has(Some("/data/c"), Some("/data/c"))));
    assert!(!named(&has(None, Some("/var/lib/containerd"))));
    assert!(named(&has(None, Some("/data/c"))) && named(&has(Some("/data/c"), None)));
}

#[test]
fn a_node_that_runs_keeps_its_pod_network() {
    let has = |config: &str, joined: bool, wanted: NetworkPlugin| {
        let found = findings(|site| {
            site.cluster.network.plugin = wanted;
            let facts = site.facts();
            stamped(facts);
            facts.joined = joined;
            facts.leftovers.push(Leftover { what: config.to_owned(), ours: true });
        });
        found
            .into_iter()
            .find(|finding| finding.found.contains("a node with the pod network"))
            .map(|found| found.to_string())
    };
    let flannel = "/etc/cni/net.d/10-flannel.conflist";
    let said = has(flannel, true, NetworkPlugin::Cilium).expect("two networks");
    assert!(
        said.contains(&format!("the pod network flannel ({flannel})")) && said.contains("plugin: flannel"),
        "{said}"
    );
    let calico = "/etc/cni/net.d/10-calico.conflist";
    assert!(has(calico, true, NetworkPlugin::Flannel).is_some_and(|said| said.contains("write plugin: calico")));
    assert_eq!(has(flannel, true, NetworkPlugin::Flannel), None);
    assert_eq!(has(flannel, true, NetworkPlugin::None), None, "handed over to the operator");
    assert_eq!(has(flannel, false, NetworkPlugin::Calico), None, "no node yet");
    assert_eq!(has("/etc/cni/net.d/87-podman-bridge.conflist", true, NetworkPlugin::Flannel), None);
}

#[test]
fn machines_without_a_uuid_are_no_clones() {
    let found = findings(|site| {
        second_host(site);
        site.facts().product_uuid.clear();
        site.facts.get_mut("node2").unwrap().product_uuid.clear();
        site.facts().interfaces[0].mac = "00:00:00:00:00:00".to_owned();
        site.facts.get_mut("node2").unwrap().interfaces[0].mac = "00:00:00:00:00:00".to_owned();
    });
    assert_eq!(found, Vec::new());
}

#[test]
fn networks_that_overlap_are_refused() {
    fails(|f| f.routes.push("10.233.70.0/24".to_owned()), "networks", "10.233.70.0/24");
    fails(|f| f.routes.push("10.0.0.0/8".to_owned()), "networks", "10.0.0.0/8");
    let each_other = findings(|site| site.cluster.network.service_cidr = "10.233.64.0/20".parse().unwrap());
    one(each_other, Severity::Fail, "networks", "serviceCidr 10.233.64.0/20");
    let node = findings(|site| site.cluster.network.pod_cidr = "10.77.0.0/16".parse().unwrap());
    assert!(node.iter().any(|f| f.found.contains("node's address")), "{node:#?}");
}

#[test]
fn our_own_bridges_and_routes_are_no_overlap_on_a_second_run() {
    passes(|f| {
        stamped(f);
        f.routes.extend(["10.233.64.0/24".to_owned(), "10.233.0.0/18".to_owned()]);
    });
    fails(
        |f| {
            stamped(f);
            f.routes.push("10.0.0.0/8".to_owned());
        },
        "networks",
        "10.0.0.0/8",
    );
}
