//! Facts of simulated hosts.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::Facts;
use kubexm_plan::facts::{Disk, Interface, ModuleState, SelinuxState};
use kubexm_spec::{Arch, Digest};

/// The programs called by kubeadm and the installer that a plain Debian has.
const PROGRAMS: [&str; 9] = ["iptables", "conntrack", "mount", "umount", "nsenter", "ip", "ethtool", "tc", "socat"];

/// Facts of a host that passes every check: Debian 12, amd64, 4 CPUs, 8 GiB.
pub fn facts(host: &str) -> Facts {
    let number = 10 + host.bytes().fold(0_u8, |sum, byte| sum.wrapping_add(byte) % 200);
    Facts {
        host: host.to_owned(),
        hostname: host.to_owned(),
        hostname_addresses: Vec::new(),
        os_id: "debian".to_owned(),
        os_version: "12".to_owned(),
        os_edition: "12 (bookworm)".to_owned(),
        arch: Some(Arch::Amd64),
        kernel: "6.1.0-18-amd64".to_owned(),
        page_size: 4096,
        cpus: 4,
        memory: 8 << 30,
        disks: vec![Disk {
            mount: "/".to_owned(),
            paths: vec!["/".to_owned()],
            free: 80 << 30,
            size: 100 << 30,
            filesystem: Some("ext4".to_owned()),
            read_only: false,
            noexec: false,
            inodes: None,
        }],
        cgroup_version: 2,
        filesystems: ["bpf", "cgroup2"].map(str::to_owned).into(),
        modules: ["overlay", "br_netfilter"].map(|name| (name.to_owned(), ModuleState::Present)).into(),
        boot_modules: BTreeSet::new(),
        systemd: Some(252),
        programs: PROGRAMS.map(|name| (name.to_owned(), Some(format!("/usr/sbin/{name}")))).into(),
        packages: None,
        interfaces: vec![Interface {
            name: "eth0".to_owned(),
            addresses: vec![format!("10.0.0.{number}/24")],
            mac: format!("02:00:00:00:00:{number:02x}"),
            mtu: 1500,
        }],
        default_route: true,
        routers_asked_on: Vec::new(),
        routes: vec!["10.0.0.0/24".to_owned()],
        nameservers: Some(Vec::new()),
        resolved_nameservers: None,
        dns_wildcards: Vec::new(),
        swaps: Vec::new(),
        fstab_swaps: Vec::new(),
        selinux: SelinuxState::Absent,
        fapolicyd: false,
        fips: false,
        firewalls: Vec::new(),
        time_services: vec!["systemd-timesyncd.service".to_owned()],
        timezones: vec!["Asia/Shanghai".to_owned(), "Etc/UTC".to_owned()],
        clock_offset_ms: 0,
        round_trip_ms: 1,
        listeners: Vec::new(),
        leftovers: Vec::new(),
        runtime_settings: Vec::new(),
        docker: Vec::new(),
        balancers: Vec::new(),
        state_folders: Vec::new(),
        etcd_write_us: None,
        open_folders: Vec::new(),
        foreign_mounts: Vec::new(),
        stamp: None,
        kubeadm_config: None,
        kubeadm_config_text: None,
        kubeadm_files: None,
        etcd_formed: None,
        etcd_keyspace: None,
        from_backup: None,
        timers: BTreeSet::new(),
        unreadable_stamp: None,
        unreadable_mark: None,
        runtime_root: None,
        joined: false,
        cluster_ca: None,
        cluster_ca_key: None,
        sealed_authorities: None,
        registry_ca: None,
        proxies: Vec::new(),
        noexec: Vec::new(),
        glibc: Some("2.36".to_owned()),
        sysctls: BTreeMap::new(),
        boot_sysctls: BTreeMap::new(),
        machine_id: Digest::of(host).hex()[..32].to_owned(),
        product_uuid: String::new(),
    }
}
