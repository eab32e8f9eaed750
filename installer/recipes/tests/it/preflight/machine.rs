//! What the machine is: system, size, disks, kernel.

use super::*;

#[test]
fn an_unknown_system_is_refused_and_an_untried_one_is_a_warning() {
    fails(|f| f.os_id = "arch".to_owned(), "os", "arch 12");
    fails(|f| f.os_version = "9".to_owned(), "os", "debian 9");
    passes(|f| f.os_version = "13".to_owned());
    warns(
        |f| {
            f.os_id = "ubuntu".to_owned();
            f.os_version = "22.04".to_owned();
        },
        "os",
        "ubuntu-22.04",
    );
}

#[test]
fn too_few_cpus_and_too_little_memory_are_refused() {
    fails(|f| f.cpus = 1, "hardware", "1 CPU");
    passes(|f| f.cpus = 2);
    fails(|f| f.memory = 3 * GIB, "hardware", "3.0 GiB");
    passes(|f| f.memory = 7 * GIB / 2);
}

#[test]
fn a_worker_may_have_less_memory_than_a_control_plane() {
    let small = |memory| {
        findings(|site| {
            site.cluster.role_groups.control_plane.clear();
            site.facts().memory = memory;
        })
    };
    assert_eq!(small(2 * GIB), Vec::new());
    one(small(GIB), Severity::Fail, "hardware", "1.7 GiB");
}

#[test]
fn a_disk_that_is_too_small_for_the_bundle_is_refused_by_mount_point() {
    fails(|f| f.disks[0].free = 2 * GIB, "space", "2.0 GiB free on /");
    fails(
        |f| {
            let mut etcd = f.disks[0].clone();
            etcd.mount = "/var/lib/etcd".to_owned();
            etcd.free = GIB;
            f.disks.push(etcd);
        },
        "space",
        "/var/lib/etcd",
    );
    one(
        after(|f| {
            stamped(f);
            f.disks[0].free = 2 * GIB;
        }),
        Severity::Warn,
        "space",
        "2.0 GiB",
    );
}

#[test]
fn an_xfs_that_overlayfs_refuses_is_refused() {
    fails(|f| f.disks[0].filesystem = Some("xfs ftype=0".to_owned()), "space", "ftype=0");
    passes(|f| f.disks[0].filesystem = Some("xfs".to_owned()));
}

#[test]
fn what_the_bundle_holds_counts_as_needed_space() {
    let needed = |size| {
        let found = findings(|site| {
            site.facts().disks[0].free = 0;
            for artifact in &mut site.manifest.artifacts {
                artifact.blobs.iter_mut().for_each(|blob| blob.size = size);
            }
        });
        found[0].needed.clone()
    };
    assert_ne!(needed(1 << 20), needed(1 << 30));
}

#[test]
fn a_registrys_own_disk_needs_room_for_every_image() {
    let full = |path: &str| {
        let mut cluster = sample::cluster();
        cluster.registry = Registry { data_dir: path.to_owned(), ..Registry::of(RegistryKind::Registry) };
        let mut site = Site::of(cluster);
        let mut data = site.facts().disks[0].clone();
        (data.mount, data.paths, data.free) = ("/data".to_owned(), Vec::new(), 1 << 20);
        site.facts().disks.push(data);
        preflight(&site.cx())
    };
    one(full("/data/registry"), Severity::Fail, "space", "free on /data");
    // On the store's own disk it is there already.
    assert_eq!(full("/srv/registry"), Vec::new());
}

#[test]
fn without_a_registry_a_worker_needs_room_for_images_in_its_store_and_in_containerd() {
    let store_of = |kind: RegistryKind| {
        let found = findings(|site| {
            second_host(site);
            site.cluster.registry.kind = kind;
            let worker = site.facts.get_mut("node2").unwrap();
            let mut store = worker.disks[0].clone();
            (store.mount, store.free) = ("/var/lib/kubexm".to_owned(), 0);
            worker.disks.push(store);
            for artifact in &mut site.manifest.artifacts {
                artifact.blobs.iter_mut().for_each(|blob| blob.size = 64 << 20);
            }
        });
        found.into_iter().find(|finding| finding.check == "space").unwrap().needed
    };
    assert_ne!(store_of(RegistryKind::None), store_of(RegistryKind::Embedded));
}

#[test]
fn an_old_kernel_is_refused_or_a_warning_by_minor() {
    fails(|f| f.kernel = "2.6.32-754.el6".to_owned(), "kernel", "2.6.32");
    warns(|f| f.kernel = "4.18.0-553.el8_10.x86_64".to_owned(), "kernel", "4.18.0");
    one(
        findings(|site| {
            *site = of_kubernetes("v1.33.13");
            site.facts().kernel = "4.18.0-553.el8_10.x86_64".to_owned();
        }),
        Severity::Fail,
        "kernel",
        "4.19 or newer for Kubernetes v1.33.13",
    );
}

fn of_kubernetes(version: &str) -> Site {
    let mut cluster = sample::cluster();
    cluster.kubernetes.as_mut().unwrap().version = Some(version.to_owned());
    Site::of(cluster)
}

#[test]
fn nftables_wants_a_newer_kernel() {
    let found = findings(|site| {
        site.cluster.kubernetes.as_mut().unwrap().proxy_mode = ProxyMode::Nftables;
        site.facts().kernel = "5.10.0-30-amd64".to_owned();
    });
    one(found, Severity::Fail, "kernel", "nftables");
}

#[test]
fn cgroup_v1_is_a_warning_and_from_1_35_refused_unless_the_user_allows_it() {
    warns(|f| f.cgroup_version = 1, "kernel", "cgroup v1");
    let v1 = |wanted: bool| {
        findings(|site| {
            *site = of_kubernetes("v1.35.4");
            site.facts().cgroup_version = 1;
            if wanted {
                let kubelet = &mut site.cluster.kubernetes.as_mut().unwrap().kubelet;
                kubelet.insert("failCgroupV1".to_owned(), false.into());
            }
        })
    };
    one(v1(false), Severity::Fail, "kernel", "failCgroupV1");
    one(v1(true), Severity::Warn, "kernel", "cgroup v1");
}

#[test]
fn a_network_of_programs_in_the_kernel_wants_bpf_and_cgroup_v2() {
    let without = |name: &str, plugin: NetworkPlugin| {
        findings(|site| {
            let mut cluster = sample::cluster();
            cluster.network.plugin = plugin;
            *site = Site::of(cluster);
            assert!(site.facts().filesystems.remove(name), "{name}");
        })
    };
    one(without("bpf", NetworkPlugin::Cilium), Severity::Fail, "kernel", "no bpf in /proc/filesystems");
    one(without("cgroup2", NetworkPlugin::Cilium), Severity::Fail, "kernel", "no cgroup2 in /proc/filesystems");
    for name in ["bpf", "cgroup2"] {
        assert_eq!(without(name, NetworkPlugin::Flannel), Vec::new());
    }
}

#[test]
fn a_missing_module_is_refused_and_a_loadable_one_is_not() {
    fails(
        |f| {
            let _ = f.modules.insert("br_netfilter".to_owned(), ModuleState::Missing);
        },
        "kernel",
        "br_netfilter",
    );
    fails(
        |f| {
            let _ = f.modules.remove("overlay");
        },
        "kernel",
        "overlay",
    );
    passes(|f| {
        let _ = f.modules.insert("overlay".to_owned(), ModuleState::Loadable);
    });
}

#[test]
fn large_pages_are_a_warning() {
    warns(|f| f.page_size = 65_536, "kernel", "65536");
}

#[test]
fn a_program_that_was_linked_against_a_newer_glibc_is_refused_before_it_is_put_there() {
    let linked = |site: &mut Site, libc: &str| {
        let containerd = site.catalogue.components.get_mut("containerd").unwrap();
        containerd.libc = Some(serde_json::from_value(libc.into()).unwrap());
    };
    let old = findings(|site| {
        linked(site, "2.34");
        site.facts().glibc = Some("2.31".to_owned());
    });
    one(old, Severity::Fail, "glibc", "glibc 2.31; needed glibc 2.34 or newer for containerd");
    assert_eq!(findings(|site| linked(site, "2.34")), Vec::new());
    // what is static runs anywhere, and of musl nothing is known
    passes(|f| f.glibc = Some("2.17".to_owned()));
    passes(|f| f.glibc = None);
}

#[test]
fn a_kernel_older_than_upstream_requires_for_a_feature_is_a_warning() {
    let old = findings(|site| {
        let all = kubexm_manifests::Catalogue::embedded();
        let mut cilium = all.features["cilium"].clone();
        cilium.versions.retain(|version, _| version == "1.18.5");
        site.catalogue.features.insert("cilium".to_owned(), cilium);
        site.facts().kernel = "5.4.0-200-generic".to_owned();
    });
    one(old, Severity::Warn, "kernel", "5.10 or newer for cilium 1.18.5");
}
