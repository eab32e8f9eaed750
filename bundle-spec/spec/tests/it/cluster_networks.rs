//! Options of network plugins in cluster.yaml.

use kubexm_spec::cluster::{ProblemKind, parse};
use kubexm_spec::unsupported::check;

use crate::cluster_yaml::{file, kinds, refused};

#[test]
fn an_option_that_cilium_does_not_have_is_named_with_the_nearest_and_a_wrong_value_with_what_is_wanted() {
    let said =
        |options: &str| refused(&format!("  network:\n    plugin: cilium\n    options: {options}\n")).to_string();
    for (options, text) in [
        ("{l8Proxy: false}", "spec.network.options.l8Proxy: unknown option \"l8Proxy\" (did you mean l7Proxy?"),
        ("{hubble: {rely: {enabled: true}}}", "unknown option \"hubble.rely\""),
        ("{hubble: true}", "unknown option \"hubble\""),
        ("{ipam: {operator: {clusterPoolIPv4MaskSize: 20}}}", "unknown option \"ipam.operator\""),
        ("{image: {repository: r.example/cilium}}", "unknown option \"image\""),
        ("{l7Proxy: \"false\"}", "expected true or false, got \"false\""),
        ("{MTU: big}", "expected a whole number, got \"big\""),
        ("{ipam: {mode: eni}}", "expected one of kubernetes, cluster-pool, got \"eni\""),
        ("{nodePort: {addresses: 10.0.0.0/8}}", "expected a list of texts"),
        ("{resources: many}", "expected a mapping or a list"),
    ] {
        let all = said(options);
        assert!(all.contains(text), "{options}: {all}");
    }
    let many = said("{l8Proxy: false, MTU: big}");
    assert_eq!(many.lines().count(), 2, "all of them at once: {many}");
    for fine in
        ["{kubeProxyReplacement: \"true\"}", "{bpf: {mapDynamicSizeRatio: 0.005}}", "{resources: {limits: {cpu: 1}}}"]
    {
        parse(&file(&format!("  network: {{plugin: cilium, options: {fine}}}\n")))
            .unwrap_or_else(|p| panic!("{fine}\n{p}"));
    }
}

#[test]
fn settings_of_kube_proxy_are_refused_where_cilium_does_its_work() {
    let of = |kubernetes: &str, replaces: &str| {
        file(&format!(
            "  kubernetes: {{version: v1.34.4, {kubernetes}}}\n  network: {{plugin: cilium, options: {{kubeProxyReplacement: {replaces}}}}}\n"
        ))
    };
    for (kubernetes, field) in [
        ("proxyMode: ipvs", "spec.kubernetes.proxyMode: proxyMode sets"),
        ("proxyMode: nftables", "spec.kubernetes.proxyMode: proxyMode sets"),
        ("kubeProxy: {conntrack: {min: 0}}", "spec.kubernetes.kubeProxy: kubeProxy sets"),
    ] {
        for replaces in ["true", "\"true\""] {
            let all = parse(&of(kubernetes, replaces)).expect_err(kubernetes).to_string();
            assert!(all.contains(field) && all.contains("there is no kube-proxy"), "{kubernetes}: {all}");
            assert_eq!(all.lines().count(), 1, "{all}");
        }
        assert!(parse(&of(kubernetes, "false")).is_ok(), "beside kube-proxy it is kube-proxy's: {kubernetes}");
    }
    let both = parse(&of("nodelocaldns: {}, proxyMode: iptables", "true")).unwrap();
    assert!(both.network.replaces_kube_proxy());
    let paths: Vec<String> = check(&both).into_iter().map(|unsupported| unsupported.path).collect();
    assert_eq!(paths, ["spec.kubernetes.nodelocaldns"], "Cilium sees packets before the cache does");
    let other = parse(&file("  network: {plugin: none}\n")).unwrap();
    assert!(!other.network.replaces_kube_proxy());
}

#[test]
fn an_option_that_calico_does_not_have_is_named_with_the_nearest_and_a_wrong_value_with_what_is_wanted() {
    let said = |network: &str| refused(&format!("  network: {{plugin: calico, {network}}}\n")).to_string();
    for (network, text) in [
        ("options: {encapsulaton: IPIP}", "unknown option \"encapsulaton\" (did you mean encapsulation?"),
        (
            "options: {encapsulation: Geneve}",
            "expected one of VXLAN, VXLANCrossSubnet, IPIP, IPIPCrossSubnet, None, got",
        ),
        ("options: {blockSize: 19}", "expected a whole number from 20 to 32, got 19"),
        ("options: {blockSize: \"26\"}", "expected a whole number from 20 to 32"),
        ("options: {mtu: 100}", "expected a whole number from 576 to 65535, got 100"),
        ("options: {natOutgoing: \"no\"}", "expected true or false"),
        ("options: {typha: {replicas: 30}}", "expected a whole number from 1 to 20, got 30"),
        ("options: {typha: true}", "unknown option \"typha\""),
        ("options: {l7Proxy: true}", "or install Calico yourself, with plugin none"),
        (
            "podCidr: 10.1.2.0/24, options: {blockSize: 22}",
            "a block of /22 is larger than the network of pods, 10.1.2.0/24",
        ),
    ] {
        let all = said(network);
        assert!(all.contains(text), "{network}: {all}");
    }
    for fine in [
        "{}",
        "{encapsulation: None, typha: {enabled: true, replicas: 3}}",
        "{blockSize: 24, mtu: 1400, natOutgoing: false}",
    ] {
        parse(&file(&format!("  network: {{plugin: calico, podCidr: 10.1.2.0/24, options: {fine}}}\n")))
            .unwrap_or_else(|p| panic!("{fine}\n{p}"));
    }
}

#[test]
fn an_option_that_the_chart_of_kube_ovn_or_hybridnet_does_not_have_is_named() {
    let said = |network: &str| refused(&format!("  network: {{{network}}}\n")).to_string();
    for (network, text) in [
        ("plugin: kube-ovn, options: {func: {ENABLE_LBS: true}}", "unknown option \"func.ENABLE_LBS\" (did you mean"),
        ("plugin: kube-ovn, options: {networking: {TUNNEL_TYPE: stt}}", "expected one of geneve, vxlan, got"),
        ("plugin: kube-ovn, options: {networking: {NETWORK_TYPE: vlan}}", "unknown option \"networking.NETWORK_TYPE\""),
        ("plugin: kube-ovn, options: {MASTER_NODES: 10.0.0.1}", "unknown option \"MASTER_NODES\""),
        (
            "plugin: kube-ovn, options: {ipv4: {JOIN_CIDR: 100.64}}",
            "expected an IPv4 network of /24 or larger (100.64.0.0/16), got",
        ),
        ("plugin: kube-ovn, options: {ipv4: {JOIN_CIDR: \"fd00::/64\"}}", "expected an IPv4 network"),
        ("plugin: kube-ovn, options: {ipv4: {JOIN_CIDR: 100.64.3.9/16}}", "expected an IPv4 network"),
        ("plugin: kube-ovn, options: {ipv4: {JOIN_CIDR: 100.64.0.0/30}}", "expected an IPv4 network"),
        ("plugin: kube-ovn, options: {ovn-central: [1]}", "expected a mapping, got"),
        ("plugin: hybridnet, options: {webhook: {replicas: 0}}", "expected a whole number from 1 to 20, got 0"),
        ("plugin: hybridnet, options: {init: {cidr: 10.0.0.0/16}}", "unknown option \"init\""),
        ("plugin: hybridnet, options: {defaultIPRetain: \"yes\"}", "expected true or false"),
    ] {
        let all = said(network);
        assert!(all.contains(text), "{network}: {all}");
    }
}

#[test]
fn an_option_that_flannel_or_its_backend_does_not_have_is_named() {
    let said = |options: &str| refused(&format!("  network: {{plugin: flannel, options: {options}}}\n")).to_string();
    for (options, text) in [
        ("{bakend: host-gw}", "unknown option \"bakend\" (did you mean backend?"),
        ("{backend: ipip}", "expected one of vxlan, host-gw, wireguard, got \"ipip\""),
        ("{Port: 4789}", "install flannel yourself, with plugin none"),
        ("{mtu: 100}", "expected a whole number from 576 to 65535, got 100"),
        ("{backend: host-gw, mtu: 1400}", "the backend host-gw has no mtu"),
        (
            "{backend: wireguard, directRouting: true}",
            "directRouting is an option of the backend vxlan, and this is wireguard",
        ),
    ] {
        let all = said(options);
        assert!(all.contains(text), "{options}: {all}");
    }
    for fine in ["{}", "{backend: host-gw}", "{directRouting: true, mtu: 1400}", "{backend: wireguard, mtu: 1380}"] {
        let cluster = parse(&file(&format!("  network: {{plugin: flannel, options: {fine}}}\n")))
            .unwrap_or_else(|p| panic!("{fine}\n{p}"));
        assert!(check(&cluster).is_empty(), "{fine}");
    }
}

#[test]
fn every_encapsulation_of_calico_is_installed() {
    for options in [
        "{}",
        "{encapsulation: VXLAN, mtu: 1400}",
        "{encapsulation: VXLANCrossSubnet, typha: {enabled: true}}",
        "{encapsulation: IPIP}",
        "{encapsulation: IPIPCrossSubnet}",
        "{encapsulation: None}",
    ] {
        let cluster = parse(&file(&format!("  network: {{plugin: calico, options: {options}}}\n"))).unwrap();
        assert_eq!(check(&cluster), [], "{options}");
    }
}

#[test]
fn only_a_plugin_of_the_catalogue_has_a_version() {
    for plugin in ["flannel", "none"] {
        let problems = refused(&format!("  network: {{plugin: {plugin}, version: 1.2.3}}\n"));
        assert_eq!(kinds(&problems), [(5, ProblemKind::BadValue)], "{plugin}");
    }
}
