//! What clusters need of their distributions' packages.

#![allow(clippy::unwrap_used, reason = "a test dies of what it did not expect")]

use kubexm_manifests::error::RequireError;
use kubexm_manifests::requirements::PackageNeed;
use kubexm_manifests::{Catalogue, require};
use kubexm_spec::{ExitCode, Family, PackageRole};

fn needed(spec: &str) -> Result<Vec<PackageNeed>, RequireError> {
    let text = format!("apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: prod}}\nspec:\n{spec}");
    let cluster = kubexm_spec::cluster::parse(&text).unwrap();
    require(&cluster, &Catalogue::embedded()).map(|requirements| requirements.packages)
}

fn root_names(need: &PackageNeed) -> Vec<&str> {
    need.roots.iter().map(|root| root.name.as_str()).collect()
}

#[test]
fn every_system_and_platform_that_is_carried_has_its_own_roots_and_the_order_of_the_file_does_not_matter() {
    let bundle = "  kubernetes: {}\n  bundle: {os: [rocky-9, debian-12], platforms: [linux/arm64, linux/amd64]}\n";
    let all = needed(bundle).unwrap();
    let names: Vec<String> = all.iter().map(|need| format!("{} {}", need.os, need.platform)).collect();
    assert_eq!(names, ["debian-12 linux/amd64", "debian-12 linux/arm64", "rocky-9 linux/amd64", "rocky-9 linux/arm64"]);
    let (debian, rocky) = (&all[0], &all[2]);
    assert_eq!((debian.family, rocky.family), (Family::Deb, Family::Rpm));
    assert!(debian.names().contains(&"conntrack") && rocky.names().contains(&"conntrack-tools"));
    assert!(debian.roots.iter().all(|root| root.role == PackageRole::Node), "nothing else was asked for");
    assert_eq!(needed("  kubernetes: {}\n").unwrap(), []);
}

#[test]
fn each_field_that_needs_packages_brings_its_roots_and_nothing_else_does() {
    let plain = needed("  kubernetes: {}\n  bundle: {os: [debian-12]}\n").unwrap();
    let more = |spec: &str| -> Vec<String> {
        let text = format!("  bundle: {{os: [debian-12]}}\n{spec}");
        let all = needed(&text).unwrap();
        let names = root_names(&all[0]).into_iter().filter(|name| !root_names(&plain[0]).contains(name));
        names.map(str::to_owned).collect()
    };
    assert_eq!(more("  kubernetes: {proxyMode: ipvs}\n"), ["ipset", "ipvsadm"]);
    assert_eq!(more("  kubernetes: {}\n  storage: {nfs: {server: 10.0.0.9, path: /x}}\n"), ["nfs"]);
    assert_eq!(more("  kubernetes: {}\n  storage: {openebs: {}}\n"), [""; 0]);
    assert_eq!(more("  kubernetes: {}\n  system: {ntpServers: [10.0.0.9]}\n"), ["chrony"]);
    assert_eq!(more("  kubernetes: {}\n  system: {debs: [htop, socat], rpms: [tmux]}\n"), ["htop"]);
    let balanced = |kind: &str| {
        let of = match kind {
            "external" => ", worker: [a, b]",
            _ => ", worker: [a], loadbalancer: [b]",
        };
        let hosts = format!(
            "  hosts: [{{name: a, address: 10.0.0.1}}, {{name: b, address: 10.0.0.2}}]\n  roleGroups: {{control-plane: [a], etcd: [a]{of}}}\n"
        );
        more(&format!(
            "  kubernetes: {{}}\n{hosts}  loadBalancer: {{mode: external, external: {{type: {kind}}}, vip: 10.0.0.99}}\n"
        ))
    };
    assert_eq!(balanced("kubexm-kh"), ["keepalived", "haproxy"]);
    assert_eq!(balanced("kubexm-kn"), ["keepalived", "nginx", "nginx-stream"]);
    assert_eq!(balanced("external"), [""; 0]);
}

#[test]
fn what_a_user_names_is_a_root_of_every_node_of_its_family_and_a_bundle_of_extras_has_none() {
    let all = needed("  kubernetes: {}\n  bundle: {os: [debian-12, rocky-9]}\n  system: {debs: [htop]}\n").unwrap();
    let root = all[0].roots.last().unwrap();
    assert_eq!((root.name.as_str(), root.role), ("htop", PackageRole::Node));
    assert_eq!(root.packages, ["htop"]);
    assert!(root.commands.is_empty() && root.replaces.is_empty());
    assert!(!root_names(&all[1]).contains(&"htop"), "a deb is none of Rocky's");
    assert_eq!(needed("  bundle: {os: [debian-12]}\n").unwrap(), []);
}

#[test]
fn packages_that_chrony_replaces_are_bundled_with_it() {
    let all = needed("  kubernetes: {}\n  bundle: {os: [debian-12]}\n  system: {ntpServers: [10.0.0.9]}\n").unwrap();
    let chrony = all[0].roots.iter().find(|root| root.name == "chrony").unwrap();
    assert_eq!(chrony.replaces, ["systemd-timesyncd"]);
}

#[test]
fn nothing_is_carried_where_packages_are_left_to_the_user() {
    assert_eq!(needed("  kubernetes: {}\n  bundle: {os: [debian-12]}\n  system: {osPackages: none}\n").unwrap(), []);
    for word in ["auto", "full"] {
        let spec = format!("  kubernetes: {{}}\n  bundle: {{os: [debian-12]}}\n  system: {{osPackages: {word}}}\n");
        assert_eq!(needed(&spec).unwrap().len(), 1, "{word} differs in what is installed only");
    }
}

#[test]
fn systems_and_platforms_that_nobody_knows_are_refused_with_what_is_near() {
    let reported = |spec: &str| {
        let error = needed(spec).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::UnknownVersion);
        error.to_string()
    };
    let error = reported("  kubernetes: {}\n  bundle: {os: [debian-21]}\n");
    assert!(error.contains("debian-21") && error.contains("debian-12"), "{error}");
    let error = reported("  kubernetes: {}\n  bundle: {os: [rhel-7], platforms: [linux/arm64]}\n");
    assert!(error.contains("rhel-7") && error.contains("linux/arm64") && error.contains("rhel-9"), "{error}");
}

#[test]
fn a_runtime_that_is_a_package_comes_with_its_system_and_is_refused_where_no_system_has_it() {
    let spec =
        |systems: &str| format!("  kubernetes: {{}}\n  runtime: {{type: isulad}}\n  bundle: {{os: [{systems}]}}\n");
    let all = needed(&spec("openeuler-24.03-sp1")).unwrap();
    let root = all[0].roots.iter().find(|root| root.name == "isulad").unwrap();
    assert_eq!((root.role, root.packages.as_slice()), (PackageRole::Runtime, ["iSulad".to_owned()].as_slice()));
    assert!(root.commands.contains(&"isulad".to_owned()));
    let without = needed("  kubernetes: {}\n  bundle: {os: [openeuler-24.03-sp1]}\n").unwrap();
    assert!(!root_names(&without[0]).contains(&"isulad"), "other runtimes bring their programs");
    for other in ["debian-12", "rocky-9", "openeuler-22.03, kylin-v10-sp3"] {
        let error = needed(&spec(other)).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Config);
        let (text, named) = (error.to_string(), other.rsplit(' ').next().unwrap());
        assert!(
            text.contains(&format!("{named} has no package of isulad")) && text.contains("openeuler-22.03"),
            "{text}"
        );
        assert!(text.contains("spec.bundle.os") && text.contains("spec.runtime.type"), "{text}");
    }
}

#[test]
fn a_package_of_the_users_own_takes_the_place_of_what_the_table_says_of_it() {
    let all = needed("  kubernetes: {}\n  bundle: {os: [debian-12]}\n  system: {debs: [chrony, htop]}\n").unwrap();
    let replaces = |name: &str| {
        let root = all.iter().flat_map(|need| &need.roots).find(|root| root.name == name);
        root.map(|root| root.replaces.clone()).unwrap_or_default()
    };
    assert_eq!(replaces("chrony"), ["systemd-timesyncd"]);
    assert!(replaces("htop").is_empty());
}
