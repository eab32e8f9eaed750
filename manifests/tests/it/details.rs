//! Facts of upstream's that the catalogue had wrong once, each held by its own test.

use kubexm_manifests::{Catalogue, Libc, Payload, RequireError, Source, require};
use kubexm_spec::cluster::{KubernetesKind, NetworkPlugin, for_version};
use kubexm_spec::{Arch, Cluster, ExitCode, Program};

fn images(cluster: &Cluster) -> Vec<String> {
    let found = require(cluster, &Catalogue::embedded()).unwrap_or_else(|error| panic!("{error}"));
    found.images().into_iter().map(str::to_owned).collect()
}

#[test]
fn a_bundle_has_no_kube_proxy_where_cilium_does_its_work() {
    let has_proxy = |replaces: bool| {
        let mut cluster = for_version(Some("1.34.4"));
        cluster.network.plugin = NetworkPlugin::Cilium;
        cluster.network.options.insert("kubeProxyReplacement".to_owned(), replaces.into());
        images(&cluster).iter().any(|image| image.contains("/kube-proxy:"))
    };
    assert_eq!((has_proxy(false), has_proxy(true)), (true, false));
}

#[test]
fn containerd_is_the_static_archive_wherever_upstream_publishes_one() {
    let catalogue = Catalogue::embedded();
    let containerd = catalogue.component(Program::Containerd).unwrap();
    for version in containerd.versions.keys() {
        let wanted = if version.starts_with("1.6.") { "containerd" } else { "containerd-static" };
        let file = format!("/{wanted}-{version}-linux-arm64.tar.gz");
        assert!(containerd.url(version, Arch::Arm64).ends_with(&file), "{version}");
        assert!(containerd.checksum_url(version, Arch::Arm64).unwrap().ends_with(&format!("{file}.sha256sum")));
        let libc = containerd.libc(version).unwrap();
        assert_eq!(*libc == Libc::Static, !version.starts_with("1.6."), "{version}");
    }
    // the digests are those of the static archives, and not of the others
    let pin = containerd.pin("2.2.1", Arch::Amd64).unwrap().sha256.hex();
    assert_eq!(pin, "af3e82bac6abed58d45956c653244aa2be583359a9753614278ef652012f2883");
}

#[test]
fn an_operating_system_whose_glibc_is_too_old_for_a_program_is_refused_when_building() {
    let dynamic = "schema: kubexm.io/catalogue/v2\nname: own\ncomponents: {containerd: {url: \"https://mirror.example/containerd-{version}-linux-{arch}.tar.gz\", libc: \"2.34\"}}\n";
    let catalogue = Catalogue::embedded().overlaid(dynamic).unwrap();
    let mut cluster = for_version(Some("1.34.4"));
    cluster.bundle.os = vec!["debian-12".to_owned()];
    assert!(require(&cluster, &catalogue).is_ok());
    cluster.bundle.os.push("ubuntu-20.04".to_owned());
    let error = require(&cluster, &catalogue).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Config);
    let RequireError::OldGlibc { os, glibc, program, needs } = &error else { panic!("{error}") };
    assert_eq!((os.as_str(), glibc.as_str(), needs.as_str()), ("ubuntu-20.04", "2.31", "2.34"));
    assert!(program.starts_with("containerd "), "{program}");
    // upstream's own is static, and so are overlays that say so
    assert!(require(&cluster, &Catalogue::embedded()).is_ok());
    let own = dynamic.replace("\"2.34\"", "static");
    assert!(require(&cluster, &Catalogue::embedded().overlaid(&own).unwrap()).is_ok());
    // of an address of one's own nothing is known until it is said
    let silent = dynamic.replace(", libc: \"2.34\"", "");
    let overlaid = Catalogue::embedded().overlaid(&silent).unwrap();
    assert_eq!(overlaid.component(Program::Containerd).unwrap().libc("2.2.7"), None);
    let wrong = Catalogue::embedded().overlaid(&dynamic.replace("\"2.34\"", "musl")).unwrap_err();
    assert!(format!("{wrong:?}").contains("neither `static` nor a version of glibc"), "{wrong:?}");
}

#[test]
fn every_profile_says_which_glibc_it_has() {
    for profile in kubexm_manifests::os::Profiles::embedded().all.values() {
        let glibc = profile.glibc.as_deref().unwrap_or_else(|| panic!("{}", profile.name));
        assert!(glibc.starts_with("2."), "{}: {glibc}", profile.name);
    }
}

#[test]
fn a_minor_means_the_newest_patch_that_upstream_made() {
    for (minor, newest) in [("1.31", "1.31.14"), ("1.32", "1.32.13"), ("1.33", "1.33.13"), ("1.34", "1.34.11")] {
        let found = require(&for_version(Some(minor)), &Catalogue::embedded()).unwrap();
        assert_eq!(found.versions.unwrap().kubernetes.bare(), newest);
        let kubelet = found.items.iter().find(|item| item.key.to_string() == "binary/kubelet").unwrap();
        assert!(matches!(kubelet.source, Source::File { sha256: Some(_), .. }), "{minor}");
    }
}

#[test]
fn a_patch_without_one_of_the_clusters_programs_is_not_the_newest_of_its_minor() {
    let chosen = |programs: &[&str], kind: KubernetesKind, asked: Option<&str>| {
        let version =
            |name: &&str| format!("  {name}: {{versions: {{1.34.99: {{amd64: {{sha256: {}}}}}}}}}\n", "ab".repeat(32));
        let versions: String = programs.iter().map(version).collect();
        let text = format!("schema: kubexm.io/catalogue/v2\nname: newer\ncomponents:\n{versions}");
        let catalogue = Catalogue::embedded().overlaid(&text).unwrap();
        let mut cluster = for_version(asked);
        if let Some(kubernetes) = &mut cluster.kubernetes {
            kubernetes.kind = kind;
        }
        require(&cluster, &catalogue).unwrap().versions.unwrap().kubernetes.bare().to_owned()
    };
    use KubernetesKind::{Kubeadm, Kubexm};
    let nodes = ["kubeadm", "kubelet", "kubectl"];
    let servers = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"];
    // kubelet was withdrawn, or was not published yet
    assert_eq!(chosen(&["kubeadm"], Kubeadm, Some("1.34")), "1.34.11");
    assert_eq!(chosen(&["kubelet", "kubectl"], Kubeadm, Some("1.34")), "1.34.11");
    assert_eq!(chosen(&nodes, Kubeadm, Some("1.34")), "1.34.99");
    // its images are the server programs there
    assert_eq!(chosen(&nodes, Kubexm, Some("1.34")), "1.34.11");
    assert_eq!(chosen(&[&nodes[1..], &servers].concat(), Kubexm, Some("1.34")), "1.34.99");
    // who names it gets it, with the digests that upstream publishes
    assert_eq!(chosen(&["kubeadm"], Kubeadm, Some("1.34.99")), "1.34.99");
}

#[test]
fn codenames_are_those_of_the_profiles() {
    let profiles = kubexm_manifests::os::Profiles::embedded();
    let deb = profiles.all.values().filter(|profile| profile.family == kubexm_spec::Family::Deb);
    let mut known: Vec<(&str, &str)> = deb
        .filter_map(|profile| Some((profile.repositories[0].suites.first()?.as_str(), profile.name.as_str())))
        .collect();
    let mut table = kubexm_spec::names::OS_CODENAMES.to_vec();
    known.sort_unstable();
    table.sort_unstable();
    assert_eq!(table, known);
    assert_eq!(profiles.get("jammy").unwrap().name, "ubuntu-22.04");
}

#[test]
fn who_names_no_version_gets_one_that_was_compared_with_upstream() {
    let catalogue = Catalogue::embedded();
    let requirements = require(&for_version(None), &catalogue).unwrap();
    let version = requirements.versions.as_ref().unwrap().kubernetes.clone();
    let severe = |doubt: &kubexm_manifests::Doubt| doubt.is_severe();
    assert!(!kubexm_manifests::doubts(&requirements, &catalogue).iter().any(severe), "{version}");
    let minor = version.bare().rsplit_once('.').unwrap().0;
    assert_eq!(catalogue.newest_verified_patch(minor), Some(version.bare()));
}

#[test]
fn kubeadm_before_1_24_9_names_its_images_by_the_old_registry() {
    let with_old = images(&for_version(Some("1.24.8")));
    for image in ["k8s.gcr.io/kube-apiserver:v1.24.8", "k8s.gcr.io/etcd:3.5.5-0", "k8s.gcr.io/coredns/coredns:v1.8.6"] {
        assert!(with_old.iter().any(|name| name == image), "{image}: {with_old:?}");
    }
    assert!(!with_old.iter().any(|name| name.starts_with("registry.k8s.io/kube-")), "{with_old:?}");
    let new = images(&for_version(Some("1.24.9")));
    assert!(new.iter().any(|name| name == "registry.k8s.io/etcd:3.5.6-0"), "{new:?}");
    assert!(!new.iter().any(|name| name.starts_with("k8s.gcr.io/")), "{new:?}");
}

#[test]
fn an_image_of_the_old_registry_is_asked_of_the_new_one_too() {
    use kubexm_manifests::Zone;
    for zone in Zone::builtin_names() {
        let candidates = Zone::builtin(&zone).unwrap().images("k8s.gcr.io/coredns/coredns:v1.8.6");
        let names: Vec<&str> = candidates.iter().map(|one| one.reference.as_str()).collect();
        assert!(names.contains(&"registry.k8s.io/coredns/coredns:v1.8.6"), "{zone}: {names:?}");
    }
}

#[test]
fn an_etcd_without_etcdutl_is_not_searched_for_it() {
    let catalogue = Catalogue::embedded();
    let members = |version: &str| match catalogue.component(Program::Etcd).unwrap().payload(version, Arch::Amd64) {
        Payload::Archive(archive) => archive.members.into_values().collect::<Vec<_>>(),
        Payload::Raw(_) => panic!("etcd is an archive"),
    };
    assert_eq!(members("3.4.13"), ["etcdctl"]);
    assert_eq!(members("3.5.24"), ["etcdctl", "etcdutl"]);
}

#[test]
fn harbor_has_the_images_of_its_own_version_inside() {
    let catalogue = Catalogue::embedded();
    let harbor = &catalogue.features["harbor"];
    let old = harbor.references("2.5.3");
    for name in ["notary-server-photon", "notary-signer-photon", "chartmuseum-photon"] {
        assert!(old.contains(&format!("docker.io/goharbor/{name}:v2.5.3")), "{old:?}");
    }
    assert_eq!((old.len(), harbor.references("2.10.2").len()), (15, 12));
}

#[test]
fn tigeras_images_are_carried_by_one_name() {
    let catalogue = Catalogue::embedded();
    let tigera = &catalogue.features["tigera-operator"];
    for version in tigera.versions.keys() {
        let all = tigera.references(version);
        assert!(all.iter().all(|image| image.starts_with("quay.io/calico/")), "{all:?}");
        assert_eq!(all.len(), 11);
    }
}

#[test]
fn calico_brings_definitions_and_tool_of_its_version_for_every_minor() {
    for minor in Catalogue::embedded().releases.keys() {
        let mut cluster = for_version(Some(minor));
        cluster.network.plugin = NetworkPlugin::Calico;
        let versions = require(&cluster, &Catalogue::embedded()).unwrap().versions.unwrap();
        assert_eq!(versions.features["calico"], versions.programs["calico-manifest"], "{minor}");
        assert_eq!(versions.features["calico"], versions.programs["calicoctl"], "{minor}");
    }
}
