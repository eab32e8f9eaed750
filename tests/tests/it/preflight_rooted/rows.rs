//! The rows: one edit of a good scene each, and what preflight must say of it.

use kubexm_recipes::preflight::Severity::{self, Fail, Warn};
use kubexm_spec::cluster::{ExternalKind, Firewall, LoadBalancerMode, ProxyMode};
use kubexm_spec::{ArtifactKey, Digest, Program};

use super::scene::{Host, Scene};

/// An edit and the one finding that comes of it.
pub struct Row {
    /// For messages.
    pub what: &'static str,
    pub check: &'static str,
    pub severity: Severity,
    /// None: it is about the whole cluster.
    pub host: Option<&'static str>,
    pub edit: fn(&mut Scene),
    /// Parts of the finding's words.
    pub found: &'static str,
    pub needed: &'static str,
    pub fix: &'static str,
}

type Edit = fn(&mut Scene);

/// `check severity host "what" edit => found, needed, fix`, one a line.
macro_rules! rows {
    ($($check:literal $severity:ident $host:expr, $what:literal, $edit:expr => $found:literal, $needed:literal, $fix:literal;)*) => {
        &[$(Row {
            what: $what, check: $check, severity: $severity, host: $host, edit: $edit,
            found: $found, needed: $needed, fix: $fix,
        }),*]
    };
}

const NODE1: Option<&str> = Some("node1");
const NODE2: Option<&str> = Some("node2");
// Of `Scene::with_roles`.
const ETCD1: Option<&str> = Some("etcd1");
const LB1: Option<&str> = Some("lb1");
const LB2: Option<&str> = Some("lb2");

/// Everything that stops an installation or is said before one.
pub const ROWS: &[Row] = rows! {
    "os" Fail NODE1, "a system that nobody supports", |s| s.node1().put("/etc/os-release", "ID=arch\nVERSION_ID=1\n")
        => "arch 1", "debian-12", "use a host";
    "os" Fail NODE2, "a system too old", |s| s.node2().put("/etc/os-release", "ID=debian\nVERSION_ID=\"9\"\n")
        => "debian 9", "debian-12", "use a host";
    "os" Fail NODE2, "no os-release", |s| s.node2().remove("/etc/os-release")
        => "no ID in /etc/os-release", "debian-12", "use a host";
    "os" Warn NODE1, "a system nobody tried", |s| s.node1().put("/etc/os-release", "ID='ubuntu'\nVERSION_ID=\"22.04\"\n")
        => "ubuntu-22.04", "tested", "test it";

    "hardware" Fail NODE1, "one CPU", |s| s.node1().fake("cpus", "1")
        => "1 CPU", "2 CPUs", "more CPUs";
    "hardware" Fail NODE1, "a 3 GB control plane", |s| s.node1().put("/proc/meminfo", "MemTotal:  3145728 kB\n")
        => "3.0 GiB of memory", "3.5 GiB or more on a control plane", "more memory";
    "hardware" Fail NODE2, "a 1 GB worker", |s| s.node2().put("/proc/meminfo", "MemTotal:  1048576 kB\n")
        => "1.0 GiB of memory", "1.7 GiB or more on a worker", "more memory";

    "space" Fail NODE1, "a disk too small", |s| s.node1().fake("space.json", "{\"/\": [1073741824, 10737418240]}")
        => "1.0 GiB free on /", "/var/lib/etcd", "free some space";
    "space" Fail NODE1, "a small disk of etcd's own", |s| {
            mounts(s.node1(), "26 25 8:2 / /var/lib/etcd rw,noatime - ext4 /dev/sdb1 rw\n");
            s.node1().fake("space.json", "{\"/var/lib/etcd\": [1073741824, 1073741824]}");
        } => "1.0 GiB free on /var/lib/etcd", "2.0 GiB for /var/lib/etcd", "larger disk";
    "space" Fail NODE1, "a disk without inodes", |s| s.node1().fake("inodes.json", "[30000, 1000000]")
        => "30000 of 1000000 inodes free on /", "70000 for the files of images", "mkfs.ext4 -N";
    "space" Fail NODE2, "a folder that cannot be written", |s| mounts(s.node2(), "26 25 8:2 / /etc ro,relatime - ext4 /dev/sdb1 rw\n")
        => "/etc mounted read-only", "can be written for /etc", "remount,rw /etc";
    "space" Fail NODE2, "an xfs that overlayfs refuses", |s| {
            mounts(s.node2(), "26 25 8:2 / /var/lib/containerd rw - xfs /dev/sdb1 rw\n");
            s.node2().fake("xfs-info", "naming =version 2 bsize=4096 ascii-ci=0, ftype=0\n");
        } => "/var/lib/containerd is xfs with ftype=0", "ftype=1", "make this one anew";

    "kernel" Fail NODE1, "a kernel too old for containers", |s| s.node1().put("/proc/sys/kernel/osrelease", "2.6.32-754.el6\n")
        => "kernel 2.6.32-754.el6", "3.10 or newer", "upgrade the kernel";
    "kernel" Fail NODE2, "a kernel that kubeadm 1.33 refuses", |s| {
            s.kubernetes().version = Some("v1.33".to_owned());
            s.node2().put("/proc/sys/kernel/osrelease", "4.18.0-553.el8\n");
        } => "kernel 4.18.0-553.el8", "4.19 or newer for Kubernetes v1.33", "upgrade the kernel";
    "kernel" Warn NODE2, "a kernel that kubeadm 1.34 warns of", |s| s.node2().put("/proc/sys/kernel/osrelease", "4.18.0-553.el8\n")
        => "kernel 4.18.0-553.el8", "4.19 or newer for Kubernetes v1.34", "upgrade the kernel";
    "kernel" Fail NODE1, "a kernel without what nftables mode needs", |s| {
            s.kubernetes().proxy_mode = ProxyMode::Nftables;
            s.node1().put("/proc/sys/kernel/osrelease", "5.4.0-200-generic\n");
        } => "kernel 5.4.0-200-generic", "5.13 or newer", "proxyMode: iptables";
    "kernel" Fail NODE2, "no overlay", |s| {
            s.node2().put("/proc/filesystems", "\text4\n");
            s.node2().fake("missing-modules.json", "[\"overlay\"]");
        } => "no kernel module overlay", "loadable", "install the modules";
    "kernel" Fail NODE1, "no br_netfilter", |s| s.node1().fake("missing-modules.json", "[\"br_netfilter\"]")
        => "no kernel module br_netfilter", "loadable", "install the modules";
    "kernel" Warn NODE1, "cgroup v1", |s| s.node1().remove("/sys/fs/cgroup/cgroup.controllers")
        => "cgroup v1", "cgroup v2", "systemd.unified_cgroup_hierarchy=1";
    "kernel" Fail NODE1, "cgroup v1, which 1.35 refuses", |s| {
            s.kubernetes().version = Some("v1.35".to_owned());
            s.node1().remove("/sys/fs/cgroup/cgroup.controllers");
        } => "cgroup v1", "cgroup v2 for Kubernetes v1.35", "failCgroupV1: false";
    "kernel" Warn NODE1, "cgroup v1 with 1.35, as the user asks", |s| {
            s.kubernetes().version = Some("v1.35".to_owned());
            s.kubernetes().kubelet.insert("failCgroupV1".to_owned(), false.into());
            s.node1().remove("/sys/fs/cgroup/cgroup.controllers");
        } => "cgroup v1", "cgroup v2", "being removed";
    "kernel" Warn NODE2, "large pages", |s| s.node2().fake("page-size", "65536")
        => "65536 bytes", "4096", "jemalloc";

    "glibc" Fail NODE2, "a C library older than a program wants", |s| {
            s.kubernetes().version = Some("v1.32".to_owned());
            s.cluster.runtime.version = Some("1.6.39".to_owned());
            s.node2().put("/lib/x86_64-linux-gnu/libc.so.6", "GNU C Library (GNU libc) stable release version 2.12, by Roland McGrath\n");
        } => "glibc 2.12", "glibc 2.17 or newer for containerd 1.6.39", "use a newer release of the distribution";

    "systemd" Fail NODE2, "a systemd that starts no unit of ours", |s| s.node2().fake("systemd-version", "219")
        => "systemd 219", "239 or newer", "a newer release of its system";

    "hostname" Fail Some("Node_2"), "a name that Kubernetes refuses", |s| s.rename_node2("Node_2")
        => "\"Node_2\"", "RFC 1123", "rename the host";
    "hostname" Warn NODE1, "a name of its own", |s| s.node1().put("/proc/sys/kernel/hostname", "debian\n")
        => "\"debian\"", "\"node1\"", "it will be set";
    "hostname" Warn NODE1, "the name at a strange address", |s| s.node1().put("/etc/hosts", "192.168.7.7 node1.lan node1\n")
        => "192.168.7.7", "the address in cluster.yaml", "commented out";

    "address" Fail NODE2, "the address on no interface", |s| s.node2().interface("10.77.0.99/24", "52:54:00:00:00:99")
        => "no interface with 10.77.0.12 (eth0 10.77.0.99/24)", "on an interface", "internalAddress";
    "address" Fail NODE2, "a name in the address's place", |s| "node2.lan".clone_into(&mut s.cluster.hosts[1].address)
        => "\"node2.lan\"", "an address", "internalAddress";

    "time" Fail NODE1, "a clock that is off", |s| s.clocks.extend([("node1", (2_600, 100)), ("node2", (1_300, 0))])
        => "2.6 s away from that of the controller", "2 s", "set the clock";
    "time" Fail NODE2, "two clocks on both sides of the controller's", |s| s.clocks.extend([("node1", (-1_500, 0)), ("node2", (1_500, 0))])
        => "3.0 s away from that of node1", "2 s", "set the clock";
    "time" Warn NODE2, "nothing that keeps the clock", |s| s.node2().unit("systemd-timesyncd.service", false)
        => "no active time service", "chronyd", "set it up";

    "programs" Fail NODE1, "no conntrack", |s| s.node1().remove("/usr/sbin/conntrack")
        => "no conntrack", "programs", "install the packages";
    "programs" Fail NODE2, "neither iptables nor nft, and no socat", |s| {
            s.node2().remove("/usr/sbin/iptables");
            s.node2().remove("/usr/sbin/socat");
        } => "no iptables or nft, socat", "programs", "install the packages";

    "packages" Fail NODE2, "a system that the bundle has no packages of", |s| {
            packaged(s);
            s.node2().put("/etc/os-release", "ID=debian\nVERSION_ID=\"13\"\nVERSION=\"13 (trixie)\"\n");
            s.node2().remove("/usr/sbin/ebtables");
        } => "debian-13 (linux/amd64) without ebtables", "packages of debian-13", "spec.bundle.os";
    "packages" Fail NODE1, "a list of packages that cannot be read", |s| {
            packaged(s);
            s.node1().put("/var/lib/dpkg/status", "<html>\n");
        } => "no bash-completion, and the list of installed packages cannot be read: /var/lib/dpkg/status", "a list", "dpkg --configure -a";
    "packages" Fail NODE1, "dpkg cut off in the middle", |s| {
            packaged(s);
            s.node1().put("/var/lib/dpkg/updates/0001", "");
        } => "dpkg was interrupted", "a list", "dpkg --configure -a";
    "packages" Warn NODE2, "a package whose installation was cut off", |s| {
            packaged(s);
            s.node2().put("/var/lib/dpkg/status", &installed("vim", "half-configured"));
        } => "interrupted (vim)", "either installed or not", "finished first";

    "existing" Fail NODE1, "a cluster's admin.conf", |s| s.node1().put("/etc/kubernetes/admin.conf", "x")
        => "/etc/kubernetes/admin.conf", "without Kubernetes", "kubeadm reset";
    "existing" Fail NODE2, "a kubelet's unit", |s| s.node2().put("/usr/lib/systemd/system/kubelet.service", "x")
        => "/usr/lib/systemd/system/kubelet.service", "without Kubernetes", "kubeadm reset";
    "existing" Fail NODE1, "etcd's data", |s| s.node1().put("/var/lib/etcd/member/wal/0.wal", "x")
        => "/var/lib/etcd/member", "without Kubernetes", "kubeadm reset";
    "existing" Fail NODE1, "a static pod", |s| s.node1().put("/etc/kubernetes/manifests/kube-apiserver.yaml", "x")
        => "/etc/kubernetes/manifests/kube-apiserver.yaml", "without Kubernetes", "kubeadm reset";
    "existing" Fail NODE2, "another pod network", |s| s.node2().put("/etc/cni/net.d/10-calico.conflist", "x")
        => "/etc/cni/net.d/10-calico.conflist", "without Kubernetes", "kubeadm reset";
    "existing" Fail NODE1, "a snapshot of somebody's in etcd's folder", |s| s.node1().put("/var/lib/etcd/snapshot-2025.db", "x")
        => "1 file in /var/lib/etcd (snapshot-2025.db)", "/var/lib/etcd to be empty", "--set-aside";
    "existing" Fail NODE2, "somebody's files in kubelet's folder", |s| {
            (0..300).for_each(|number| s.node2().put(&format!("/var/lib/kubelet/mine/{number:03}"), ""));
        }
        => "300 files in /var/lib/kubelet (mine/000, mine/001, mine/002, mine/003, \u{2026})", "to be empty", "until a rollback or reset moves it back";
    "existing" Fail NODE2, "addresses of another pod network", |s| s.node2().put("/var/lib/cni/networks/x/10.0.0.2", "")
        => "1 file in /var/lib/cni (networks/x/10.0.0.2)", "to be empty", "move that elsewhere";
    "existing" Fail NODE2, "a disk below kubelet's folder", |s| {
            mounts(s.node2(), "26 25 8:2 / /var/lib/kubelet/pods rw - tmpfs tmpfs rw\n");
        }
        => "/var/lib/kubelet/pods (tmpfs of tmpfs)", "/var/lib/kubelet to be empty", "unmount it";
    "existing" Fail NODE1, "what was set aside and never came back", |s| s.node1().put("/var/lib/.kubexm-before-etcd/x", "")
        => "/var/lib/.kubexm-before-etcd", "no trace", "move it back to /var/lib/etcd";
    "existing" Fail NODE1, "an etcd that runs", |s| s.node1().process(512, "etcd", &[])
        => "etcd running (pid 512)", "etcd of its own", "remove it";
    "existing" Fail NODE2, "docker with containers", |s| {
            s.node2().process(600, "dockerd", &[]);
            s.node2().process(601, "containerd-shim", &[]);
            s.node2().process(602, "containerd-shim", &[]);
        } => "docker with 2 containers", "container runtime", "remove it";
    "existing" Fail NODE2, "podman with a container", |s| s.node2().process(700, "conmon", &[])
        => "podman with 1 container", "container runtime", "remove it";
    "unchanged" Fail NODE1, "a running cluster that was made with another config", |s| {
            stamp(s.node1(), "demo");
            initialised(s.node1(), &Digest::of("another config").to_string());
        } => "another version, network", "the bundle it was made with", "not supported yet";

    "existing" Fail NODE1, "a node of another cluster of ours", |s| stamp(s.node1(), "other")
        => "cluster \"other\" (run r1)", "\"demo\"", "kubexm-install reset -f";

    "membership" Fail NODE2, "a node of another cluster of the same name", |s| {
            member(s.node1(), "00000000-0000-4000-8000-00000000000a", "ca");
            member(s.node2(), "00000000-0000-4000-8000-00000000000b", "ca");
        } => "id 00000000-0000-4000-8000-00000000000b (run r1)", "with id 00000000-0000-4000-8000-00000000000a", "reset -f cluster.yaml --only node2";
    "membership" Fail NODE2, "a node with another CA", |s| {
            member(s.node1(), "00000000-0000-4000-8000-00000000000a", "ca");
            member(s.node2(), "00000000-0000-4000-8000-00000000000a", "another");
        } => "its CA is not that of node1 (run r1)", "belongs to the cluster of node1", "--only node2";
    "membership" Fail NODE2, "a node of a cluster that is gone", |s| {
            member(s.node2(), "00000000-0000-4000-8000-00000000000b", "ca");
        } => "with id 00000000-0000-4000-8000-00000000000b, and node1 is free", "first control plane", "--only node2";
    "membership" Fail NODE1, "a damaged stamp", |s| s.node1().put("/var/lib/kubexm/stamp.json", "{")
        => "a stamp that cannot be read", "a readable one of \"demo\"", "stamp.json says which cluster";

    "ports" Fail NODE1, "the API's port taken", |s| {
            s.node1().process(4242, "haproxy", &[99]);
            s.node1().listener("tcp", 6443, 99);
        } => "6443/tcp held by haproxy (pid 4242)", "kube-apiserver", "stop that process";
    "ports" Fail NODE2, "kubelet's port taken, over IPv6", |s| {
            s.node2().process(4242, "nginx", &[99]);
            s.node2().listener("tcp6", 10250, 99);
        } => "10250/tcp held by nginx (pid 4242)", "kubelet", "stop that process";
    "ports" Fail NODE2, "the pod network's port taken by nobody", |s| s.node2().listener("udp", 8472, 99)
        => "8472/udp held by a process that could not be found", "pod network", "use another host";

    "resolv.conf" Warn NODE1, "no resolv.conf", |s| s.node1().remove("/etc/resolv.conf")
        => "no /etc/resolv.conf", "a nameserver", "spec.extra.resolves";
    "resolv.conf" Warn NODE2, "an empty resolv.conf", |s| s.node2().put("/etc/resolv.conf", "search lan\n")
        => "no nameserver", "a nameserver", "spec.extra.resolves";
    "resolv.conf" Warn NODE1, "a resolver of the host's own", |s| s.node1().put("/etc/resolv.conf", "nameserver 127.0.0.1\n")
        => "only loopback nameservers", "that pods reach", "spec.extra.resolves";
    "resolv.conf" Warn NODE1, "systemd-resolved without servers", |s| {
            s.node1().put("/etc/resolv.conf", "nameserver 127.0.0.53\n");
            s.node1().put("/run/systemd/resolve/resolv.conf", "# No DNS servers known.\nsearch .\n");
        } => "systemd-resolved", "that pods reach", "spec.extra.resolves";

    "settings" Warn NODE1, "SELinux enforcing", |s| s.node1().put("/sys/fs/selinux/enforce", "1")
        => "SELinux enforcing", "permissive", "system.selinux: permissive";
    "settings" Warn NODE1, "fapolicyd, which refuses our programs", |s| s.node1().unit("fapolicyd.service", true)
        => "fapolicyd active", "permission to run", "fapolicyd-cli --file add /usr/local/bin";
    "settings" Warn NODE2, "FIPS mode", |s| s.node2().put("/proc/sys/crypto/fips_enabled", "1\n")
        => "FIPS mode", "your own test", "turn the mode off";
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
    "hostname" Fail NODE1, "the hostname of the other host", |s| s.node1().put("/proc/sys/kernel/hostname", "node2\n")
        => "\"node2\", which is another host's name", "its own address", "swap the addresses";
    "address" Fail NODE2, "the address of the other host", |s| {
            s.cluster.hosts[1].internal_address = Some([10, 77, 0, 11].into());
            s.node2().interface("10.77.0.11/24", "52:54:00:00:00:0c");
        } => "10.77.0.11, that of node1", "an address of its own", "internalAddress";
    "sysctls" Fail NODE1, "a hardened host", |s| s.node1().put("/etc/sysctl.d/99-sysctl.conf", "# CIS\nnet.ipv4.ip_forward=0\n")
        => "/etc/sysctl.d/99-sysctl.conf:2 sets net.ipv4.ip_forward = 0", "after a reboot", "remove that line";
    "mtu" Warn NODE2, "jumbo frames on one of two", |s| s.node2().fake(
            "interfaces.json",
            r#"[{"name": "eth0", "addresses": ["10.77.0.12/24"], "mac": "52:54:00:00:00:0c", "mtu": 9000}]"#,
        ) => "9000 on eth0, and 1500 on eth0 of node1", "one MTU", "same MTU";
    "control-planes" Warn None, "three control planes and nothing before them", |s| s.cluster.role_groups.control_plane.extend(["a".to_owned(), "b".to_owned()])
        => "3 control planes and no load balancer", "one address that forwards to the healthy ones", "loadBalancer.mode: external";
    "control-planes" Warn None, "two members of etcd", |s| {
            s.cluster.role_groups.control_plane.push("a".to_owned());
            s.cluster.load_balancer.mode = LoadBalancerMode::at([10, 77, 0, 100].into(), 6443);
        } => "2 control planes", "odd number", "tolerates";

    "control-planes" Warn None, "two members of etcd on hosts of their own", |s| {
            s.with_roles();
            s.cluster.role_groups.etcd.push("lb2".to_owned());
        } => "2 members of etcd", "odd number", "tolerates";

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
        } => "2.6 s away from that of the controller", "2 s", "set the clock";
    "existing" Fail ETCD1, "an etcd of somebody's on a host of the role", |s| {
            s.with_roles();
            s.host("etcd1").process(512, "etcd", &[]);
        } => "etcd running (pid 512)", "etcd of its own", "remove it";
    "existing" Fail ETCD1, "a snapshot of somebody's in the folder of a member", |s| {
            s.with_roles();
            s.host("etcd1").put("/var/lib/etcd/snapshot-2025.db", "x");
        } => "1 file in /var/lib/etcd (snapshot-2025.db)", "/var/lib/etcd to be empty", "--set-aside";
    "ports" Fail ETCD1, "the port of etcd's clients taken", |s| {
            s.with_roles();
            s.host("etcd1").process(4242, "other", &[99]);
            s.host("etcd1").listener("tcp", 2379, 99);
        } => "2379/tcp held by other (pid 4242)", "a free port for etcd", "stop that process";
    "ports" Fail ETCD1, "the port of etcd's peers taken", |s| {
            s.with_roles();
            s.host("etcd1").process(4242, "other", &[99]);
            s.host("etcd1").listener("tcp6", 2380, 99);
        } => "2380/tcp held by other (pid 4242)", "a free port for etcd", "stop that process";
    "ports" Fail LB1, "the load balancer's port taken", |s| {
            s.with_roles();
            s.host("lb1").process(4242, "other", &[99]);
            s.host("lb1").listener("tcp", 6443, 99);
        } => "6443/tcp held by other (pid 4242)", "a free port for haproxy", "stop that process";
    "ports" Fail LB2, "a load balancer's port that cluster.yaml names, taken", |s| {
            s.with_roles();
            if let LoadBalancerMode::External { port, .. } = &mut s.cluster.load_balancer.mode {
                *port = 8443;
            }
            s.host("lb2").process(4242, "other", &[99]);
            s.host("lb2").listener("tcp", 8443, 99);
        } => "8443/tcp held by other (pid 4242)", "a free port for haproxy", "stop that process";
    "load-balancers" Fail LB1, "a haproxy of somebody's", |s| {
            s.with_roles();
            s.host("lb1").process(4242, "haproxy", &[]);
            s.host("lb1").put("/etc/haproxy/haproxy.cfg", "global\n");
        } => "haproxy running (pid 4242)", "without a haproxy", "ours would replace it";
    "load-balancers" Fail LB2, "a keepalived of somebody's", |s| {
            s.with_roles();
            s.host("lb2").process(4242, "keepalived", &[]);
        } => "keepalived running (pid 4242)", "without a keepalived", "ours would replace it";
    "load-balancers" Fail LB1, "an nginx where ours comes", |s| {
            s.with_roles();
            if let LoadBalancerMode::External { kind, .. } = &mut s.cluster.load_balancer.mode {
                *kind = ExternalKind::KubexmKn;
            }
            s.host("lb1").process(4242, "nginx", &[]);
        } => "nginx running (pid 4242)", "without a nginx", "ours would replace it";
    "load-balancers" Warn LB1, "the configuration of a haproxy that does not run", |s| {
            s.with_roles();
            s.host("lb1").put("/etc/haproxy/haproxy.cfg", "global\n");
        } => "/etc/haproxy/haproxy.cfg, of a haproxy that does not run", "without a haproxy", "keep a copy";
    "load-balancers" Warn None, "one host alone", |s| {
            s.with_roles();
            s.cluster.role_groups.load_balancer.pop();
        } => "lb1 as the only host", "two or more", "roleGroups.loadbalancer";
    "load-balancers" Fail LB1, "an interface that is not there", |s| {
            s.with_roles();
            if let LoadBalancerMode::External { interface, .. } = &mut s.cluster.load_balancer.mode {
                *interface = Some("eth0".to_owned());
            }
            s.host("lb1").fake(
                "interfaces.json",
                r#"[{"name": "ens3", "addresses": ["10.77.0.14/24"], "mac": "52:54:00:00:00:0e", "mtu": 1500}]"#,
            );
        } => "no interface eth0 (ens3 10.77.0.14/24)", "spec.loadBalancer.interface", "correct it";

    "noexec" Fail NODE1, "programs that cannot be run", |s| mounts(s.node1(), "26 25 8:2 / /usr/local rw,noexec - ext4 /dev/sdb1 rw\n")
        => "/usr/local mounted noexec", "run from", "mount -o remount,exec /usr/local";

    "clones" Fail NODE2, "one machine id for two", |s| s.node2().put("/etc/machine-id", &s.node1().read("/etc/machine-id"))
        => "machine id 0123456789abcdef0123456789abcd0b, that of node1", "of its own", "systemd-machine-id-setup";
    "clones" Fail NODE2, "one product uuid for two", |s| {
            let path = "/sys/class/dmi/id/product_uuid";
            s.node2().put(path, &s.node1().read(path));
        } => "that of node1", "product uuid of its own", "hypervisor";
    "clones" Fail NODE2, "one hardware address for two", |s| s.node2().interface("10.77.0.12/24", "52:54:00:00:00:0b")
        => "52:54:00:00:00:0b, that of node1", "hardware address of its own", "hypervisor";

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
    ("folders that a package left empty", |s| {
        s.node1().put("/etc/kubernetes/manifests/.keep", "");
        s.node1().put("/etc/cni/net.d/.kubernetes-cni-keep", "");
    }),
    ("members of one cluster, one of them from before there were ids", |s| {
        member(s.node1(), "00000000-0000-4000-8000-00000000000a", "ca");
        member(s.node2(), "00000000-0000-4000-8000-00000000000a", "ca");
        stamp(s.node2(), "demo");
    }),
    ("leftovers of this very cluster", |s| {
        stamp(s.node1(), "demo");
        s.node1().put("/etc/kubernetes/admin.conf", "x");
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
    ("noexec where no program is put", |s| mounts(s.node1(), "26 25 8:2 / /tmp rw,noexec - ext4 /dev/sdb1 rw\n")),
    ("machines without a product uuid", |s| {
        s.node1().remove("/sys/class/dmi/id/product_uuid");
        s.node2().remove("/sys/class/dmi/id/product_uuid");
    }),
];

/// The root's mount and these.
fn mounts(host: &Host, more: &str) {
    let path = "/proc/self/mountinfo";
    host.put(path, &(host.read(path) + more));
}

/// Packages of Debian 12 are in the bundle, and both hosts have what no program tells of.
fn packaged(scene: &mut Scene) {
    scene.cluster.bundle.os = vec!["debian-12".to_owned()];
    for host in [scene.node1(), scene.node2()] {
        host.put("/usr/bin/apt-get", "");
        host.put("/var/lib/dpkg/status", &installed("bash-completion", "installed"));
    }
}

fn installed(name: &str, state: &str) -> String {
    format!("Package: {name}\nStatus: install ok {state}\nVersion: 1.0-1\nArchitecture: amd64\n\n")
}

/// The mark of a `kubeadm init` that has ended well.
fn initialised(host: &Host, config: &str) {
    let mark = format!("{{\"endedWell\":true,\"config\":\"{config}\"}}");
    host.put("/var/lib/kubexm/acts/kubeadm-init.json", &mark);
}

/// A node that is joined to the cluster `demo` of this id and CA.
fn member(host: &Host, id: &str, ca: &str) {
    host.put("/var/lib/kubexm/stamp.json", &format!("{{\"cluster\":\"demo\",\"id\":\"{id}\",\"run\":\"r1\"}}"));
    host.put("/etc/kubernetes/kubelet.conf", "x");
    host.put("/etc/kubernetes/pki/ca.crt", ca);
}

fn stamp(host: &Host, cluster: &str) {
    host.put("/var/lib/kubexm/stamp.json", &format!("{{\"cluster\":\"{cluster}\",\"run\":\"r1\"}}"));
}
