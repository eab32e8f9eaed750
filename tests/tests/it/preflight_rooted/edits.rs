//! Edits of hosts that several rows make.

use kubexm_spec::cluster::ProxyMode;

use super::scene::{Host, Scene};

/// The root's mount and these.
pub fn mounts(host: &Host, more: &str) {
    let path = "/proc/self/mountinfo";
    host.put(path, &(host.read(path) + more));
}

/// Packages of Debian 12 are in the bundle, and both hosts have what no program tells of.
pub fn packaged(scene: &mut Scene) {
    scene.cluster.bundle.os = vec!["debian-12".to_owned()];
    for host in [scene.node1(), scene.node2()] {
        host.put("/usr/bin/apt-get", "");
        host.put("/var/lib/dpkg/status", &installed("bash-completion", "installed"));
    }
}

pub fn installed(name: &str, state: &str) -> String {
    format!("Package: {name}\nStatus: install ok {state}\nVersion: 1.0-1\nArchitecture: amd64\n\n")
}

/// The mark of a `kubeadm init` that has ended well.
pub fn initialised(host: &Host, config: &str) {
    let mark = format!("{{\"endedWell\":true,\"config\":\"{config}\"}}");
    host.put("/var/lib/kubexm/acts/kubeadm-init.json", &mark);
}

/// A node that is joined to the cluster `demo` of this id and CA.
pub fn member(host: &Host, id: &str, ca: &str) {
    host.put("/var/lib/kubexm/stamp.json", &format!("{{\"cluster\":\"demo\",\"id\":\"{id}\",\"run\":\"r1\"}}"));
    host.put("/etc/kubernetes/kubelet.conf", "x");
    host.put("/etc/kubernetes/pki/ca.crt", ca);
}

/// A file that kubeadm wrote in its join, and its content now.
pub fn written_by_kubeadm(host: &Host, path: &str, then: &str, now: &str) {
    host.put("/var/lib/kubexm/acts/kubeadm-join.json", "{\"endedWell\":true,\"config\":null}");
    host.put(&format!("/var/lib/kubexm/kubeadm{path}"), then);
    host.put(path, now);
}

pub fn stamp(host: &Host, cluster: &str) {
    host.put("/var/lib/kubexm/stamp.json", &format!("{{\"cluster\":\"{cluster}\",\"run\":\"r1\"}}"));
}

/// Nodes with everything that `create` would set, by somebody who says that it must not.
pub fn configured(scene: &mut Scene) {
    scene.cluster.system.skip_configure_os = true;
    for host in [scene.node1(), scene.node2()] {
        let mut lines = String::new();
        for key in ["net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"]
        {
            host.put(&format!("/proc/sys/{}", key.replace('.', "/")), "1\n");
            lines.push_str(&format!("{key} = 1\n"));
        }
        host.put("/etc/sysctl.d/50-site.conf", &lines);
        host.put("/proc/modules", "br_netfilter 32768 0 - Live 0x0\noverlay 163840 0 - Live 0x0\n");
        host.put("/sys/module/br_netfilter/refcnt", "0\n");
        host.put("/etc/modules-load.d/site.conf", "# of the site\noverlay\nbr_netfilter\n");
    }
}

/// kube-proxy's mode ipvs, on hosts that have its tool.
pub fn ipvs(scene: &mut Scene) {
    scene.kubernetes().proxy_mode = ProxyMode::Ipvs;
    for host in [scene.node1(), scene.node2()] {
        host.put("/usr/sbin/ipvsadm", "#!/bin/true\n");
    }
}
