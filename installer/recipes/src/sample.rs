//! A small cluster, its hosts as they might be found and a bundle's manifest for it: for tests of whatever takes a plan.
//!
//! Digests are those of names, not of real content; nothing here is used by a program.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use kubexm_manifests::{Catalogue, RequireError, Source, require};
use kubexm_plan::Facts;
use kubexm_plan::facts::{Disk, Interface, ModuleState, SelinuxState};
use kubexm_spec::cluster::{Cluster, Host, Kubernetes, RoleGroups, Runtime};
use kubexm_spec::manifest::{Artifact, Blob, ClusterSummary, FORMAT, Manifest};
use kubexm_spec::{Arch, Digest};

const GIB: u64 = 1 << 30;

/// One host, `node1` at 10.77.0.11, that is control plane, worker and registry.
pub fn cluster() -> Cluster {
    let only = vec!["node1".to_owned()];
    Cluster {
        hosts: vec![host("node1", 11)],
        role_groups: RoleGroups {
            etcd: only.clone(),
            control_plane: only.clone(),
            worker: only.clone(),
            registry: only,
            ..RoleGroups::default()
        },
        kubernetes: Some(Kubernetes { version: Some("v1.34.4".to_owned()), ..Kubernetes::named("demo") }),
        runtime: Runtime { version: Some("2.2.7".to_owned()), ..Runtime::default() },
        ..Cluster::named("demo")
    }
}

/// Hosts `node1`, `node2` … at 10.77.0.11, .12 …: control planes first, then workers; the first serves the registry.
pub fn fleet(control_planes: u8, workers: u8) -> Cluster {
    let names = |numbers: std::ops::Range<u8>| numbers.map(|n| format!("node{}", n + 1)).collect::<Vec<_>>();
    let all = control_planes.saturating_add(workers);
    let mut cluster = cluster();
    cluster.hosts = names(0..all).iter().zip(11..).map(|(name, last)| host(name, last)).collect();
    cluster.role_groups.control_plane = names(0..control_planes);
    cluster.role_groups.etcd = names(0..control_planes);
    cluster.role_groups.worker = names(control_planes..all);
    cluster.role_groups.registry = names(0..1);
    cluster
}

/// A host at 10.77.0.`last`, reached as `operator`.
pub fn host(name: &str, last: u8) -> Host {
    Host { user: "operator".to_owned(), ..Host::new(name, Ipv4Addr::new(10, 77, 0, last).to_string()) }
}

/// A Debian 12 machine of [`host`] with nothing to complain of.
pub fn facts(name: &str, last: u8) -> Facts {
    let programs = ["iptables", "conntrack", "mount", "umount", "nsenter", "ip", "ethtool", "tc", "socat"];
    let paths = ["/var/lib/kubexm", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/etcd", "/usr/local/bin"];
    Facts {
        host: name.to_owned(),
        hostname: name.to_owned(),
        hostname_addresses: vec![IpAddr::V4(Ipv4Addr::new(127, 0, 1, 1))],
        os_id: "debian".to_owned(),
        os_version: "12".to_owned(),
        os_edition: "12 (bookworm)".to_owned(),
        arch: Some(Arch::Amd64),
        kernel: "6.1.0-31-amd64".to_owned(),
        page_size: 4096,
        cpus: 4,
        memory: 8 * GIB,
        disks: vec![Disk {
            mount: "/".to_owned(),
            paths: paths.into_iter().map(str::to_owned).collect(),
            free: 80 * GIB,
            size: 100 * GIB,
            filesystem: Some("ext4".to_owned()),
        }],
        cgroup_version: 2,
        modules: ["overlay", "br_netfilter"].into_iter().map(|m| (m.to_owned(), ModuleState::Present)).collect(),
        packages: None,
        programs: programs.into_iter().map(|p| (p.to_owned(), Some(format!("/usr/sbin/{p}")))).collect(),
        interfaces: vec![Interface {
            name: "eth0".to_owned(),
            addresses: vec![format!("10.77.0.{last}/24")],
            mac: format!("52:54:00:00:00:{last:02x}"),
            mtu: 1500,
        }],
        default_route: true,
        routes: vec!["10.77.0.0/24".to_owned()],
        nameservers: Some(vec![IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1))]),
        resolved_nameservers: None,
        swaps: Vec::new(),
        fstab_swaps: Vec::new(),
        selinux: SelinuxState::Absent,
        fapolicyd: false,
        fips: false,
        firewalls: Vec::new(),
        time_services: vec!["systemd-timesyncd".to_owned()],
        clock_offset_ms: 3,
        round_trip_ms: 10,
        listeners: Vec::new(),
        leftovers: Vec::new(),
        stamp: None,
        kubeadm_config: None,
        joined: false,
        proxies: Vec::new(),
        noexec: Vec::new(),
        boot_sysctls: BTreeMap::new(),
        machine_id: format!("0123456789abcdef0123456789abcd{last:02x}"),
        product_uuid: format!("00000000-0000-0000-0000-0000000000{last:02x}"),
    }
}

/// [`facts`] of every host of a cluster.
pub fn all_facts(cluster: &Cluster) -> BTreeMap<String, Facts> {
    let last = |host: &Host| host.address.rsplit_once('.').and_then(|(_, last)| last.parse().ok()).unwrap_or(1);
    cluster.hosts.iter().map(|h| (h.name.clone(), facts(&h.name, last(h)))).collect()
}

/// The manifest of a bundle that holds exactly what a cluster requires.
pub fn manifest(cluster: &Cluster, catalogue: &Catalogue) -> Result<Manifest, RequireError> {
    let requirements = require(cluster, catalogue)?;
    let artifacts: Vec<Artifact> = requirements
        .items
        .iter()
        .map(|item| {
            let (name, image) = match &item.source {
                Source::File { file_name, .. } => (file_name.clone(), false),
                Source::LocalFile { path } => (path.display().to_string(), false),
                Source::Image { reference, .. } | Source::LocalImage { reference, .. } => (reference.clone(), true),
                Source::Installer => (kubexm_spec::names::INSTALLER.to_owned(), false),
                Source::Chart { .. } => (format!("{}.tgz", item.key.name()), false),
                Source::LocalYaml { .. } => (format!("{}.yaml", item.key.name()), false),
            };
            let named = |part: &str| Digest::of(format!("{}/{:?}/{part}", item.key, item.platform));
            let parts: &[&str] = if image { &["index", "manifest", "config", "layer"] } else { &["file"] };
            Artifact {
                key: item.key.clone(),
                version: item.version.clone(),
                platform: item.platform,
                name,
                digest: named(parts[0]),
                manifest: image.then(|| named("manifest")),
                blobs: parts.iter().map(|part| Blob { digest: named(part), size: 1 << 20 }).collect(),
                trust: item.trust,
                sources: Vec::new(),
            }
        })
        .collect();
    let members: BTreeSet<_> = artifacts.iter().flat_map(|a| a.blobs.iter().copied()).collect();
    Ok(Manifest {
        format: FORMAT,
        name: cluster.name.clone(),
        cluster: requirements.versions.map(|versions| ClusterSummary {
            kubernetes: versions.kubernetes_tag(),
            runtime: versions.runtime,
            network: versions.network,
        }),
        platforms: cluster.bundle.platforms.clone(),
        zone: "global".to_owned(),
        tool: "kubexm-bundle 0.1.0".to_owned(),
        lock: Digest::of("lock"),
        artifacts,
        members: members
            .into_iter()
            .map(|blob| kubexm_spec::manifest::Member {
                name: format!("blobs/sha256/{}", blob.digest.hex()),
                size: blob.size,
                sha256: blob.digest,
            })
            .collect(),
    })
}
