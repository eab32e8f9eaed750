//! A small cluster, facts about its hosts and a bundle's manifest for it: for tests that need a plan.
//!
//! Digests are those of names, not of real content.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};

use kubexm_manifests::requirements::PackageNeed;
use kubexm_manifests::{Catalogue, ChartRelease, RequireError, Source, releases, require};
use kubexm_packages::model::{Deferred, MultiArch, Package, RepoId};
use kubexm_packages::solve::{Pool, Repo};
use kubexm_plan::cluster_facts::Leaf;
use kubexm_plan::facts::{Disk, InstalledPackages, Interface, ModuleState, OwnSwitch, SelinuxState};
use kubexm_plan::runtime::isulad;
use kubexm_plan::{ClusterId, Facts, Plan};
use kubexm_spec::cluster::{Cluster, EtcdKind, Host, Kubernetes, MaterialUse, RoleGroups, Runtime, RuntimeKind};
use kubexm_spec::lock::PackageSet;
use kubexm_spec::manifest::{Artifact, Blob, ClusterSummary, FORMAT, Manifest};
use kubexm_spec::{Arch, ArtifactKey, Digest, Family, Rendering, Trust, rendering};

use crate::charts::CarriedCharts;
use crate::context::{Materials, PlanContext, Sealing};
use crate::modules::packages::source;
use crate::packages::{CarriedPackages, NO_PACKAGES, RepositoryFile};
use crate::pipelines::create;
use crate::requests::requests;
use crate::signed::{SignedCertificate, SignedCertificates};

const GIB: u64 = 1 << 30;

/// A manifest of the pod network with what recipes look for in upstream's; the lab's hosts run it.
pub const MANIFEST: &str = include_str!("../../../tests/lab/calico/manifest.yaml");

/// The id of every sample.
pub const CLUSTER_ID: ClusterId = ClusterId::from_random([7; 16]);

/// The public key of an age identity that nobody has.
pub const RECIPIENT: &str = "age106yprf8y5y77ak4jt06y5r3l65ex6nwjzqrruhvmgyr4ql4ek99qtddx8x";

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

/// One control plane, one worker, and etcd of kubexm's on three hosts of its own, `etcd1` at 10.77.0.21 …
pub fn with_etcd() -> Cluster {
    let mut cluster = fleet(1, 1);
    let names = ["etcd1", "etcd2", "etcd3"];
    cluster.hosts.extend(names.into_iter().zip(21..).map(|(name, last)| host(name, last)));
    cluster.role_groups.etcd = names.map(str::to_owned).to_vec();
    cluster.etcd.kind = EtcdKind::Kubexm;
    cluster
}

/// A host at 10.77.0.`last`, reached as `operator`.
pub fn host(name: &str, last: u8) -> Host {
    Host { user: "operator".to_owned(), ..Host::new(name, Ipv4Addr::new(10, 77, 0, last).to_string()) }
}

/// The plan that creates a cluster on hosts without preflight findings, without packages of their distribution.
pub fn plan(cluster: &Cluster) -> Result<Plan, Box<dyn Error + Send + Sync>> {
    let catalogue = Catalogue::embedded();
    let (manifest, facts) = (manifest(cluster, &catalogue)?, all_facts(cluster));
    Ok(create(&PlanContext {
        bundle_record: None,
        cluster,
        cluster_id: Some(CLUSTER_ID),
        cluster_digest: Digest::of("cluster.yaml"),
        manifest: &manifest,
        manifest_digest: Digest::of("manifest.json"),
        catalogue: &catalogue,
        facts: &facts,
        packages: &NO_PACKAGES,
        materials: &materials(cluster),
        charts: &charts(cluster, &manifest),
        sealing: Some(&sealing()),
        from_backup: None,
        signed: Some(&signed(cluster)),
        set_aside: false,
        without_fan_out: false,
    })?)
}

/// What the site's CA has signed for every host of a cluster, if its key stays with the site; no real certificates.
pub fn signed(cluster: &Cluster) -> SignedCertificates {
    signed_for(cluster, "")
}

/// The same for requests that were made anew.
pub fn signed_anew(cluster: &Cluster) -> SignedCertificates {
    signed_for(cluster, "anew")
}

fn signed_for(cluster: &Cluster, time: &str) -> SignedCertificates {
    let ca = include_str!("../../ops/src/fake/ca.crt");
    let pem = ca.replacen("-----BEGIN", &format!("{time}-----BEGIN"), 1);
    let of = |name: String| {
        let public = Digest::of(format!("{name}{time}"));
        let leaf = Leaf { digest: public, begins: i64::MAX };
        (name, SignedCertificate { pem: pem.clone(), public, ends: i64::MAX, leaf })
    };
    let names = cluster.external_ca().and_then(|_| requests(cluster).ok()).unwrap_or_default();
    SignedCertificates {
        certificates: names.into_iter().map(|request| of(request.name)).collect(),
        service_account: Some((
            "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n".to_owned(),
            Digest::of("service-account"),
        )),
        faults: BTreeMap::new(),
        ca: Some(ca.to_owned()),
    }
}

/// Sealed for one operator, who is in no cluster.yaml.
pub fn sealing() -> Sealing {
    Sealing { others: vec![RECIPIENT.to_owned()], new_registry_ca: false }
}

/// How the charts of the bundle of [`manifest`] were rendered; a values file has its own path as a value.
pub fn charts(cluster: &Cluster, manifest: &Manifest) -> CarriedCharts {
    let of = |release: ChartRelease| {
        let source = manifest.artifacts.iter().find(|artifact| artifact.key == release.key)?.digest;
        let file = release.values_file.iter().map(|path| ("file".to_owned(), path.display().to_string().into()));
        let values = release.rendered(file.collect());
        Some(Rendering {
            source,
            values_digest: rendering::digest(&values),
            namespace: release.namespace,
            kubernetes: manifest.cluster.as_ref().map(|summary| summary.kubernetes.clone()),
            values,
            images: Vec::new(),
            key: release.key,
        })
    };
    let network = kubexm_plan::network::of(cluster.network.plugin).manifest;
    CarriedCharts {
        renderings: releases(cluster).into_iter().filter_map(of).collect(),
        manifest: network.map(|_| MANIFEST.to_owned()),
        ..CarriedCharts::default()
    }
}

/// A text for each material that a cluster names.
pub fn materials(cluster: &Cluster) -> Materials {
    let text = |usage| match usage {
        MaterialUse::AuditPolicy => "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n",
        MaterialUse::Certificates => "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        MaterialUse::Authority => include_str!("../../ops/src/fake/ca.crt"),
        MaterialUse::Script => "echo done\n",
        MaterialUse::PublicKey => "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n",
        MaterialUse::TrustedRoot => "{\"mediaType\": \"application/vnd.dev.sigstore.trustedroot+json;version=0.1\"}",
    };
    cluster.materials().iter().map(|of| (of.file.name.clone(), text(of.usage).to_owned())).collect()
}

/// Facts of [`host`] as a Debian 12 machine without preflight findings.
pub fn facts(name: &str, last: u8) -> Facts {
    let programs = ["iptables", "conntrack", "mount", "umount", "nsenter", "ip", "ethtool", "tc", "socat"];
    let paths =
        ["/var/lib/kubexm", RuntimeKind::default().data_dir(), "/var/lib/kubelet", "/var/lib/etcd", "/usr/local/bin"];
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
            read_only: false,
            noexec: false,
            inodes: None,
        }],
        cgroup_version: 2,
        filesystems: ["bpf", "cgroup2"].map(str::to_owned).into(),
        modules: ["overlay", "br_netfilter"].into_iter().map(|m| (m.to_owned(), ModuleState::Present)).collect(),
        boot_modules: BTreeSet::new(),
        systemd: Some(252),
        packages: Some(installed(&["base-files", "ebtables", "bash-completion"])),
        programs: programs.into_iter().map(|p| (p.to_owned(), Some(format!("/usr/sbin/{p}")))).collect(),
        interfaces: vec![Interface {
            name: "eth0".to_owned(),
            addresses: vec![format!("10.77.0.{last}/24")],
            mac: format!("52:54:00:00:00:{last:02x}"),
            mtu: 1500,
        }],
        default_route: true,
        default_link: Some("eth0".to_owned()),
        routers_asked_on: Vec::new(),
        routes: vec!["10.77.0.0/24".to_owned()],
        nameservers: Some(vec![IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1))]),
        resolved_nameservers: None,
        dns_wildcards: Vec::new(),
        swaps: Vec::new(),
        fstab_swaps: Vec::new(),
        selinux: SelinuxState::Absent,
        fapolicyd: false,
        fips: false,
        firewalls: Vec::new(),
        time_services: vec!["systemd-timesyncd".to_owned()],
        timezones: vec!["Asia/Shanghai".to_owned(), "Etc/UTC".to_owned()],
        clock_offset_ms: 3,
        round_trip_ms: 10,
        listeners: Vec::new(),
        leftovers: Vec::new(),
        runtime_settings: Vec::new(),
        docker: Vec::new(),
        balancers: Vec::new(),
        state_folders: Vec::new(),
        etcd_write_us: None,
        open_folders: Vec::new(),
        foreign_mounts: Vec::new(),
        own_switch: OwnSwitch::default(),
        stamp: None,
        unreadable_stamp: None,
        unreadable_mark: None,
        kubeadm_config: None,
        kubeadm_config_text: None,
        kubeadm_files: None,
        etcd_formed: None,
        etcd_keyspace: None,
        from_backup: None,
        timers: BTreeSet::new(),
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
        machine_id: format!("0123456789abcdef0123456789abcd{last:02x}"),
        product_uuid: format!("00000000-0000-0000-0000-0000000000{last:02x}"),
    }
}

/// dpkg's status text for these packages, version 1.0-1 of each.
pub fn installed(names: &[&str]) -> InstalledPackages {
    let each = names.iter().map(|name| {
        format!("Package: {name}\nStatus: install ok installed\nVersion: {VERSION}\nArchitecture: amd64\n\n")
    });
    InstalledPackages { family: Family::Deb, list: each.collect(), broken: None }
}

/// [`facts`] of every host of a cluster.
pub fn all_facts(cluster: &Cluster) -> BTreeMap<String, Facts> {
    let last = |host: &Host| host.address.rsplit_once('.').and_then(|(_, last)| last.parse().ok()).unwrap_or(1);
    cluster.hosts.iter().map(|h| (h.name.clone(), facts(&h.name, last(h)))).collect()
}

/// The manifest of a bundle that contains exactly what a cluster requires.
pub fn manifest(cluster: &Cluster, catalogue: &Catalogue) -> Result<Manifest, RequireError> {
    let requirements = require(cluster, catalogue)?;
    let mut artifacts: Vec<Artifact> = requirements
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
                sources: None,
            }
        })
        .collect();
    artifacts.extend(requirements.packages.iter().flat_map(package_artifacts));
    let members: BTreeSet<_> = artifacts.iter().flat_map(|a| a.blobs.iter().copied()).collect();
    Ok(Manifest {
        format: FORMAT,
        name: cluster.name.clone(),
        cluster: requirements.versions.map(|versions| ClusterSummary {
            kubernetes: versions.kubernetes.to_string(),
            runtime: versions.runtime,
            network: versions.network,
        }),
        platforms: cluster.bundle.platforms.clone(),
        zone: None,
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

/// The packages in the bundle of [`manifest`], each in version 1.0-1 (of some another) and without dependencies; for a cluster with
/// `spec.bundle.os`.
pub fn packages(cluster: &Cluster, catalogue: &Catalogue) -> Result<CarriedPackages, RequireError> {
    let requirements = require(cluster, catalogue)?;
    let sets: Vec<PackageSet> = requirements
        .packages
        .iter()
        .map(|need| PackageSet {
            os: need.os.clone(),
            platform: need.platform,
            roots: need.roots.clone(),
            indexes: Vec::new(),
            date: 1_700_000_000,
            because: BTreeMap::new(),
        })
        .collect();
    let mut carried = CarriedPackages::unread(&sets);
    for (one, need) in carried.sets.iter_mut().zip(&requirements.packages) {
        let all = package_names(need).into_iter().map(|name| package(need, name));
        one.pool = pool(need, all.collect());
        one.repository = [("InRelease", "signed\n"), (source(need.family), "where it is\n")]
            .map(|(path, text)| RepositoryFile { path: path.to_owned(), text: text.to_owned() })
            .to_vec();
    }
    Ok(carried)
}

/// The pool of a set.
pub fn pool(need: &PackageNeed, packages: Vec<Package>) -> Pool {
    let repo = Repo { id: "bundle".to_owned(), base: String::new(), priority: 0 };
    Pool::new(need.family, need.family.arch(need.platform.arch), vec![repo], packages)
}

/// A package of a set that needs nothing.
pub fn package(need: &PackageNeed, name: &str) -> Package {
    let arch = need.family.arch(need.platform.arch);
    let (digest, size) = (package_blob(need, name), 1 << 20);
    Package {
        name: name.into(),
        version: version(name).into(),
        arch: arch.into(),
        repo: RepoId(0),
        location: package_file(need, name).into(),
        size,
        digest,
        installed_size: 4 * size,
        provides: Vec::new(),
        files: Vec::new(),
        multi_arch: MultiArch::No,
        module: None,
        essential: false,
        priority: 3,
        relations: Deferred::Ready(Box::default()),
    }
}

const VERSION: &str = "1.0-1";

/// A package whose version decides how it is configured has one that is good.
fn version(package: &str) -> &'static str {
    if package == isulad::PACKAGE { "2.1.6-1" } else { VERSION }
}

fn package_names(need: &PackageNeed) -> BTreeSet<&str> {
    need.roots.iter().flat_map(|root| root.packages.iter().chain(&root.replaces)).map(String::as_str).collect()
}

fn package_blob(need: &PackageNeed, name: &str) -> Digest {
    Digest::of(format!("package/{}/{name}/{}", need.os, need.platform))
}

fn package_file(need: &PackageNeed, name: &str) -> String {
    let arch = need.family.arch(need.platform.arch);
    match need.family {
        Family::Deb => format!("{name}_{}_{arch}.deb", version(name)),
        Family::Rpm => format!("{name}-{}.{arch}.rpm", version(name)),
    }
}

fn package_artifacts(need: &PackageNeed) -> impl Iterator<Item = Artifact> {
    package_names(need).into_iter().map(|name| {
        let blob = Blob { digest: package_blob(need, name), size: 1 << 20 };
        Artifact {
            key: ArtifactKey::Package { os: need.os.clone(), name: name.to_owned() },
            version: version(name).to_owned(),
            platform: Some(need.platform),
            name: package_file(need, name),
            digest: blob.digest,
            manifest: None,
            blobs: vec![blob],
            trust: Trust::Gpg,
            sources: None,
        }
    })
}
