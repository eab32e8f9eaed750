//! Whose packages, and which roots.

use kubexm_spec::Arch;

/// A distribution with some of its suites.
pub struct Distribution {
    /// For people.
    pub name: &'static str,
    /// Its profile.
    pub profile: &'static str,
    /// Suites that are read, and of which folder of the lab's tree they are.
    pub suites: &'static [(&'static str, &'static str)],
    pub components: &'static [&'static str],
    pub archs: &'static [Arch],
    /// Every set, or each third one: for good measure.
    pub whole: bool,
}

pub const BOOKWORM: Distribution = Distribution {
    name: "bookworm and updates",
    profile: "debian-12",
    suites: &[("bookworm", "debian"), ("bookworm-updates", "debian")],
    components: &["main"],
    archs: &[Arch::Amd64, Arch::Arm64],
    whole: true,
};

pub const BOOKWORM_SECURITY: Distribution = Distribution {
    name: "bookworm, updates and security",
    suites: &[("bookworm", "debian"), ("bookworm-updates", "debian"), ("bookworm-security", "debian-security")],
    ..BOOKWORM
};

pub const TRIXIE: Distribution = Distribution {
    name: "trixie and updates",
    profile: "debian-13",
    suites: &[("trixie", "debian"), ("trixie-updates", "debian")],
    ..BOOKWORM
};

pub const JAMMY: Distribution = Distribution {
    name: "jammy, updates and security",
    profile: "ubuntu-22.04",
    suites: &[("jammy", "ubuntu"), ("jammy-updates", "ubuntu"), ("jammy-security", "ubuntu")],
    components: &["main", "universe"],
    archs: &[Arch::Amd64],
    whole: false,
};

pub const NOBLE: Distribution = Distribution {
    name: "noble, updates and security",
    profile: "ubuntu-24.04",
    suites: &[("noble", "ubuntu"), ("noble-updates", "ubuntu"), ("noble-security", "ubuntu")],
    ..JAMMY
};

/// What nodes need, alone and together; and what leans on every part of the rules: alternatives, virtual packages, Pre-Depends,
/// Multi-Arch, large closures.
const SETS: [&[&str]; 42] = [
    &["socat"],
    &["conntrack"],
    &["ebtables"],
    &["ipset"],
    &["ipvsadm"],
    &["nfs-common"],
    &["open-iscsi"],
    &["chrony"],
    &["bash-completion"],
    &["keepalived"],
    &["haproxy"],
    &["nginx"],
    &["socat", "conntrack", "ebtables", "ipset", "ipvsadm"],
    &[
        "socat",
        "conntrack",
        "ebtables",
        "ipset",
        "ipvsadm",
        "nfs-common",
        "open-iscsi",
        "chrony",
        "bash-completion",
        "ethtool",
    ],
    &["keepalived", "haproxy", "nginx", "chrony"],
    &["iptables", "nftables"],
    &["curl", "ca-certificates", "jq"],
    &["systemd", "dbus", "udev"],
    &["systemd-sysv", "systemd-timesyncd", "libnss-systemd"],
    &["python3", "python3-requests", "python3-yaml"],
    &["openssh-server", "sudo"],
    &["rsyslog", "logrotate", "cron"],
    &["lvm2", "cryptsetup", "mdadm"],
    &["glusterfs-client", "ceph-common"],
    &["nfs-kernel-server", "rpcbind"],
    &["docker.io"],
    &["containerd", "runc"],
    &["postgresql"],
    &["mariadb-server"],
    &["vim", "git", "tmux"],
    &["build-essential"],
    &["postfix", "mailutils"],
    &["apache2", "libapache2-mod-php"],
    &["multipath-tools"],
    &["network-manager"],
    &["firewalld"],
    &["gnupg", "apt-transport-https"],
    &["tcpdump", "strace", "lsof", "iproute2"],
    &["bind9", "dnsutils"],
    &["snmpd", "prometheus-node-exporter"],
    &["openjdk-17-jre-headless"],
    &["apt", "adduser", "libpam-systemd", "procps", "util-linux", "e2fsprogs", "kmod", "mount"],
];

/// The sets that are tried on a distribution.
pub fn of(distribution: &Distribution) -> Vec<&'static [&'static str]> {
    let chosen = SETS.iter().enumerate().filter(|(at, _)| distribution.whole || at % 3 == 0);
    // Debian 13 has left this version behind.
    let known = |set: &&[&str]| distribution.profile != "debian-13" || !set.contains(&"openjdk-17-jre-headless");
    chosen.map(|(_, set)| *set).filter(known).collect()
}
