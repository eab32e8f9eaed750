//! What looks like trouble and is none.

use kubexm_spec::cluster::{Audit, ExternalKind, LoadBalancerMode};

use super::edits::{configured, ipvs, member, mounts, packaged, stamp, written_by_kubeadm};
use super::scene::Scene;

/// An edit of a good scene.
type Edit = fn(&mut Scene);

/// What an anxious check would stop at, and must not.
pub const FINE: &[(&str, Edit)] = &[
    ("hosts of etcd and of the load balancer", Scene::with_roles),
    ("what only nodes need, lacking on hosts of etcd and of the load balancer", |s| {
        s.with_roles();
        for name in ["etcd1", "lb1"] {
            let host = s.host(name);
            host.remove("/usr/sbin/conntrack");
            host.remove("/etc/resolv.conf");
            host.put("/etc/fstab", "/swap.img none swap sw 0 0\n");
            host.put("/etc/sysctl.d/99-sysctl.conf", "net.ipv4.ip_forward=0\n");
            host.put("/var/lib/kubelet/mine", "x");
            host.fake("missing-modules.json", "[\"br_netfilter\"]");
            host.listener("tcp", 10250, 99);
        }
    }),
    ("hosts that somebody else configures, one with swap beside which kubelet is to run", |s| {
        configured(s);
        s.kubernetes().kubelet.insert("failSwapOn".to_owned(), false.into());
        s.node2().put("/etc/fstab", "/swap.img none swap sw 0 0\n");
    }),
    ("a module that is built in, where somebody else configures the hosts", |s| {
        configured(s);
        s.node1().put("/proc/modules", "");
        s.node1().remove("/etc/modules-load.d/site.conf");
    }),
    ("kube-proxy's mode ipvs where the modules can be loaded", ipvs),
    ("a small load balancer", |s| {
        s.with_roles();
        s.host("lb1").fake("cpus", "1");
        s.host("lb1").put("/proc/meminfo", "MemTotal:  500000 kB\n");
    }),
    ("an nginx beside our haproxy, and a haproxy on a worker", |s| {
        s.with_roles();
        s.host("lb1").process(4242, "nginx", &[]);
        s.node2().process(4242, "haproxy", &[]);
        s.node2().put("/etc/haproxy/haproxy.cfg", "global\n");
    }),
    ("an nginx in a container beside ours", |s| {
        s.with_roles();
        if let LoadBalancerMode::External { kind, .. } = &mut s.cluster.load_balancer.mode {
            *kind = ExternalKind::KubexmKn;
        }
        for (pid, group) in [(4242, "/system.slice/docker-1.scope"), (4243, "/kubexm-harbor/2")] {
            s.host("lb1").process(pid, "nginx", &[]);
            s.host("lb1").put(&format!("/proc/{pid}/cgroup"), &format!("0::{group}\n"));
        }
    }),
    ("etcd's ports on the control plane, whose members are elsewhere", |s| {
        s.with_roles();
        s.node1().listener("tcp", 2379, 99);
    }),
    ("a disk of etcd's own with nothing but what its file system has", |s| {
        mounts(s.node1(), "26 25 8:2 / /var/lib/etcd rw,noatime - ext4 /dev/sdb1 rw\n");
        s.node1().put("/var/lib/etcd/lost+found/x", "of the file system");
    }),
    ("folders of the cluster that are there and empty", |s| {
        for folder in ["/opt/cni/bin", "/var/lib/kubelet", "/etc/kubernetes/manifests"] {
            s.node2().put(&format!("{folder}/x"), "");
            s.node2().remove(&format!("{folder}/x"));
        }
    }),
    ("files that are moved aside, with what an older cluster left among them", |s| {
        s.set_aside = true;
        s.node1().put("/var/lib/etcd/snapshot-2025.db", "x");
        s.node1().put("/etc/kubernetes/admin.conf", "x");
    }),
    ("Debian's own line for its name", |s| s.node1().put("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 node1\n")),
    ("a minor release of Debian", |s| s.node1().put("/etc/os-release", "ID=debian\nVERSION_ID=\"13\"\n")),
    ("what a 4 GB machine reports", |s| s.node1().put("/proc/meminfo", "MemTotal:  3880000 kB\n")),
    ("what a 2 GB worker reports", |s| s.node2().put("/proc/meminfo", "MemTotal:  1900000 kB\n")),
    ("an audit log that just fits, and a worker without room for one", |s| {
        s.kubernetes().audit = Some(Audit { max_size: 512, max_backups: 1, ..Audit::default() });
        for host in [s.node1(), s.node2()] {
            mounts(host, "26 25 8:2 / /var/log rw,noatime - ext4 /dev/sdb1 rw\n");
        }
        s.node1().fake("space.json", "{\"/var/log\": [1073741824, 4294967296]}");
        s.node2().fake("space.json", "{\"/var/log\": [1024, 4294967296]}");
    }),
    ("an xfs of today", |s| mounts(s.node1(), "26 25 8:2 / /var rw - xfs /dev/sdb1 rw\n")),
    ("overlay and br_netfilter built in", |s| {
        s.node1().fake("missing-modules.json", "[\"overlay\", \"br_netfilter\"]");
        s.node1().put("/proc/sys/net/bridge/bridge-nf-call-iptables", "1\n");
    }),
    ("nft in the place of iptables", |s| {
        s.node1().remove("/usr/sbin/iptables");
        s.node1().put("/usr/sbin/nft", "");
    }),
    ("a slow line", |s| s.clocks.extend([("node1", (2_600, 1_300))])),
    ("a systemd of 239 and one that does not tell", |s| {
        s.node1().fake("systemd-version", "239 (239-82.el8)");
        s.node2().fake("systemd-version", "unknown");
    }),
    ("chrony in the place of timesyncd", |s| {
        s.node1().unit("systemd-timesyncd.service", false);
        s.node1().unit("chrony.service", true);
    }),
    ("the port of another role", |s| s.node2().listener("tcp", 2379, 99)),
    ("the same number over another protocol", |s| s.node1().listener("udp", 6443, 99)),
    ("docker without containers", |s| s.node1().process(600, "dockerd", &[])),
    ("Harbor on a host of its own, with an empty folder of docker's", |s| {
        s.with_harbor();
        s.host("store").put("/etc/docker/.keep", "");
    }),
    ("a second look at the host of a Harbor that runs", |s| {
        s.with_harbor();
        stamp(s.host("store"), "demo");
        s.host("store").process(600, "dockerd", &[]);
        s.host("store").put("/etc/docker/key.json", "{}");
    }),
    ("folders that a package left empty", |s| {
        s.node1().put("/etc/kubernetes/manifests/.keep", "");
        s.node1().put("/etc/cni/net.d/.kubernetes-cni-keep", "");
    }),
    ("members of one cluster, one of them from before there were ids", |s| {
        member(s.node1(), "00000000-0000-4000-8000-00000000000a", "ca");
        member(s.node2(), "00000000-0000-4000-8000-00000000000a", "ca");
        stamp(s.node2(), "demo");
    }),
    ("files as kubeadm wrote them", |s| {
        member(s.node1(), "00000000-0000-4000-8000-00000000000a", "ca");
        written_by_kubeadm(s.node1(), "/etc/kubernetes/manifests/kube-scheduler.yaml", "spec:\n", "spec:\n");
    }),
    ("files of which no copy was made, since an older version installed the node", |s| {
        member(s.node1(), "00000000-0000-4000-8000-00000000000a", "ca");
        s.node1().put("/var/lib/kubexm/acts/kubeadm-join.json", "{\"endedWell\":true,\"config\":null}");
        s.node1().put("/etc/kubernetes/manifests/kube-scheduler.yaml", "spec:\n");
    }),
    ("leftovers of this very cluster", |s| {
        stamp(s.node1(), "demo");
        s.node1().put("/etc/kubernetes/admin.conf", "x");
    }),
    ("a search domain with names of its own", |s| {
        s.node1().put("/etc/resolv.conf", "nameserver 10.77.0.1\nsearch site.example\n");
        s.node1().fake("dns.json", "{\"www.site.example\": \"203.0.113.7\"}");
    }),
    ("systemd-resolved with servers", |s| {
        s.node1().put("/etc/resolv.conf", "nameserver 127.0.0.53\noptions edns0 trust-ad\n");
        s.node1().put("/run/systemd/resolve/resolv.conf", "nameserver 10.77.0.1\n");
    }),
    ("a hardened file that is read before ours", |s| {
        s.node1().put("/etc/sysctl.d/10-hard.conf", "net.ipv4.ip_forward=0\n")
    }),
    ("no resolver, and one in cluster.yaml", |s| {
        s.cluster.extra.resolves = vec![[10, 77, 0, 1].into()];
        s.node1().remove("/etc/resolv.conf");
    }),
    ("a program that the bundle brings", |s| {
        packaged(s);
        s.node2().remove("/usr/sbin/socat");
    }),
    ("a bundle with packages for hosts that have them", packaged),
    ("ufw as every Ubuntu has it", |s| {
        s.node1().put("/etc/ufw/ufw.conf", "ENABLED=no\n");
        s.node1().unit("ufw.service", true);
    }),
    ("SELinux permissive", |s| s.node1().put("/sys/fs/selinux/enforce", "0")),
    ("a proxy in a comment", |s| s.node1().put("/etc/environment", "# HTTPS_PROXY=http://10.0.0.8:3128\n")),
    ("a folder of root's in one where everybody may have some", |s| {
        s.cluster.runtime.data_dir = Some("/data/containerd".to_owned());
        s.node2().folder("/data/containerd", 0o755);
        s.node2().folder("/data", 0o1777);
    }),
    ("noexec where no program is put", |s| mounts(s.node1(), "26 25 8:2 / /tmp rw,noexec - ext4 /dev/sdb1 rw\n")),
    ("volumes of nodes and of a server, with data of an earlier cluster", |s| {
        s.with_nfs();
        s.with_volumes("/data/volumes");
        s.node2().put("/data/volumes/pvc-1/data", "a user's");
    }),
    ("mount.nfs, which the bundle brings", |s| {
        s.with_nfs();
        packaged(s);
        s.node2().remove("/usr/sbin/mount.nfs");
    }),
    ("machines without a product uuid", |s| {
        s.node1().remove("/sys/class/dmi/id/product_uuid");
        s.node2().remove("/sys/class/dmi/id/product_uuid");
    }),
];
