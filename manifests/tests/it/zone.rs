//! Zones: which addresses are tried, in which order.

use kubexm_manifests::Zone;
use proptest::prelude::*;

fn urls(zone: &Zone, url: &str) -> Vec<String> {
    zone.files(url).into_iter().map(|candidate| candidate.url).collect()
}

fn references(zone: &Zone, reference: &str) -> Vec<String> {
    zone.images(reference).into_iter().map(|candidate| candidate.reference).collect()
}

#[test]
fn the_global_zone_is_the_origin_alone() {
    let zone = Zone::builtin("global").unwrap();
    assert_eq!(urls(&zone, "https://dl.k8s.io/x"), ["https://dl.k8s.io/x"]);
    assert_eq!(references(&zone, "registry.k8s.io/pause:3.10"), ["registry.k8s.io/pause:3.10"]);
    assert!(!zone.images("registry.k8s.io/pause:3.10")[0].mirror);
    // but for the registry that upstream has closed
    assert_eq!(references(&zone, "k8s.gcr.io/pause:3.7"), ["registry.k8s.io/pause:3.7", "k8s.gcr.io/pause:3.7"]);
    assert!(Zone::builtin("mars").is_none());
}

#[test]
fn the_chinese_zone_tries_mirrors_and_then_the_origin() {
    let zone = Zone::builtin("cn").unwrap();
    assert_eq!(
        urls(&zone, "https://github.com/opencontainers/runc/releases/download/v1.3.5/runc.amd64"),
        [
            "https://files.m.daocloud.io/github.com/opencontainers/runc/releases/download/v1.3.5/runc.amd64",
            "https://github.com/opencontainers/runc/releases/download/v1.3.5/runc.amd64"
        ]
    );
    assert_eq!(
        urls(&zone, "https://dl.rockylinux.org/pub/rocky/9/BaseOS/x86_64/os/repodata/repomd.xml"),
        [
            "https://mirrors.aliyun.com/rockylinux/9/BaseOS/x86_64/os/repodata/repomd.xml",
            "https://dl.rockylinux.org/pub/rocky/9/BaseOS/x86_64/os/repodata/repomd.xml"
        ]
    );
    assert_eq!(
        urls(&zone, "https://deb.debian.org/debian-security/dists/bookworm-security/InRelease")[0],
        "https://mirrors.aliyun.com/debian-security/dists/bookworm-security/InRelease"
    );
    // aliyun's flat paths come from the rule of the folder
    let coredns = references(&zone, "registry.k8s.io/coredns/coredns:v1.12.1");
    assert_eq!(coredns[0], "registry.aliyuncs.com/google_containers/coredns:v1.12.1");
    assert_eq!(coredns.last().unwrap(), "registry.k8s.io/coredns/coredns:v1.12.1");
}

#[test]
fn every_origin_of_the_catalogue_has_its_mirror_in_the_chinese_zone_and_stays_the_last_resort() {
    let zone = Zone::builtin("cn").unwrap();
    let catalogue = kubexm_manifests::Catalogue::embedded();
    for component in catalogue.components.values() {
        let Some(version) = component.versions.keys().next() else { continue };
        for arch in [kubexm_spec::Arch::Amd64, kubexm_spec::Arch::Arm64] {
            let url = component.url(version, arch);
            let (_, address) = url.split_once("://").unwrap();
            // The one prefix rule; docker's own files have a mirror with a path of its own.
            let mirror = match address.strip_prefix("download.docker.com/") {
                Some(path) => format!("https://mirrors.aliyun.com/docker-ce/{path}"),
                None => format!("https://files.m.daocloud.io/{address}"),
            };
            assert_eq!(urls(&zone, &url), [mirror, url.clone()], "{}", component.name);
        }
    }
}

#[test]
fn images_of_the_chinese_zone_are_asked_of_flat_mirrors_by_their_last_name_and_of_nobody_twice() {
    let zone = Zone::builtin("cn").unwrap();
    for (reference, candidates) in [
        (
            "registry.k8s.io/pause:3.10",
            vec!["registry.aliyuncs.com/google_containers/pause:3.10", "k8s.m.daocloud.io/pause:3.10"],
        ),
        (
            "registry.k8s.io/coredns/coredns:v1.12.1",
            vec![
                "registry.aliyuncs.com/google_containers/coredns:v1.12.1",
                "k8s.m.daocloud.io/coredns/coredns:v1.12.1",
                "registry.aliyuncs.com/google_containers/coredns/coredns:v1.12.1",
            ],
        ),
        ("docker.io/calico/cni:v3.30.3", vec!["docker.m.daocloud.io/calico/cni:v3.30.3"]),
        ("quay.io/cilium/cilium:v1.18.2", vec!["quay.m.daocloud.io/cilium/cilium:v1.18.2"]),
        ("ghcr.io/flannel-io/flannel:v0.28.4", vec!["ghcr.m.daocloud.io/flannel-io/flannel:v0.28.4"]),
    ] {
        let mut expected = candidates;
        expected.push(reference);
        assert_eq!(references(&zone, reference), expected);
    }
}

#[test]
fn a_rule_with_only_has_no_fallback_to_the_origin() {
    let zone = Zone::parse(
        "name: lab\nrules:\n- {match: get.helm.sh, to: [\"http://127.0.0.1:8080/get.helm.sh\"], only: true}\n- {match: ghcr.io, to: [127.0.0.1:5000/ghcr.io], only: true, plainHttp: true}\n- {match: quay.io, to: [mirror.example/quay], caFile: /ca.pem}\n",
    )
    .unwrap();
    let files = zone.files("https://get.helm.sh/helm.tgz");
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].url, "http://127.0.0.1:8080/get.helm.sh/helm.tgz");
    assert!(files[0].plain_http && files[0].mirror);
    let images = zone.images("ghcr.io/flannel-io/flannel:v0.28.4");
    assert_eq!(images.len(), 1);
    assert_eq!(images[0].reference, "127.0.0.1:5000/ghcr.io/flannel-io/flannel:v0.28.4");
    assert_eq!(images[0].registry, "127.0.0.1:5000");
    assert!(images[0].plain_http);
    let quay = zone.images("quay.io/a/b@sha256:00");
    assert_eq!(quay[0].ca_file.as_deref(), Some(std::path::Path::new("/ca.pem")));
    assert_eq!(quay[1].reference, "quay.io/a/b@sha256:00");
}

#[test]
fn a_rule_with_only_holds_for_every_way_to_write_its_host() {
    let text = "name: z\nrules:\n- match: Quay.io\n  to: [mirror.lan/quay]\n  only: true\n- match: docker.io\n  to: [mirror.lan/hub]\n  only: true\n\
                - match: charts.test\n  to: [\"https://mirror.lan/charts\"]\n  only: true\n";
    let zone = Zone::parse(text).unwrap();
    for name in ["quay.io/x/y:1", "QUAY.io/x/y:1", "quay.io:443/x/y:1"] {
        assert_eq!(references(&zone, name), ["mirror.lan/quay/x/y:1"], "{name}");
    }
    assert_eq!(references(&zone, "registry-1.docker.io/x/y:1"), ["mirror.lan/hub/x/y:1"]);
    for url in ["https://charts.test/a.tgz", "https://Charts.test:443/a.tgz", "https://charts.test./a.tgz"] {
        assert_eq!(urls(&zone, url), ["https://mirror.lan/charts/a.tgz"], "{url}");
    }
    assert_eq!(references(&zone, "quay.io:5000/x:1"), ["quay.io:5000/x:1"]);
}

#[test]
fn a_match_ends_where_a_part_of_the_address_ends() {
    let zone =
        Zone::parse("name: x\nrules: [{match: github.com/etcd, to: [m/etcd]}, {match: reg.io, to: [m]}]\n").unwrap();
    assert_eq!(urls(&zone, "https://github.com/etcd-io/x"), ["https://github.com/etcd-io/x"]);
    assert_eq!(urls(&zone, "https://github.com/etcd/x"), ["https://m/etcd/x", "https://github.com/etcd/x"]);
    assert_eq!(references(&zone, "reg.io.evil/x:1"), ["reg.io.evil/x:1"]);
    assert_eq!(references(&zone, "reg.io:5000/x:1"), ["reg.io:5000/x:1"]);
}

#[test]
fn what_follows_a_match_never_makes_another_host_of_the_mirror() {
    let zone = "name: x\nrules: [{match: good.test/stable, to: [\"https://mirror.test\"], certFile: c, keyFile: k}]\n";
    let zone = Zone::parse(zone).unwrap();
    let files = |rest: &str| zone.files(&format!("https://good.test/stable{rest}"));
    for rest in ["@127.0.0.1:18443/x.tgz", ":18443/x.tgz", ":user@127.0.0.1/x.tgz", "?a@b", "#a", "\\a"] {
        let [origin] = files(rest).try_into().unwrap();
        assert_eq!(origin.url, format!("https://good.test/stable{rest}"));
        assert_eq!(origin.identity, None, "{rest}");
    }
    assert_eq!(files("")[0].url, "https://mirror.test");
    assert_eq!(files("/@127.0.0.1/x")[0].url, "https://mirror.test/@127.0.0.1/x");
    // A repository of images ends with its tag; where a host alone takes its place, nothing is left to ask for.
    let zone = |to: &str| Zone::parse(&format!("name: x\nrules: [{{match: reg.test/app, to: [{to}]}}]\n")).unwrap();
    for tag in [":8443", "@127.0.0.1:1/app", ":v1", "@sha256:00"] {
        let asked = format!("reg.test/app{tag}");
        assert_eq!(references(&zone("m.test"), &asked), std::slice::from_ref(&asked));
        assert_eq!(references(&zone("m.test/a"), &asked), [format!("m.test/a{tag}"), asked.clone()]);
        assert_eq!(zone("m.test").idle([asked.as_str()]).len(), 0);
    }
}

#[test]
fn a_wrong_zone_file_is_refused_with_every_place() {
    let problems = Zone::parse(
        "rules:\n- {match: https://x, to: []}\n- {to: [ftp://x], onli: true}\n- {match: a, to: [b], only: maybe}\n",
    )
    .unwrap_err();
    insta::assert_snapshot!(problems.to_string());
}

proptest! {
    #[test]
    fn no_text_panics_the_reader_of_zones(text in "[-a-z:{}\\[\\],\"/ \n.]{0,200}") {
        if let Ok(zone) = Zone::parse(&text) {
            zone.files("https://a/b");
            zone.images("a/b:c");
        }
    }

    #[test]
    fn an_origin_that_no_rule_forbids_is_always_the_last_resort(host in "[a-z]{1,8}\\.[a-z]{2,3}", path in "[a-z/]{0,20}") {
        let url = format!("https://{host}/{path}");
        let zone = Zone::builtin("cn").unwrap();
        prop_assert_eq!(urls(&zone, &url).last().cloned(), Some(url));
    }
}

#[test]
fn a_rule_that_no_address_needs_is_idle_and_one_that_files_or_images_need_is_not() {
    let rules = ["github.com", "ghrc.io", "ghcr.io/flannel-io", "dl.k8s.io/release"];
    let rules: String = rules.iter().map(|rule| format!("- {{match: {rule}, to: [mirror.test]}}\n")).collect();
    let zone = Zone::parse(&format!("name: mine\nrules:\n{rules}")).unwrap();
    let idle = |addresses: &[&str]| -> Vec<String> {
        zone.idle(addresses.iter().copied()).into_iter().map(|rule| rule.matches.clone()).collect()
    };
    let addresses = ["https://dl.k8s.io/release/v1/x", "ghcr.io/flannel-io/flannel:v1", "https://github.com/a/b"];
    assert_eq!(idle(&addresses), ["ghrc.io"]);
    assert_eq!(idle(&[]).len(), 4);
}

#[test]
fn a_folder_takes_the_place_of_files_and_never_of_images() {
    let zone = "name: dvd\nrules:\n- {match: a.test, to: [\"file:///mnt/iso/\", b.test], only: true}\n";
    let zone = Zone::parse(zone).unwrap();
    let files = zone.files("https://a.test/x/y");
    assert_eq!(files[0].url, "file:///mnt/iso/x/y");
    assert_eq!(files[0].folder.as_deref(), Some("file:///mnt/iso"));
    assert_eq!((files[1].url.as_str(), &files[1].folder), ("https://b.test/x/y", &None));
    assert_eq!(references(&zone, "a.test/app:v1"), ["b.test/app:v1"]);
    for wrong in ["file:///", "file://host/x", "file:x", "file://"] {
        let text = format!("name: dvd\nrules:\n- {{match: a.test, to: [\"{wrong}\"]}}\n");
        assert!(Zone::parse(&text).is_err(), "{wrong}");
    }
}

#[test]
fn a_client_certificate_comes_with_its_key_and_for_https_alone() {
    let zone = |rule: &str| Zone::parse(&format!("name: x\nrules:\n- {{match: a.test, {rule}}}\n"));
    let good = zone("to: [\"https://a.test\"], only: true, certFile: 1.pem, keyFile: 1-key.pem").unwrap();
    let identity = good.files("https://a.test/x")[0].identity.clone();
    assert_eq!(identity, Some(("1.pem".into(), "1-key.pem".into())));
    assert_eq!(good.files("https://b.test/x")[0].identity, None, "it is another host");
    for (rule, words) in [
        ("to: [b.test], certFile: 1.pem", "give both, or none"),
        ("to: [b.test], keyFile: 1.pem", "give both, or none"),
        ("to: [\"http://b.test\"], certFile: 1.pem, keyFile: 2.pem", "other than https"),
        ("to: [b.test], plainHttp: true, certFile: 1.pem, keyFile: 2.pem", "other than https"),
        ("to: [\"file:///mnt\"], certFile: 1.pem, keyFile: 2.pem", "other than https"),
    ] {
        let problems = zone(rule).unwrap_err().to_string();
        assert!(problems.contains(words), "{problems}");
    }
}

#[test]
fn unsigned_metadata_is_trusted_of_the_hosts_of_a_rule_that_says_so_and_not_of_the_origin() {
    let rule = |more: &str| format!("name: x\nrules:\n- {{match: d.test, to: [\"http://lan\"]{more}}}\n");
    let trusted = |more: &str| -> Vec<bool> {
        let files = Zone::parse(&rule(more)).unwrap().files("http://d.test/repo");
        files.into_iter().map(|candidate| candidate.trust_unsigned).collect()
    };
    assert_eq!(trusted(", trustUnsigned: true"), [true, false]);
    assert_eq!(trusted(", plainHttp: true"), [false, false]);
    assert!(Zone::parse(&rule(", trustUnsigned: maybe")).is_err());
}
