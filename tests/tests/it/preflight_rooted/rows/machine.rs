//! What a machine is: system, hardware, disks, kernel, names, clock, programs, packages.

use kubexm_recipes::preflight::Severity::{Fail, Warn};
use kubexm_spec::cluster::{Audit, NetworkPlugin, ProxyMode};

use super::super::edits::{installed, ipvs, mounts, packaged};
use super::{NODE1, NODE2, Row, rows};

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
    "etcd-disk" Warn NODE1, "a disk that takes long to keep a write", |s| s.node1().fake("write-us", "38001")
        => "/var/lib/etcd takes 39 ms", "10 ms for a member of etcd", "a disk of its own";
    "space" Fail NODE1, "a small disk of etcd's own", |s| {
            mounts(s.node1(), "26 25 8:2 / /var/lib/etcd rw,noatime - ext4 /dev/sdb1 rw\n");
            s.node1().fake("space.json", "{\"/var/lib/etcd\": [1073741824, 1073741824]}");
        } => "1.0 GiB free on /var/lib/etcd", "2.0 GiB for /var/lib/etcd", "larger disk";
    "space" Fail NODE1, "no room for the audit log that cluster.yaml asks for", |s| {
            s.kubernetes().audit = Some(Audit { max_size: 512, max_backups: 3, ..Audit::default() });
            mounts(s.node1(), "26 25 8:2 / /var/log rw,noatime - ext4 /dev/sdb1 rw\n");
            s.node1().fake("space.json", "{\"/var/log\": [1073741824, 4294967296]}");
        } => "1.0 GiB free on /var/log", "2.0 GiB for /var/log/kubernetes/audit", "larger disk";
    "space" Fail NODE1, "a disk without inodes", |s| s.node1().fake("inodes.json", "[30000, 1000000]")
        => "30000 of 1000000 inodes free on /", "70000 for the files of images", "mkfs.ext4 -N";
    "space" Fail NODE2, "a folder that cannot be written", |s| mounts(s.node2(), "26 25 8:2 / /etc ro,relatime - ext4 /dev/sdb1 rw\n")
        => "/etc mounted read-only", "can be written for /etc", "remount,rw /etc";
    "space" Fail NODE2, "an xfs that overlayfs refuses", |s| {
            mounts(s.node2(), "26 25 8:2 / /var/lib/containerd rw - xfs /dev/sdb1 rw\n");
            s.node2().fake("xfs-info", "naming =version 2 bsize=4096 ascii-ci=0, ftype=0\n");
        } => "/var/lib/containerd is xfs with ftype=0", "ftype=1", "recreate this one with ftype=1";

    "kernel" Fail NODE1, "a kernel too old for containers", |s| s.node1().put("/proc/sys/kernel/osrelease", "2.6.32-754.el6\n")
        => "kernel 2.6.32-754.el6", "3.10 or newer", "upgrade the kernel";
    "kernel" Fail NODE2, "a kernel that kubeadm 1.33 refuses", |s| {
            s.kubernetes().version = Some("v1.33".to_owned());
            s.node2().put("/proc/sys/kernel/osrelease", "4.18.0-553.el8\n");
        } => "kernel 4.18.0-553.el8", "4.19 or newer for Kubernetes v1.33", "upgrade the kernel";
    "kernel" Warn NODE2, "a kernel that kubeadm 1.34 warns of", |s| s.node2().put("/proc/sys/kernel/osrelease", "4.18.0-553.el8\n")
        => "kernel 4.18.0-553.el8", "4.19 or newer for Kubernetes v1.34", "upgrade the kernel";
    "kernel" Fail NODE1, "a kernel without ip_vs", |s| {
            ipvs(s);
            s.node1().fake("missing-modules.json", "[\"ip_vs_sh\"]");
        } => "no kernel module ip_vs_sh", "loaded, built in or loadable", "proxyMode: iptables";
    "kernel" Warn None, "a mode of kube-proxy that upstream removes", |s| {
            ipvs(s);
            s.kubernetes().version = Some("v1.35.4".to_owned());
        } => "`proxyMode: ipvs` with Kubernetes v1.35", "a mode that upstream keeps", "deprecated since 1.35";
    "programs" Warn NODE2, "nothing that clears the table of ipvs", |s| {
            ipvs(s);
            s.node2().remove("/usr/sbin/ipvsadm");
        } => "no ipvsadm", "by which a reset clears", "install the package ipvsadm";
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
    "kernel" Fail NODE2, "a kernel without BPF, for Cilium", |s| {
            s.cluster.network.plugin = NetworkPlugin::Cilium;
            s.node2().put("/proc/filesystems", "nodev\tsysfs\nnodev\tcgroup2\n\text4\n");
        } => "a kernel without BPF (no bpf in /proc/filesystems)", "BPF for the pod network cilium", "another spec.network.plugin";
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
        } => "cgroup v1", "cgroup v2", "upstream is removing cgroup v1";
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
        => "\"node2.lan\"", "an IP address", "internalAddress";

    "time" Fail NODE1, "a clock that is off", |s| s.clocks.extend([("node1", (2_600, 100)), ("node2", (1_300, 0))])
        => "that of the controller by 2.6 s", "2 s", "set the clock";
    "time" Fail NODE2, "two clocks on both sides of the controller's", |s| s.clocks.extend([("node1", (-1_500, 0)), ("node2", (1_500, 0))])
        => "that of node1 by 3.0 s", "2 s", "set the clock";
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
};
