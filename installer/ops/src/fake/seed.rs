//! The files of a fresh Debian 12 host that ops and facts read.

use std::path::Path;

use crate::{Machine, OpError};

const FILES: [(&str, &str); 31] = [
    (
        "/etc/os-release",
        "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n",
    ),
    ("/etc/hostname", "debian\n"),
    ("/etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
    ("/etc/hosts", "127.0.0.1\tlocalhost\n127.0.1.1\tdebian\n\n::1     localhost ip6-localhost ip6-loopback\n"),
    ("/etc/resolv.conf", "nameserver 10.0.0.1\n"),
    ("/etc/fstab", "UUID=aaaa / ext4 errors=remount-ro 0 1\nUUID=bbbb none swap sw 0 0\n"),
    ("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"),
    ("/etc/environment", ""),
    ("/etc/timezone", "Etc/UTC\n"),
    ("/usr/share/zoneinfo/Asia/Shanghai", "TZif2"),
    ("/usr/share/zoneinfo/Etc/UTC", "TZif2"),
    ("/usr/share/zoneinfo/posix/Etc/UTC", "TZif2"),
    ("/usr/share/zoneinfo/zone.tab", "# tzdb\n"),
    ("/proc/cmdline", "quiet\n"),
    ("/proc/filesystems", "nodev\tsysfs\nnodev\ttmpfs\nnodev\tcgroup2\nnodev\tbpf\nnodev\toverlay\n\text4\n"),
    ("/proc/meminfo", "MemTotal:        8147392 kB\nMemFree:         6147392 kB\n"),
    ("/proc/self/mountinfo", "25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"),
    ("/proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/sda5 partition\t1000000\t\t0\t\t-2\n"),
    (
        "/proc/net/route",
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
      eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
      eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
    ),
    (
        "/proc/net/tcp",
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
      \x20  0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1000 1\n",
    ),
    (
        "/proc/net/tcp6",
        "  sl  local_address remote_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n",
    ),
    (
        "/proc/net/udp",
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n",
    ),
    (
        "/proc/net/udp6",
        "  sl  local_address remote_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n",
    ),
    ("/proc/sys/kernel/hostname", "debian\n"),
    ("/proc/sys/kernel/osrelease", "6.1.0-37-amd64\n"),
    ("/proc/sys/net/ipv4/ip_forward", "0\n"),
    ("/proc/sys/net/ipv4/ip_nonlocal_bind", "0\n"),
    ("/proc/sys/net/ipv6/conf/all/forwarding", "0\n"),
    ("/proc/sys/vm/overcommit_memory", "0\n"),
    ("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n"),
    ("/sys/class/dmi/id/product_uuid", "00000000-0000-0000-0000-000000000005\n"),
];
const PROGRAMS: [&str; 15] = [
    "iptables",
    "conntrack",
    "mount",
    "umount",
    "nsenter",
    "ip",
    "ethtool",
    "tc",
    "socat",
    "ebtables",
    "ipset",
    "diff",
    "haproxy",
    "keepalived",
    "nginx",
];

/// Writes a fresh Debian 12 host into an empty directory. Tests then change what they need.
pub fn seed(root: &Path) -> Result<Machine, OpError> {
    let machine = Machine::rooted(root);
    let put = |path: &str, text: &str| {
        let real = machine.path(path);
        crate::fsio::make_parent(&real)?;
        std::fs::write(&real, text).map_err(OpError::path("write", &real))
    };
    for (path, text) in FILES {
        put(path, text)?;
    }
    for program in PROGRAMS {
        put(&format!("/usr/sbin/{program}"), "#!/bin/true\n")?;
    }
    let localtime = machine.path("/etc/localtime");
    std::os::unix::fs::symlink("/usr/share/zoneinfo/Etc/UTC", &localtime)
        .map_err(OpError::path("make the link", &localtime))?;
    // The agent itself, which the link installs first.
    put("/usr/local/bin/kubexm-install", "#!/bin/true\n")?;
    for folder in [
        "/root",
        "/etc/systemd/system",
        "/etc/sysctl.d",
        "/etc/modules-load.d",
        "/sys/module",
        "/usr/local/bin",
        "/var/lib",
    ] {
        let real = machine.path(folder);
        std::fs::create_dir_all(&real).map_err(OpError::path("make the folder", &real))?;
    }
    put(
        "/lib/systemd/system/systemd-timesyncd.service",
        "[Service]\nExecStart=/usr/sbin/ip\n[Install]\nWantedBy=sysinit.target\n",
    )?;
    Ok(machine)
}
