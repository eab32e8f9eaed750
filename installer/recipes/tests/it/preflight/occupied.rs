//! What is there already: programs, leftovers, ports.

use super::*;

#[test]
fn a_missing_program_is_refused_unless_another_does_its_work() {
    fails(|f| drop(f.programs.insert("conntrack".to_owned(), None)), "programs", "conntrack");
    fails(|f| drop(f.programs.remove("socat")), "programs", "socat");
    passes(|f| {
        f.programs.insert("iptables".to_owned(), None);
        f.programs.insert("nft".to_owned(), Some("/usr/sbin/nft".to_owned()));
    });
}

#[test]
fn leftovers_are_refused_unless_they_are_ours() {
    let leftover = |ours| Leftover { what: "/etc/kubernetes/admin.conf".to_owned(), ours };
    fails(|f| f.leftovers.push(leftover(false)), "existing", "/etc/kubernetes/admin.conf");
    passes(|f| f.leftovers.push(leftover(true)));
    passes(|f| {
        stamped(f);
        f.leftovers.push(leftover(false));
    });
    fails(
        |f| {
            f.stamp = Some(Stamp {
                cluster: "other".to_owned(),
                run: "r1".to_owned(),
                id: None,
                bundle: None,
                adopted: false,
            })
        },
        "existing",
        "\"other\"",
    );
}

#[test]
fn the_remedy_for_a_kubexm_host_is_our_reset_and_for_other_hosts_kubeadm_reset() {
    let leftover = || Leftover { what: "/etc/kubernetes/admin.conf".to_owned(), ours: false };
    let ours = after(|f| {
        f.stamp =
            Some(Stamp { cluster: "other".to_owned(), run: "r1".to_owned(), id: None, bundle: None, adopted: false });
        f.leftovers.push(leftover());
    });
    assert_eq!(ours.len(), 2, "{ours:#?}");
    for finding in ours {
        assert!(finding.fix.contains("kubexm-install reset -f <cluster.yaml of \"other\">"), "{finding}");
        assert!(!finding.fix.contains("kubeadm") && !finding.fix.contains("stamp.json"), "{finding}");
    }
    let non_members = after(|f| f.leftovers.push(leftover()));
    assert!(non_members[0].fix.contains("`kubeadm reset`"), "{non_members:#?}");
}

fn listener(protocol: &str, port: u16, process: Option<&str>, ours: bool) -> Listener {
    Listener {
        protocol: protocol.to_owned(),
        port,
        process: process.map(str::to_owned),
        pid: process.map(|_| 512),
        ours,
    }
}

#[test]
fn a_taken_port_is_refused_with_process_and_pid() {
    fails(
        |f| f.listeners.push(listener("tcp", 6443, Some("nginx"), false)),
        "ports",
        "6443/tcp in use by nginx (pid 512)",
    );
    fails(|f| f.listeners.push(listener("udp", 8472, None, false)), "ports", "8472/udp");
    fails(|f| f.listeners.push(listener("tcp", 5443, Some("java"), false)), "ports", "5443/tcp");
    passes(|f| f.listeners.push(listener("tcp", 6443, Some("kube-apiserver"), true)));
    passes(|f| f.listeners.push(listener("tcp", 80, Some("nginx"), false)));
    passes(|f| f.listeners.push(listener("udp", 6443, Some("x"), false)));
}

#[test]
fn on_a_host_of_ours_the_right_process_may_hold_its_port_and_another_may_not() {
    passes(|f| {
        stamped(f);
        f.listeners.push(listener("tcp", 10257, Some("kube-controller"), false));
        f.listeners.push(listener("udp", 8472, None, false));
    });
    fails(
        |f| {
            stamped(f);
            f.listeners.push(listener("tcp", 10257, Some("nginx"), false));
        },
        "ports",
        "nginx",
    );
}
