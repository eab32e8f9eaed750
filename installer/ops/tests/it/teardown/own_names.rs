//! Networks whose links, rules and switches have names that others have, too: what is theirs goes, and on other hosts nothing of it.

use kubexm_ops::teardown::network;
use kubexm_ops::{dispatch, facts};
use kubexm_plan::{Op, Reset};

use super::mounted;
use crate::common::Host;

/// A host whose pods had a switch of their own in the kernel, with a tunnel and a pod's link.
fn with_switch(host: &Host) {
    for link in [
        "eth0",
        "ovs-system",
        "br-int",
        "ovn0",
        "mirror0",
        "genev_sys_6081",
        "4f2a91b03c7d_h",
        "4f2a91b0_net1_h",
        "fe_h",
    ] {
        host.put(&format!("/sys/class/net/{link}/address"), "");
    }
    for port in ["br-int", "ovn0", "mirror0"] {
        host.put(&format!("/sys/class/net/{port}/datapath"), "ovs-system");
    }
    attach(host, &["genev_sys_6081", "4f2a91b03c7d_h", "4f2a91b0_net1_h"]);
    mounted(host, &[]);
    for end in ["save", "restore"] {
        host.put(&format!("/usr/sbin/iptables-{end}"), "");
    }
    let rules = "*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        -A INPUT -m set --match-set ovn40subnets src -j ACCEPT\n\
        -A INPUT -p udp -m udp --dport 6081 -j ACCEPT\n\
        -A INPUT -p udp -m udp --dport 6081 -s 10.0.0.9/32 -j ACCEPT\n\
        -A OUTPUT -p udp -m udp --dport 6081 -j MARK --set-xmark 0x0/0xffffffff\nCOMMIT\n";
    host.put("/run/kubexm-double/iptables-save", rules);
}

fn attach(host: &Host, links: &[&str]) {
    for link in links {
        let path = host.machine.path(format!("/sys/class/net/{link}/master"));
        std::os::unix::fs::symlink("../ovs-system", path).expect("a master");
    }
}

#[test]
fn a_switch_in_the_kernel_goes_with_its_ports_its_tunnels_and_its_rules() {
    let host = Host::fresh();
    with_switch(&host);
    // A reset has set its folder aside before; the link leads nowhere then.
    host.put("/opt/.kubexm-reset-cni/bin/portmap", "");
    let plugin = host.machine.path("/opt/.kubexm-reset-cni/bin/kube-ovn");
    std::os::unix::fs::symlink("/opt/cni/kube-ovn/kube-ovn", plugin).expect("a link");
    let found = network::leftovers(&host.machine).expect("a look");
    let mut wanted = vec!["datapath ovs-system"];
    wanted.extend([
        "link 4f2a91b03c7d_h",
        "link 4f2a91b0_net1_h",
        "link fe_h",
        "link genev_sys_6081",
        "rules of iptables",
    ]);
    assert_eq!(found, wanted);
    network::clear(&host.machine).expect("cleared");
    assert_eq!(network::leftovers(&host.machine).expect("a look"), [""; 0]);
    let links = std::fs::read_dir(host.machine.path("/sys/class/net")).expect("links");
    assert_eq!(
        links.filter_map(|link| link.expect("a link").file_name().into_string().ok()).collect::<Vec<_>>(),
        ["eth0"]
    );
    assert_eq!(
        host.read("/run/kubexm-double/iptables-restore"),
        "*filter\n-D INPUT -m set --match-set ovn40subnets src -j ACCEPT\n-D INPUT -p udp -m udp --dport 6081 -j ACCEPT\n\
         -D OUTPUT -p udp -m udp --dport 6081 -j MARK --set-xmark 0x0/0xffffffff\nCOMMIT\n"
    );
}

#[test]
fn a_switch_of_the_hosts_own_stays_whatever_the_network_was() {
    let host = Host::fresh();
    with_switch(&host);
    network::clear(&host.machine).expect("cleared");
    for link in ["ovs-system", "br-int", "ovn0", "genev_sys_6081", "4f2a91b03c7d_h"] {
        assert!(host.machine.path(format!("/sys/class/net/{link}")).exists(), "{link}");
    }
    let restored = host.read("/run/kubexm-double/iptables-restore");
    assert!(!restored.contains("--dport 6081"), "{restored}");
}

#[test]
fn a_switch_that_has_a_link_of_the_host_is_refused_before_anything_is_stopped() {
    let host = Host::fresh();
    with_switch(&host);
    attach(&host, &["eth0"]);
    host.put("/opt/cni/bin/kube-ovn", "");
    assert_eq!(facts::collect(&host.machine, "node1").expect("facts").own_switch.links, ["eth0"]);
    let stopped = dispatch::converge(&Op::from(Reset::PodsStopped), &host.machine);
    for refused in [network::clear(&host.machine), stopped] {
        let error = refused.expect_err("refused").to_string();
        assert!(error.contains("eth0 of the host") && error.contains("provider-networks"), "{error}");
    }
    assert!(host.machine.path("/sys/class/net/ovs-system").exists());
}

#[test]
fn links_that_are_called_after_the_hosts_own_go_and_rules_that_are_known_by_their_mark() {
    let host = Host::fresh();
    for link in ["eth0", "eth0.4", "eth0.vxlan4", ".vxlan4", "hybrid0x", "hybr0", "hybr0f3c9ab1d2e"] {
        host.put(&format!("/sys/class/net/{link}/address"), "");
    }
    let rules = "0:\tfrom all lookup local\n1:\tfrom all lookup 39999\n3:\tfrom all fwmark 0x20/0x20 lookup 40001\n\
        4:\tfrom 10.233.64.0/18 fwmark 0/0x4040 lookup 10000\n5:\tfrom 10.9.0.0/16 fwmark 0/0x40 lookup 10001\n\
        6:\tfrom 10.9.0.0/16 lookup 10002\n7:\tfrom all fwmark 0/0x4040 lookup 200\n32766:\tfrom all lookup main\n";
    host.put("/run/kubexm-double/ip-rules", rules);
    mounted(&host, &[]);
    assert_eq!(
        network::leftovers(&host.machine).expect("a look"),
        [""; 0],
        "others' names on a host of another network"
    );
    host.put("/opt/cni/bin/hybridnet", "");
    let wanted = [
        "link eth0.vxlan4",
        "link hybr0f3c9ab1d2e",
        "rule 4 1 of table 39999",
        "rule 4 3 of table 40001",
        "rule 4 4 of table 10000",
    ];
    assert_eq!(network::leftovers(&host.machine).expect("a look"), wanted);
    network::clear(&host.machine).expect("cleared");
    assert_eq!(network::leftovers(&host.machine).expect("a look"), [""; 0]);
    let left = host.read("/run/kubexm-double/ip-rules");
    assert_eq!(left.lines().count(), 5, "{left}");
}
