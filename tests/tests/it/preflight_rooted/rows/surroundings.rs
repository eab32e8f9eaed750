//! What is around the hosts: ports, resolvers, settings, networks; roles; the bundle.

use kubexm_recipes::preflight::Severity::{Fail, Warn};
use kubexm_spec::cluster::{
    ExternalKind, Firewall, InternalKind, LoadBalancerMode, NetworkPlugin, Runtime, RuntimeKind,
};
use kubexm_spec::{ArtifactKey, Program};

use super::super::edits::{configured, mounts};
use super::{ETCD1, LB1, LB2, NODE1, NODE2, Row, STORE, rows};

pub const ROWS: &[Row] = rows! {
    "ports" Fail NODE1, "the API's port taken", |s| {
            s.node1().process(4242, "haproxy", &[99]);
            s.node1().listener("tcp", 6443, 99);
        } => "6443/tcp in use by haproxy (pid 4242)", "kube-apiserver", "stop that process";
    "ports" Fail NODE2, "kubelet's port taken, over IPv6", |s| {
            s.node2().process(4242, "nginx", &[99]);
            s.node2().listener("tcp6", 10250, 99);
        } => "10250/tcp in use by nginx (pid 4242)", "kubelet", "stop that process";
    "ports" Fail NODE2, "the pod network's port taken by nobody", |s| s.node2().listener("udp", 8472, 99)
        => "8472/udp in use by a process that could not be found", "pod network", "use another host";

    "links" Fail NODE1, "an Open vSwitch of the host's own", |s| {
            s.cluster.network.plugin = NetworkPlugin::KubeOvn;
            s.node1().fake(
                "interfaces.json",
                r#"[{"name": "eth0", "addresses": ["10.77.0.11/24"], "mac": "52:54:00:00:00:0b", "mtu": 1500},
                    {"name": "ovs-system", "addresses": [], "mac": "52:54:00:00:00:99", "mtu": 1500}]"#,
            );
        } => "an Open vSwitch of the host's own (ovs-system)", "one of its own", "ovs-dpctl del-dp";
    "links" Fail NODE2, "a link whose name leaves no room for another after it", |s| {
            s.cluster.network.plugin = NetworkPlugin::Hybridnet;
            s.node2().fake(
                "interfaces.json",
                r#"[{"name": "enp129s0f0np0", "addresses": ["10.77.0.12/24"], "mac": "52:54:00:00:00:0c", "mtu": 1500}]"#,
            );
            s.node2().put("/proc/net/route", "Iface\nenp129s0f0np0\t00000000\t01004D0A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
        } => "the link enp129s0f0np0", "at most 8 characters", "a shorter name";

    "resolv.conf" Warn NODE1, "no resolv.conf", |s| s.node1().remove("/etc/resolv.conf")
        => "no /etc/resolv.conf", "a name server", "spec.extra.resolves";
    "resolv.conf" Warn NODE2, "an empty resolv.conf", |s| s.node2().put("/etc/resolv.conf", "search lan\n")
        => "no name server", "a name server", "spec.extra.resolves";
    "resolv.conf" Warn NODE1, "a resolver of the host's own", |s| s.node1().put("/etc/resolv.conf", "nameserver 127.0.0.1\n")
        => "only loopback name servers", "that pods reach", "spec.extra.resolves";
    "resolv.conf" Warn NODE1, "systemd-resolved without servers", |s| {
            s.node1().put("/etc/resolv.conf", "nameserver 127.0.0.53\n");
            s.node1().put("/run/systemd/resolve/resolv.conf", "# No DNS servers known.\nsearch .\n");
        } => "systemd-resolved", "that pods reach", "spec.extra.resolves";

    "settings" Warn NODE1, "SELinux enforcing", |s| s.node1().put("/sys/fs/selinux/enforce", "1")
        => "SELinux enforcing", "permissive", "system.selinux: confine";
    "settings" Warn NODE1, "fapolicyd, which refuses our programs", |s| s.node1().unit("fapolicyd.service", true)
        => "fapolicyd active", "rules that allow programs", "fapolicyd-cli --file add /usr/local/bin";
    "settings" Warn NODE2, "FIPS mode", |s| s.node2().put("/proc/sys/crypto/fips_enabled", "1\n")
        => "FIPS mode", "your own test", "the mode is kept";
    "settings" Warn NODE2, "firewalld, kept", |s| s.node2().unit("firewalld.service", true)
        => "firewalld.service active", "ports open", "system.firewall: off";
    "settings" Warn NODE2, "ufw, to be stopped", |s| {
            s.cluster.system.firewall = Firewall::Off;
            s.node2().put("/etc/ufw/ufw.conf", "ENABLED=yes\n");
            s.node2().unit("ufw.service", true);
        } => "ufw.service active", "ports open", "will be stopped";
    "settings" Warn NODE1, "swap on", |s| s.node1().put("/proc/swaps", "Filename Type Size Used Priority\n/dev/sda5 partition 9 0 -2\n")
        => "swap (/dev/sda5)", "none", "turned off";
    "settings" Warn NODE2, "swap at the next boot", |s| s.node2().put("/etc/fstab", "/swap.img none swap sw 0 0\n")
        => "/swap.img none swap", "none", "turned off";

    "proxies" Warn NODE1, "a proxy for everyone", |s| s.node1().put("/etc/environment", "HTTPS_PROXY=http://10.0.0.8:3128\n")
        => "HTTPS_PROXY set in /etc/environment", "no proxy", "no_proxy";
    "proxies" Warn NODE2, "a proxy for logins", |s| s.node2().put("/etc/profile.d/proxy.sh", "export http_proxy=http://10.0.0.8:3128\n")
        => "http_proxy set in /etc/profile.d/proxy.sh", "no proxy", "no_proxy";

    "existing" Fail NODE2, "a containerd without containers, whose unit ours would hide", |s| s.node2().put("/lib/systemd/system/containerd.service", "[Service]\n")
        => "containerd.service (installed)", "container runtime", "kubexm's would replace it";
    "existing" Fail NODE1, "another containerd's config", |s| s.node1().put("/etc/containerd/config.toml", "version = 2\n")
        => "/etc/containerd/config.toml (installed)", "container runtime", "kubexm's would replace it";
    "runtime-settings" Fail NODE2, "a drop-in that is read after ours, and sets what ours sets", |s| {
            s.cluster.runtime = Runtime { kind: RuntimeKind::CriO, ..Runtime::default() };
            s.node2().put("/etc/crio/crio.conf.d/99-site.conf", "[crio.runtime]\ncgroup_manager = \"cgroupfs\"\nlog_size_max = 1\n");
        } => "crio.runtime.cgroup_manager = \"cgroupfs\" in /etc/crio/crio.conf.d/99-site.conf", "the last value", "before 90-kubexm.conf";
    "runtime-settings" Fail NODE1, "a drop-in that is no TOML", |s| {
            s.cluster.runtime = Runtime { kind: RuntimeKind::CriO, ..Runtime::default() };
            s.node1().put("/etc/crio/crio.conf.d/99-site.conf", "[crio.runtime\n");
        } => "99-site.conf, which is no TOML", "it does not start", "mend it";
    "runtime-settings" Fail NODE1, "another registry for an upstream host", |s| {
            s.cluster.runtime = Runtime { kind: RuntimeKind::CriO, ..Runtime::default() };
            s.node1().put("/etc/containers/registries.conf.d/99-site.conf", "[[registry]]\nprefix = \"registry.k8s.io\"\nlocation = \"mirror.example\"\n");
        } => "registry registry.k8s.io = mirror.example in /etc/containers/registries.conf.d/99-site.conf", "the last value", "before 90-kubexm.conf";
    "existing" Fail NODE2, "another docker that runs, where nodes have docker", |s| {
            s.cluster.runtime = Runtime { kind: RuntimeKind::Docker, ..Runtime::default() };
            s.node2().process(600, "dockerd", &[]);
        } => "another docker: dockerd running (pid 600)", "kubexm-install brings its own", "remove it if nobody needs it";
    "existing" Fail NODE1, "what podman has in the folder of images", |s| {
            s.cluster.runtime = Runtime { kind: RuntimeKind::CriO, ..Runtime::default() };
            s.node1().put("/var/lib/containers/storage/libpod/x", "");
        } => "1 file in /var/lib/containers", "to be empty", "--set-aside";

    "hostname" Fail NODE1, "the hostname of the other host", |s| s.node1().put("/proc/sys/kernel/hostname", "node2\n")
        => "\"node2\", which is another host's name", "a different address", "swap the addresses";
    "address" Fail NODE2, "the address of the other host", |s| {
            s.cluster.hosts[1].internal_address = Some([10, 77, 0, 11].into());
            s.node2().interface("10.77.0.11/24", "52:54:00:00:00:0c");
        } => "10.77.0.11, which node1 also has", "an address of its own", "internalAddress";
    "timezone" Fail NODE2, "a time zone that a host does not have", |s| {
            s.cluster.system.timezone = Some("Asia/Shanghai".to_owned());
            s.node2().remove("/usr/share/zoneinfo/Asia");
        } => "no time zone \"Asia/Shanghai\"", "/usr/share/zoneinfo/Asia/Shanghai", "tzdata-legacy";
    "timezone" Fail NODE1, "a host without time zones", |s| {
            s.cluster.system.timezone = Some("Asia/Shanghai".to_owned());
            s.node1().remove("/usr/share/zoneinfo");
        } => "no time zones in /usr/share/zoneinfo", "which spec.system.timezone names", "tzdata";
    "os-settings" Fail NODE1, "a hostname that nobody will change", |s| {
            configured(s);
            s.node1().put("/proc/sys/kernel/hostname", "debian\n");
        } => "the hostname \"debian\"", "\"node1\", its name in cluster.yaml", "hostnamectl set-hostname node1";
    "os-settings" Fail NODE2, "swap that nobody will turn off", |s| {
            configured(s);
            s.node2().put("/etc/fstab", "/swap.img none swap sw 0 0\n");
        } => "/swap.img none swap", "none, now and at boot", "swapoff -a";
    "os-settings" Fail NODE1, "a module that nobody will load", |s| {
            configured(s);
            s.node1().remove("/sys/module/br_netfilter");
            s.node1().remove("/proc/sys/net/bridge");
        } => "the kernel module br_netfilter not loaded", "br_netfilter loaded now and at boot", "modprobe br_netfilter";
    "os-settings" Fail NODE2, "a module that no boot will load", |s| {
            configured(s);
            s.node2().put("/etc/modules-load.d/site.conf", "overlay\n");
        } => "no file that loads the kernel module br_netfilter at boot", "now and at boot", "/etc/modules-load.d/br_netfilter.conf";
    "os-settings" Fail NODE1, "a kernel parameter that nobody will set", |s| {
            configured(s);
            s.node1().put("/proc/sys/net/ipv4/ip_forward", "0\n");
        } => "net.ipv4.ip_forward = 0", "net.ipv4.ip_forward = 1 now and at boot", "sysctl --system";
    "os-settings" Fail NODE2, "a kernel parameter that a boot will set back", |s| {
            configured(s);
            s.node2().put("/etc/sysctl.d/99-sysctl.conf", "net.ipv4.ip_forward=0\n");
        } => "/etc/sysctl.d/99-sysctl.conf:1 sets net.ipv4.ip_forward = 0 at boot", "now and at boot", "set it to 1 there";
    "os-settings" Fail NODE1, "a kernel parameter that no boot will set", |s| {
            configured(s);
            s.node1().put("/etc/sysctl.d/50-site.conf", "net.bridge.bridge-nf-call-iptables=1\nnet.bridge.bridge-nf-call-ip6tables=1\n");
        } => "no file that sets net.ipv4.ip_forward at boot", "now and at boot", "/etc/sysctl.d/99-net-ipv4-ip_forward.conf";
    "sysctls" Fail LB2, "a hardened host of the load balancer", |s| {
            s.with_roles();
            s.host("lb2").put("/etc/sysctl.d/99-sysctl.conf", "net.ipv4.ip_nonlocal_bind = 0\n");
        } => "/etc/sysctl.d/99-sysctl.conf:1 sets net.ipv4.ip_nonlocal_bind = 0", "after a reboot", "remove that line";
    "sysctls" Fail NODE1, "a hardened host", |s| s.node1().put("/etc/sysctl.d/99-sysctl.conf", "# CIS\nnet.ipv4.ip_forward=0\n")
        => "/etc/sysctl.d/99-sysctl.conf:2 sets net.ipv4.ip_forward = 0", "after a reboot", "remove that line";
    "mtu" Warn NODE2, "jumbo frames on one of two", |s| s.node2().fake(
            "interfaces.json",
            r#"[{"name": "eth0", "addresses": ["10.77.0.12/24"], "mac": "52:54:00:00:00:0c", "mtu": 9000}]"#,
        ) => "9000 on eth0, and 1500 on eth0 of node1", "the same MTU", "same MTU";
    "one-link" Fail None, "a node alone in its network, where nodes are gateways to their pods", |s| {
            s.cluster.network.options.insert("backend".to_owned(), "host-gw".into());
            s.node2().interface("10.77.0.12/32", "52:54:00:00:00:0c");
        } => "node2 with 10.77.0.12/32, and node1 with 10.77.0.11", "without a router", "`spec.network.options.backend: vxlan`";
    "dns" Fail NODE2, "a search domain in which every name exists", |s| {
            s.node2().put("/etc/resolv.conf", "nameserver 10.77.0.1\nsearch lan.example site.example\n");
            s.node2().fake("dns.json", "{\".site.example\": \"203.0.113.7\"}");
        } => "10.77.0.1 answers any name below the search domain site.example, with 203.0.113.7", "without a wildcard record",
        "kubernetes.default.svc.cluster.local.site.example";
    "dns" Warn NODE1, "a name server that answers every name", |s| s.node1().fake("dns.json", "{\"\": \"203.0.113.7\"}")
        => "10.77.0.1 answers any name, with 203.0.113.7", "NXDOMAIN", "spec.extra.resolves";
    "control-planes" Warn None, "three control planes and nothing before them", |s| s.cluster.role_groups.control_plane.extend(["a".to_owned(), "b".to_owned()])
        => "3 control planes and no load balancer", "one address that forwards to the healthy ones", "loadBalancer.mode: external";
    "control-planes" Warn None, "two members of etcd", |s| {
            s.cluster.role_groups.control_plane.push("a".to_owned());
            s.cluster.load_balancer.mode = LoadBalancerMode::at([10, 77, 0, 100].into(), 6443);
        } => "2 control planes", "odd number", "tolerate";

    "control-planes" Fail None, "two members of etcd on hosts of their own", |s| {
            s.with_roles();
            s.cluster.role_groups.etcd.push("lb2".to_owned());
        } => "two members of etcd (etcd1, lb2)", "one, three or five", "add a host";
    "control-planes" Warn None, "four members of etcd", |s| {
            s.with_roles();
            s.cluster.role_groups.etcd.extend(["lb1", "lb2", "node1"].map(str::to_owned));
        } => "4 members of etcd", "odd number", "tolerate";

    "hardware" Fail ETCD1, "a 1 GB member of etcd", |s| {
            s.with_roles();
            s.host("etcd1").put("/proc/meminfo", "MemTotal:  1048576 kB\n");
        } => "1.0 GiB of memory", "1.7 GiB or more on a member of etcd", "more memory";
    "systemd" Fail LB1, "a load balancer with a systemd that starts no unit of ours", |s| {
            s.with_roles();
            s.host("lb1").fake("systemd-version", "219");
        } => "systemd 219", "239 or newer", "a newer release of its system";
    "space" Fail ETCD1, "a small disk of a member of etcd", |s| {
            s.with_roles();
            mounts(s.host("etcd1"), "26 25 8:2 / /var/lib/etcd rw,noatime - ext4 /dev/sdb1 rw\n");
            s.host("etcd1").fake("space.json", "{\"/var/lib/etcd\": [1073741824, 1073741824]}");
        } => "1.0 GiB free on /var/lib/etcd", "2.0 GiB for /var/lib/etcd", "larger disk";
    "space" Fail ETCD1, "a disk too small for the quota that is asked for", |s| {
            s.with_roles();
            s.cluster.etcd.quota = Some(8 << 30);
            mounts(s.host("etcd1"), "26 25 8:2 / /var/lib/etcd rw,noatime - ext4 /dev/sdb1 rw\n");
            s.host("etcd1").fake("space.json", "{\"/var/lib/etcd\": [4294967296, 4294967296]}");
        } => "4.0 GiB free on /var/lib/etcd", "8.0 GiB for /var/lib/etcd", "larger disk";
    "time" Fail ETCD1, "a member of etcd whose clock is off", |s| {
            s.with_roles();
            s.clocks.extend([("etcd1", (2_600, 100)), ("node1", (1_300, 0)), ("node2", (1_300, 0)), ("lb1", (1_300, 0)), ("lb2", (1_300, 0))]);
        } => "that of the controller by 2.6 s", "2 s", "set the clock";
    "existing" Fail ETCD1, "an etcd of somebody's on a host of the role", |s| {
            s.with_roles();
            s.host("etcd1").process(512, "etcd", &[]);
        } => "etcd running (pid 512)", "etcd of its own", "remove it";
    "existing" Fail ETCD1, "a snapshot of somebody's in the folder of a member", |s| {
            s.with_roles();
            s.host("etcd1").put("/var/lib/etcd/snapshot-2025.db", "x");
        } => "1 file in /var/lib/etcd (snapshot-2025.db)", "/var/lib/etcd to be empty", "--set-aside";
    "existing" Fail NODE1, "something of somebody's in the folder that cluster.yaml names for etcd", |s| {
            s.cluster.etcd.data_dir = "/data/etcd".to_owned();
            s.node1().put("/data/etcd/member/snap/db", "x");
            s.node2().put("/data/etcd/member/snap/db", "x");
        } => "1 file in /data/etcd (member/snap/db)", "/data/etcd to be empty", "--set-aside";
    "existing" Fail NODE1, "a mount below it", |s| {
            s.cluster.etcd.data_dir = "/data/etcd".to_owned();
            mounts(s.node1(), "26 25 8:2 / /data/etcd/wal rw,noatime - ext4 /dev/sdb1 rw\n");
        } => "/data/etcd/wal (ext4 of /dev/sdb1) mounted below /data/etcd", "to be empty", "is mounted at /data/etcd itself";
    "space" Fail NODE1, "the folder that cluster.yaml names for etcd on a disk that cannot be written", |s| {
            s.cluster.etcd.data_dir = "/data/etcd".to_owned();
            s.node1().put("/data/lost+found/.keep", "");
            mounts(s.node1(), "26 25 8:2 / /data ro,relatime - ext4 /dev/sdb1 ro\n");
        } => "/data mounted read-only", "can be written for /data/etcd", "mount -o remount,rw /data";
    "open-folders" Fail NODE2, "a folder of images in one that everybody may write to", |s| {
            s.cluster.runtime.data_dir = Some("/data/containerd".to_owned());
            s.node2().folder("/data", 0o777);
        } => "/data/containerd: others than root may write to /data (mode 0777)", "root's alone", "chmod go-w /data";
    "open-folders" Fail LB1, "programs in a folder that a group may write to, as on an older Debian", |s| {
            s.with_roles();
            s.host("lb1").folder("/usr/local/bin", 0o777);
        } => "/usr/local/bin: others than root may write to /usr/local/bin (mode 0777)", "keepalived runs no check", "chmod go-w /usr/local/bin";
    "open-folders" Fail NODE1, "one that anybody can make before us", |s| {
            s.cluster.etcd.data_dir = "/data/etcd".to_owned();
            s.node1().folder("/data", 0o1777);
        } => "/data/etcd: others than root may write to /data (mode 1777)", "root's alone", "name another folder";
    "noexec" Fail NODE2, "no programs from the folder that cluster.yaml names for images", |s| {
            s.cluster.runtime.data_dir = Some("/data/containerd".to_owned());
            s.node2().put("/data/lost+found/.keep", "");
            mounts(s.node2(), "26 25 8:2 / /data rw,noexec - ext4 /dev/sdb1 rw\n");
        } => "/data mounted noexec", "programs may run from", "mount -o remount,exec /data";
    "existing" Fail NODE2, "something of somebody's in the folder that cluster.yaml names for images", |s| {
            s.cluster.runtime.data_dir = Some("/data/containerd".to_owned());
            s.node2().put("/data/containerd/theirs", "x");
        } => "1 file in /data/containerd (theirs)", "/data/containerd to be empty", "--set-aside";
    "ports" Fail ETCD1, "the port of etcd's clients taken", |s| {
            s.with_roles();
            s.host("etcd1").process(4242, "other", &[99]);
            s.host("etcd1").listener("tcp", 2379, 99);
        } => "2379/tcp in use by other (pid 4242)", "a free port for etcd", "stop that process";
    "ports" Fail ETCD1, "the port of etcd's peers taken", |s| {
            s.with_roles();
            s.host("etcd1").process(4242, "other", &[99]);
            s.host("etcd1").listener("tcp6", 2380, 99);
        } => "2380/tcp in use by other (pid 4242)", "a free port for etcd", "stop that process";
    "ports" Fail LB1, "the load balancer's port taken", |s| {
            s.with_roles();
            s.host("lb1").process(4242, "other", &[99]);
            s.host("lb1").listener("tcp", 6443, 99);
        } => "6443/tcp in use by other (pid 4242)", "a free port for haproxy", "stop that process";
    "ports" Fail LB2, "a load balancer's port that cluster.yaml names, taken", |s| {
            s.with_roles();
            if let LoadBalancerMode::External { port, .. } = &mut s.cluster.load_balancer.mode {
                *port = 8443;
            }
            s.host("lb2").process(4242, "other", &[99]);
            s.host("lb2").listener("tcp", 8443, 99);
        } => "8443/tcp in use by other (pid 4242)", "a free port for haproxy", "stop that process";
    "ports" Fail STORE, "a web server on Harbor's host", |s| {
            s.with_harbor();
            s.host("store").process(4242, "nginx", &[99]);
            s.host("store").listener("tcp", 443, 99);
        } => "443/tcp in use by nginx (pid 4242)", "a free port for docker-proxy", "stop that process";
    "programs" Fail STORE, "no iptables on Harbor's host", |s| {
            s.with_harbor();
            s.host("store").remove("/usr/sbin/iptables");
        } => "no iptables", "find each other's names", "install the package iptables";
    "space" Fail STORE, "a small disk for the data of Harbor", |s| {
            s.with_harbor();
            mounts(s.host("store"), "26 25 8:2 / /mnt/registry rw,noatime - ext4 /dev/sdb1 rw\n");
            s.host("store").fake("space.json", "{\"/mnt/registry\": [1048576, 1048576]}");
        } => "free on /mnt/registry", "for /mnt/registry", "larger disk";
    "space" Fail STORE, "a disk for the data of Harbor that cannot be written", |s| {
            s.with_harbor();
            mounts(s.host("store"), "26 25 8:2 / /mnt/registry ro,noatime - ext4 /dev/sdb1 ro\n");
        } => "/mnt/registry mounted read-only", "can be written", "remount,rw";
    "control-planes" Warn None, "a proxy on the workers, where there are none", |s| {
            s.with_proxy(InternalKind::Nginx);
            s.cluster.role_groups.control_plane = vec!["node1".to_owned(), "node2".to_owned(), "c".to_owned()];
        } => "no host is only a worker", "a worker that is no control plane", "add workers";
    "ports" Fail NODE2, "the port of a worker's proxy taken", |s| {
            s.with_proxy(InternalKind::Haproxy);
            s.node2().process(4242, "other", &[99]);
            s.node2().listener("tcp", 6444, 99);
        } => "6444/tcp in use by other (pid 4242)", "a free port for haproxy", "stop that process";
    "ports" Fail NODE2, "another API server's port on a worker with a proxy", |s| {
            s.with_proxy(InternalKind::Nginx);
            s.node2().process(4242, "k3s-server", &[99]);
            s.node2().listener("tcp6", 6443, 99);
        } => "6443/tcp in use by k3s-server (pid 4242)", "a free port for nginx", "stop that process";
    "load-balancers" Warn NODE2, "a haproxy of somebody's on a worker with one of ours", |s| {
            s.with_proxy(InternalKind::Haproxy);
            s.node2().process(4242, "haproxy", &[]);
        } => "haproxy running (pid 4242), which is not kubexm's", "without a haproxy of its own", "otherwise stop it";
    "load-balancers" Fail LB1, "a haproxy of somebody's", |s| {
            s.with_roles();
            s.host("lb1").process(4242, "haproxy", &[]);
            s.host("lb1").put("/etc/haproxy/haproxy.cfg", "global\n");
        } => "haproxy running (pid 4242)", "without a haproxy", "a configuration of its own";
    "load-balancers" Fail LB2, "a keepalived of somebody's", |s| {
            s.with_roles();
            s.host("lb2").process(4242, "keepalived", &[]);
        } => "keepalived running (pid 4242)", "without a keepalived", "a configuration of its own";
    "load-balancers" Fail LB1, "an nginx where ours comes", |s| {
            s.with_roles();
            if let LoadBalancerMode::External { kind, .. } = &mut s.cluster.load_balancer.mode {
                *kind = ExternalKind::KubexmKn;
            }
            s.host("lb1").process(4242, "nginx", &[]);
        } => "nginx running (pid 4242)", "without a nginx", "a configuration of its own";
    "load-balancers" Warn LB1, "the configuration of a haproxy that does not run", |s| {
            s.with_roles();
            s.host("lb1").put("/etc/haproxy/haproxy.cfg", "global\n");
        } => "/etc/haproxy/haproxy.cfg, of a haproxy that does not run", "without a haproxy", "haproxy.service is disabled";
    "ports" Fail LB2, "the port on which the proxy answers its own host, taken", |s| {
            s.with_roles();
            s.host("lb2").process(4242, "other", &[99]);
            s.host("lb2").listener("tcp", 326, 99);
        } => "326/tcp in use by other (pid 4242)", "a free port for haproxy", "stop that process";
    "load-balancers" Fail LB2, "no keepalived, and none in the bundle", |s| {
            s.with_roles();
            s.host("lb2").remove("/usr/sbin/keepalived");
        } => "no keepalived", "as a package of the host's distribution", "spec.bundle.os";
    "load-balancers" Fail LB1, "a host that has the address already", |s| {
            s.with_roles();
            s.host("lb1").fake(
                "interfaces.json",
                r#"[{"name": "ens3", "addresses": ["10.77.0.14/24", "10.77.0.100/24"], "mac": "52:54:00:00:00:0e", "mtu": 1500}]"#,
            );
        } => "10.77.0.100 on ens3", "an address that no machine has", "remove the address there";
    "load-balancers" Fail LB1, "an address of another network", |s| {
            s.with_roles();
            if let LoadBalancerMode::External { vip, .. } = &mut s.cluster.load_balancer.mode {
                *vip = [10, 78, 0, 100].into();
            }
            s.host("lb2").fake(
                "interfaces.json",
                r#"[{"name": "ens3", "addresses": ["10.77.0.15/24", "10.78.0.15/24"], "mac": "52:54:00:00:00:0f", "mtu": 1500}]"#,
            );
        } => "its address is in no network with 10.78.0.100", "in a network of its hosts", "an address of that network";
    "load-balancers" Warn None, "one host alone", |s| {
            s.with_roles();
            s.cluster.role_groups.load_balancer.pop();
        } => "lb1 as the only host", "two or more", "roleGroups.loadbalancer";
    "load-balancers" Fail LB1, "another interface", |s| {
            s.with_roles();
            if let LoadBalancerMode::External { interface, .. } = &mut s.cluster.load_balancer.mode {
                *interface = Some("eth0".to_owned());
            }
            s.host("lb1").fake(
                "interfaces.json",
                r#"[{"name": "ens3", "addresses": ["10.77.0.14/24"], "mac": "52:54:00:00:00:0e", "mtu": 1500}]"#,
            );
        } => "eth0 is not the interface with the host's address (ens3 10.77.0.14/24)", "spec.loadBalancer.interface", "correct it";

    "storage" Fail NODE2, "a host that mounts no NFS", |s| {
            s.with_nfs();
            s.node2().remove("/usr/sbin/mount.nfs");
        } => "no mount.nfs", "volumes of `spec.storage.nfs`", "nfs-common";
    "space" Fail NODE2, "a folder of volumes on a disk that cannot be written", |s| {
            s.with_volumes("/data/volumes");
            s.node2().put("/data/lost+found/.keep", "");
            mounts(s.node2(), "26 25 8:2 / /data ro,relatime - ext4 /dev/sdb1 ro\n");
        } => "/data mounted read-only", "can be written for /data/volumes", "mount -o remount,rw /data";
    "open-folders" Fail NODE2, "a folder of volumes in one that everybody may write to", |s| {
            s.with_volumes("/data/volumes");
            s.node2().folder("/data", 0o777);
        } => "/data/volumes: others than root may write to /data (mode 0777)", "root's alone", "chmod go-w /data";

    "noexec" Fail NODE1, "programs that cannot be run", |s| mounts(s.node1(), "26 25 8:2 / /usr/local rw,noexec - ext4 /dev/sdb1 rw\n")
        => "/usr/local mounted noexec", "run from", "mount -o remount,exec /usr/local";

    "clones" Fail NODE2, "one machine id for two", |s| s.node2().put("/etc/machine-id", &s.node1().read("/etc/machine-id"))
        => "machine id 0123456789abcdef0123456789abcd0b, the same as on node1", "of its own", "systemd-machine-id-setup";
    "clones" Fail NODE2, "one product uuid for two", |s| {
            let path = "/sys/class/dmi/id/product_uuid";
            s.node2().put(path, &s.node1().read(path));
        } => "the same as on node1", "product uuid of its own", "hypervisor";
    "clones" Fail NODE2, "one hardware address for two", |s| s.node2().interface("10.77.0.12/24", "52:54:00:00:00:0b")
        => "52:54:00:00:00:0b, the same as on node1", "hardware address of its own", "hypervisor";

    "networks" Fail NODE2, "a route into the pod network", |s| s.node2().route("10.233.64.0", "255.255.240.0")
        => "a route to 10.233.64.0/20", "spec.network.podCidr", "another podCidr";
    "networks" Fail NODE1, "a route over the service network", |s| s.node1().route("10.233.0.0", "255.255.240.0")
        => "a route to 10.233.0.0/20", "spec.network.serviceCidr", "another serviceCidr";
    "networks" Fail None, "pods and services in one network", |s| s.cluster.network.service_cidr = "10.233.64.0/20".parse().unwrap()
        => "podCidr 10.233.64.0/18 and serviceCidr 10.233.64.0/20", "share no address", "choose another";

    "bundle" Fail NODE2, "a platform that is not in the bundle", |s| s.node2().fake("arch", "aarch64\n")
        => "linux/arm64", "linux/amd64", "spec.bundle.platforms";
    "bundle" Fail None, "a bundle without kubectl", |s| s.lost.push(ArtifactKey::Binary(Program::Kubectl))
        => "binary/kubectl", "all of them", "kubexm-bundle build";
};
