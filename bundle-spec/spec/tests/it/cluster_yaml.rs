//! cluster.yaml as users write it: what is read, what is refused, and how it is said.

#![expect(clippy::expect_used, reason = "a helper of tests may fail the test")]

use std::net::IpAddr;

use kubexm_spec::cluster::{
    ExtraFile, Keyword, LoadBalancer, LoadBalancerMode, ProblemKind, Problems, Profile, Registry, RegistryKind,
    for_version, parse, sample,
};
use kubexm_spec::unsupported::check;
use kubexm_spec::{ExitCode, Platform};
use proptest::prelude::*;

pub(super) fn file(spec: &str) -> String {
    format!("apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: test}}\nspec:\n{spec}")
}

pub(super) fn kinds(problems: &Problems) -> Vec<(usize, ProblemKind)> {
    problems.0.iter().map(|p| (p.line, p.kind)).collect()
}

#[track_caller]
pub(super) fn refused(spec: &str) -> Problems {
    parse(&file(spec)).expect_err("this must be refused")
}

#[test]
fn the_sample_of_init_is_a_cluster() {
    let cluster = parse(sample()).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(cluster.hosts.len(), 1);
    assert_eq!(cluster.role_groups.control_plane, cluster.role_groups.worker);
}

#[test]
fn each_profile_is_what_it_says() {
    let read = |profile: Profile| parse(profile.text()).unwrap_or_else(|problems| panic!("{profile}\n{problems}"));
    let minimal = read(Profile::Minimal);
    assert_eq!((minimal.hosts.len(), check(&minimal)), (1, vec![]));
    let ha = read(Profile::Ha);
    assert_eq!((ha.role_groups.control_plane.len(), ha.role_groups.worker.len()), (3, 3));
    assert!(ha.load_balancer.mode.vip().is_some_and(|vip| ha.hosts.iter().all(|host| host.node_ip() != Some(vip))));
    assert_eq!(check(&ha), []);
    let harbor = read(Profile::Harbor);
    assert_eq!(
        (harbor.registry.kind, harbor.registry_hosts().first().map(|host| host.name.as_str())),
        (RegistryKind::Harbor, Some("harbor"))
    );
    assert_eq!(check(&harbor), []);
    let cn = read(Profile::Cn);
    assert_eq!((cn.bundle.zone.as_deref(), check(&cn)), (Some("cn"), vec![]));
    for profile in Profile::ALL {
        assert!(profile.text().starts_with('#') && profile.text().lines().count() > 20, "{profile} has comments");
    }
}

#[test]
fn the_sample_shows_the_defaults_it_comments_out() {
    // every `# key: value` line that shows a default must be readable where it is
    let text = sample()
        .replace("# - ", "- ")
        .replace("    # proxyMode", "    proxyMode")
        .replace("    # maxPods", "    maxPods");
    let text = text
        .replace("  # etcd:", "  etcd:")
        .replace("  # runtime:", "  runtime:")
        .replace("  # loadBalancer:", "  loadBalancer:")
        .replace("  # registry:", "  registry:");
    let text = text.replace("    # podCidr", "    podCidr").replace("    # serviceCidr", "    serviceCidr");
    let text = text.replace("  # system:", "  system:");
    let shown = parse(&text).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(shown, parse(sample()).unwrap());
}

#[test]
fn ten_problems_are_all_reported_at_once_with_their_places() {
    let text = "\
apiVersion: kubexm.io/v1
kind: Cluster
metadata: {name: My_Cluster}
spec:
  hosts:
  - {name: node1, address: 10.0.0.1, password: hunter2}
  - {name: node1, address: 10.0.0.2, prot: 22}
  - {name: node3, address: 10.0.0.300, port: 70000}
  roleGroups: {master: [node1], worker: [nod3]}
  kubernetes: {versoin: v1.34.4, maxPods: many, proxyMode: ipvs}
  etcd: {type: kubexm}
  network: {plugin: calicoo, podCidr: 10.233.0.1/18}
  addons: []
  bundle: {extraFiles: [{url: \"ftp://x\"}]}
";
    let problems = parse(text).unwrap_err();
    insta::assert_snapshot!(problems.to_string());
    assert_eq!(problems.exit_code(), ExitCode::InlineSecret);
}

#[test]
fn a_minimal_file_gets_the_defaults_of_the_format() {
    let cluster = parse(&file("  hosts: [{name: n1, address: 10.0.0.1}]\n  roleGroups: {master: [n1]}\n")).unwrap();
    insta::assert_json_snapshot!(cluster);
}

#[test]
fn a_file_with_nothing_but_bundle_asks_for_no_cluster() {
    let sum = "0".repeat(64);
    let cluster =
        parse(&file(&format!("  bundle: {{extraFiles: [{{url: \"https://x/y\", sha256: {sum}}}]}}\n"))).unwrap();
    assert!(cluster.kubernetes.is_none());
    assert!(matches!(cluster.bundle.extra_files.as_slice(), [ExtraFile::Url { .. }]));
    let with_more = parse(&file("  bundle: {platforms: [linux/arm64]}\n  network: {}\n")).unwrap();
    assert!(with_more.kubernetes.is_some());
    assert_eq!(with_more.bundle.platforms, [Platform::LINUX_ARM64]);
}

#[test]
fn a_version_keeps_its_digits_however_it_is_written() {
    for (written, read) in [("v1.34.4", "v1.34.4"), ("1.34.4", "v1.34.4"), ("v1.30", "v1.30"), ("1.30", "v1.30")] {
        let cluster = parse(&file(&format!("  kubernetes: {{version: {written}}}\n"))).unwrap();
        assert_eq!(cluster.kubernetes.unwrap().version.as_deref(), Some(read));
    }
    for bad in ["v1", "latest", "v1.34.4.5", "v1.34-rc.1", "v1..4", "\"../../etc\""] {
        let problems = refused(&format!("  kubernetes: {{version: {bad}}}\n"));
        assert_eq!(kinds(&problems), [(5, ProblemKind::BadValue)], "{bad}");
    }
}

/// Each is one thing that the format has and no recipe installs, at the path that is named.
const NOT_BUILT: &[(&str, &str)] = &[
    ("  kubernetes: {type: kubexm}\n  etcd: {type: kubexm}\n", "spec.kubernetes.type"),
    (
        "  kubernetes: {nodelocaldns: {address: \"fd00::53\"}, proxyMode: ipvs}\n  network: {plugin: calico}\n",
        "spec.kubernetes.nodelocaldns.address spec.kubernetes.nodelocaldns spec.kubernetes.nodelocaldns",
    ),
    ("  kubernetes: {nodelocaldns: {}}\n  runtime: {type: docker}\n", "spec.kubernetes.nodelocaldns"),
    (
        "  etcd: {type: external, externalConfig: {endpoints: [\"http://10.0.0.5:2379\"]}}\n",
        "spec.etcd.externalConfig.endpoints",
    ),
    (
        "  kubernetes: {apiServerArgs: {etcd-prefix: /x}}\n  etcd: {type: external, externalConfig: {endpoints: [\"https://10.0.0.5:2379\"], caFile: a, certFile: b, keyFrom: {env: K}}}\n",
        "spec.kubernetes.apiServerArgs.etcd-prefix",
    ),
    ("  runtime: {type: isulad}\n", "spec.bundle.os"),
    (
        "  runtime: {type: isulad, version: 2.1.6, dataDir: /data/images, extraConfig: {debug: true}}\n  bundle: {os: [openeuler-22.03]}\n",
        "spec.runtime.version spec.runtime.dataDir spec.runtime.extraConfig",
    ),
    (
        "  runtime: {type: isulad}\n  bundle: {os: [openeuler-22.03]}\n  system: {osPackages: none}\n  registry: {type: registry}\n",
        "spec.system.osPackages spec.registry.type",
    ),
    (
        "  runtime: {type: isulad}\n  bundle: {os: [openeuler-22.03]}\n  network: {plugin: calico, multus: true}\n",
        "spec.network.plugin spec.network.multus",
    ),
    ("  runtime: {type: docker}\n  registry: {type: harbor}\n", "spec.registry.type"),
    ("  runtime: {type: docker}\n  registry: {type: registry}\n", "spec.registry.type"),
    (
        "  runtime: {type: docker, dataDir: /data/images, extraConfig: {debug: true}}\n",
        "spec.runtime.dataDir spec.runtime.extraConfig",
    ),
    (
        "  runtime: {type: docker}\n  network: {plugin: calico, multus: true}\n",
        "spec.network.plugin spec.network.multus",
    ),
    ("  runtime: {type: cri-o}\n  registry: {type: none}\n", "spec.registry.type"),
    ("  runtime: {type: cri-o}\n  registry: {type: harbor}\n", "spec.registry.type"),
    (
        "  runtime: {type: cri-o, dataDir: /data/images, extraConfig: {crio: {}}}\n",
        "spec.runtime.dataDir spec.runtime.extraConfig",
    ),
    (
        "  runtime: {type: cri-o}\n  network: {plugin: calico, multus: true}\n",
        "spec.network.plugin spec.network.multus",
    ),
    (
        "  hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}]\n  roleGroups: {master: [a, b]}\n  network: {plugin: kube-ovn, multus: true}\n",
        "spec.roleGroups.controlPlane spec.network.multus",
    ),
    ("  kubernetes: {proxyMode: nftables}\n  network: {plugin: kube-ovn}\n", "spec.kubernetes.proxyMode"),
    ("  network: {plugin: hybridnet, podCidr: 10.128.0.0/15}\n", "spec.network.podCidr"),
    (
        "  hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}]\n  roleGroups: {master: [a], worker: [b]}\n  \
         network: {plugin: hybridnet, options: {manager: {replicas: 2}, typha: {replicas: 2}}}\n",
        "spec.network.options.manager.replicas",
    ),
    (
        "  network: {plugin: hybridnet, podCidr: [10.1.0.0/16, \"fd00::/48\"], serviceCidr: [10.2.0.0/16, \"fd01::/112\"]}\n",
        "spec.network.podCidr",
    ),
    ("  runtime: {type: cri-o}\n  network: {plugin: kube-ovn}\n", "spec.network.plugin"),
    ("  network: {podCidr: [10.1.0.0/16, \"fd00::/48\"]}\n", "spec.network.podCidr"),
    ("  loadBalancer: {mode: internal, internal: {type: haproxy}, port: 8443}\n", "spec.loadBalancer.port"),
    ("  loadBalancer: {mode: internal, internal: {type: kube-vip}, vip: \"fd00::9\"}\n", "spec.loadBalancer.vip"),
    (
        "  loadBalancer: {mode: internal, internal: {type: kube-vip}, vip: 10.0.0.9, port: 8443}\n",
        "spec.loadBalancer.port",
    ),
    ("  loadBalancer: {mode: external, vip: \"fd00::9\"}\n", "spec.loadBalancer.vip"),
    (
        "  hosts: [{name: a, address: 10.0.0.1}]\n  roleGroups: {master: [a], worker: [a], registry: [a]}\n  registry: {type: harbor}\n",
        "spec.roleGroups.registry",
    ),
    ("  registry: {privateRegistry: registry.example.com}\n", "spec.registry.privateRegistry"),
    ("  storage: {nfs: {server: \"fd00::9\", path: /srv}}\n", "spec.storage.nfs.server"),
    ("  hosts: [{name: a, address: \"::1\"}]\n  roleGroups: {master: [a]}\n", "spec.hosts[0].address"),
    ("  system: {osPackages: full}\n", "spec.system.osPackages"),
    ("  system: {debs: [vim], rpms: [vim]}\n", "spec.system.rpms spec.system.debs"),
];

#[test]
fn unsupported_settings_are_read_and_distinguished_from_mistakes() {
    for (spec, paths) in NOT_BUILT {
        let cluster = parse(&file(spec)).unwrap_or_else(|problems| panic!("{spec}{problems}"));
        let found: Vec<String> = check(&cluster).into_iter().map(|unsupported| unsupported.path).collect();
        assert_eq!(found.join(" "), *paths, "{spec}");
    }
    for built in [
        sample(),
        &file("  registry: {type: registry}\n  system: {osPackages: none}\n"),
        &file("  runtime: {type: cri-o}\n"),
        &file("  runtime: {type: isulad}\n  bundle: {os: [openeuler-22.03]}\n"),
        &file(
            "  network: {plugin: kube-ovn, options: {networking: {TUNNEL_TYPE: vxlan}, ipv4: {JOIN_CIDR: 100.80.0.0/16}}}\n",
        ),
        &file("  network: {plugin: hybridnet, options: {daemon: {enableFelixPolicy: false}}}\n"),
        &file("  bundle: {os: [debian-12]}\n  system: {osPackages: full, debs: [vim]}\n"),
        &file("  network: {plugin: cilium, version: 1.20.0, options: {l7Proxy: false, MTU: 1400}}\n"),
    ] {
        assert_eq!(check(&parse(built).unwrap()), [], "{built}");
    }
}

#[test]
fn an_address_before_the_control_planes_is_read_and_half_a_one_is_refused() {
    let read = |load_balancer: &str| {
        parse(&file(&format!("  loadBalancer: {load_balancer}\n"))).unwrap_or_else(|p| panic!("{p}")).load_balancer
    };
    let at = |port| LoadBalancerMode::at(IpAddr::from([10, 0, 0, 9]), port);
    assert_eq!(read("{mode: none}"), LoadBalancer::default());
    assert_eq!(read("{domain: api.example.com}").domain.as_deref(), Some("api.example.com"));
    assert_eq!(read("{mode: external, vip: 10.0.0.9}").mode, at(6443));
    let whole =
        read("{mode: external, external: {type: external}, vip: 10.0.0.9, port: 8443, domain: api.example.com}");
    assert_eq!(whole, LoadBalancer { mode: at(8443), domain: Some("api.example.com".into()) });
    for bad in [
        "{mode: external}",
        "{mode: external, vip: lb.example.com}",
        "{mode: external, vip: 10.0.0.9, port: 0}",
        "{mode: external, vip: 10.0.0.9, external: external}",
        "{mode: externl, vip: 10.0.0.9}",
        "{vip: 10.0.0.9}",
        "{mode: none, port: 6443}",
        "{mode: none, domain: \"*.example.com\"}",
    ] {
        let problems = refused(&format!("  loadBalancer: {bad}\n"));
        assert_eq!(problems.exit_code(), ExitCode::Config, "{bad} {problems}");
        assert_eq!((problems.0.len(), problems.0[0].line), (1, 5), "{bad} {problems}");
    }
}

#[test]
fn a_registry_has_the_port_and_folder_of_its_type_and_no_others() {
    let read =
        |registry: &str| parse(&file(&format!("  registry: {registry}\n"))).unwrap_or_else(|p| panic!("{p}")).registry;
    let of = |kind, port, data_dir: &str| Registry { port, data_dir: data_dir.to_owned(), ..Registry::of(kind) };
    assert_eq!(read("{port: 6000}"), of(RegistryKind::Embedded, 6000, "/mnt/registry"));
    assert_eq!(read("{type: registry}"), of(RegistryKind::Registry, 5000, "/mnt/registry"));
    assert_eq!(read("{type: registry, port: 443, dataDir: /srv/r/}"), of(RegistryKind::Registry, 443, "/srv/r"));
    assert_eq!(read("{type: none}"), of(RegistryKind::None, 5443, "/mnt/registry"));
    // The registry of a cluster from before hosts served each other there.
    assert_eq!(read("{type: registry, port: 5444}"), of(RegistryKind::Registry, 5444, "/mnt/registry"));
    for bad in [
        "{type: registry, port: 5443}",
        "{type: registry, dataDir: mnt/registry}",
        "{type: registry, dataDir: /}",
        "{type: registry, dataDir: /srv/../etc}",
        "{type: registry, dataDir: \"/srv/a: b\"}",
        "{type: registry, port: 70000}",
        "{type: embedded, dataDir: /srv/r}",
        "{type: none, port: 5000}",
        "{type: regystry}",
    ] {
        let problems = refused(&format!("  registry: {bad}\n"));
        assert_eq!(problems.exit_code(), ExitCode::Config, "{bad} {problems}");
        assert_eq!((problems.0.len(), problems.0[0].line), (1, 5), "{bad} {problems}");
    }
}

#[test]
fn a_version_of_the_runtime_is_whole_and_without_its_letter() {
    for (written, read) in [("1.7.32", "1.7.32"), ("v2.2.1", "2.2.1")] {
        let cluster = parse(&file(&format!("  runtime: {{type: containerd, version: {written}}}\n"))).unwrap();
        assert_eq!(cluster.runtime.version.as_deref(), Some(read));
    }
    for bad in ["\"1.7\"", "1.7.x", "latest"] {
        let problems = refused(&format!("  runtime: {{version: {bad}}}\n"));
        assert_eq!(kinds(&problems), [(5, ProblemKind::BadValue)], "{bad}");
    }
}

#[test]
fn an_unknown_key_names_the_nearest_one() {
    let problems = refused("  registri: {}\n");
    assert_eq!(problems.0[0].kind, ProblemKind::UnknownKey);
    assert!(problems.0[0].hint.contains("registry"), "{problems}");
    assert_eq!((problems.0[0].line, problems.0[0].column), (5, 3));
    assert_eq!(problems.exit_code(), ExitCode::Config);
}

#[test]
fn roles_name_hosts_that_exist_and_ranges_are_written_out() {
    let hosts = "  hosts:\n  - {name: n1, address: 10.0.0.1}\n  - {name: n2, address: 10.0.0.2}\n  - {name: n3, address: 10.0.0.3}\n";
    let cluster =
        parse(&file(&format!("{hosts}  roleGroups:\n    master: [n1]\n    worker:\n    - n[2:3]\n"))).unwrap();
    assert_eq!(cluster.role_groups.worker, ["n2", "n3"]);
    assert_eq!(cluster.role_groups.etcd, ["n1"]);
    assert_eq!(cluster.role_groups.registry, ["n1"]);
    let alias = parse(&file(&format!("{hosts}  roleGroups: {{control-plane: [n1], worker: [n2, n3]}}\n"))).unwrap();
    assert_eq!(alias.role_groups.control_plane, ["n1"]);
    for roles in [
        "{master: [n1], worker: [n2, \"n[3:4]\"]}",
        "{master: [n1], worker: [n2]}",
        "{worker: [n1, n2, n3]}",
        "{master: [n1, n1], worker: [n2, n3]}",
        "{master: [n1], worker: [\"n[3:1]\", n2, n3]}",
        "{master: [n1], worker: [\"n[0:4000000000]\", n2, n3]}",
        "{master: [n1], etcd: [n2], worker: [n2, n3]}",
        "{master: [n1], control-plane: [n1], worker: [n2, n3]}",
    ] {
        let problems = refused(&format!("{hosts}  roleGroups: {roles}\n"));
        assert_eq!(problems.exit_code(), ExitCode::Config, "{roles}");
    }
    assert_eq!(refused(hosts).0[0].kind, ProblemKind::Missing);
}

#[test]
fn networks_that_collide_are_refused() {
    for spec in [
        "  network: {podCidr: 10.233.0.0/16}\n",
        "  network: {podCidr: 10.0.0.1/16}\n",
        "  network: {podCidr: 10.0.0.0/30}\n",
        "  network: {podCidr: 10.0.0.0/33}\n",
        "  network: {podCidr: 10.0.0.0/16, serviceCidr: 10.0.1.0/24}\n",
        "  hosts: [{name: a, address: 10.233.64.7}]\n  roleGroups: {master: [a]}\n",
    ] {
        assert_eq!(refused(spec).exit_code(), ExitCode::Config, "{spec}");
    }
}

#[test]
fn yaml_that_hides_things_is_refused_and_merge_keys_work() {
    let twice = parse("apiVersion: a\nkind: b\nkind: c\n").unwrap_err();
    assert_eq!(kinds(&twice), [(3, ProblemKind::Syntax)]);
    for bad in [
        "",
        "# only a comment\n",
        "a: [1\n",
        "a: *nowhere\n",
        "a: 1\n---\nb: 2\n",
        "- 1\n",
        "a: !!binary x\n",
        "? [a]\n: b\n",
    ] {
        assert!(parse(bad).is_err(), "{bad:?}");
    }
    let merged = "  hosts:\n  - &h {name: n1, address: 10.0.0.1, user: operator}\n  - {<<: *h, name: n2, address: 10.0.0.2}\n  roleGroups: {master: [n1], worker: [n2]}\n";
    let cluster = parse(&file(merged)).unwrap();
    assert_eq!(cluster.hosts[1].user, "operator");
    assert_eq!(cluster.hosts[1].name, "n2");
}

#[test]
fn aliases_that_grow_without_bound_are_stopped() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let last = level - 1;
        text.push_str(&format!(
            "a{level}: &a{level} [*a{last}, *a{last}, *a{last}, *a{last}, *a{last}, *a{last}, *a{last}]\n"
        ));
    }
    assert!(parse(&text).unwrap_err().to_string().contains("more than"));
    assert!(parse(&"[".repeat(100_000)).is_err());
    assert!(parse(&"a:\n".repeat(3)).is_err());
}

#[test]
fn short_image_names_become_full_ones() {
    let cluster = parse(&file("  bundle:\n    extraImages:\n    - name: busybox:1\n    - name: quay.io/a/b:v1\n    - {name: \"localhost:5000/x:1\", from: \"oci:/tmp/x\"}\n")).unwrap();
    let names: Vec<_> = cluster.bundle.extra_images.iter().map(|image| image.name.as_str()).collect();
    assert_eq!(names, ["docker.io/library/busybox:1", "quay.io/a/b:v1", "localhost:5000/x:1"]);
    for bad in ["busybox", "quay.io/A/b:1", "x@sha256:12", "a//b:1", ":1"] {
        let problems = refused(&format!("  bundle: {{extraImages: [{{name: \"{bad}\"}}]}}\n"));
        assert_eq!(kinds(&problems), [(5, ProblemKind::BadValue)], "{bad}");
    }
}

#[test]
fn raw_component_settings_keep_their_types() {
    let spec = "  kubernetes:\n    kubelet: {failCgroupV1: false, maxParallelImagePulls: 3, evictionHard: {nodefs.available: 1Gi}, x: \"1\", y: 1.5, z: ~}\n";
    let kubelet = parse(&file(spec)).unwrap().kubernetes.unwrap().kubelet;
    let wanted = serde_json::json!({"failCgroupV1": false, "maxParallelImagePulls": 3, "evictionHard": {"nodefs.available": "1Gi"}, "x": "1", "y": 1.5, "z": null});
    assert_eq!(serde_json::Value::Object(kubelet), wanted);
}

#[test]
fn a_bundle_without_a_file_has_every_default() {
    let cluster = for_version(Some("1.34.4"));
    assert_eq!(cluster.kubernetes.as_ref().unwrap().version.as_deref(), Some("v1.34.4"));
    let same = parse(&file("  kubernetes: {version: v1.34.4}\n").replace("name: test", "name: kubernetes")).unwrap();
    assert_eq!(cluster, same);
}

proptest! {
    #[test]
    fn no_text_panics_the_reader(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_yaml_like_text_panics_the_reader(text in "[-a-z0-9:{}\\[\\],&*<!|>'\"#%@\\\\ \n\t./~?]{0,300}") {
        let _ = parse(&text);
        let _ = parse(&file(&text));
    }

    #[test]
    fn no_damage_to_the_sample_panics_the_reader(at in 0usize..2000, cut in 0usize..60, put in "\\PC{0,8}") {
        let sample: Vec<char> = sample().chars().collect();
        let at = at.min(sample.len());
        let end = (at + cut).min(sample.len());
        let text: String = sample[..at].iter().copied().chain(put.chars()).chain(sample[end..].iter().copied()).collect();
        if let Err(problems) = parse(&text) {
            prop_assert!(!problems.0.is_empty());
        }
    }
}
