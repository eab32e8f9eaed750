//! The embedded catalogue is whole, and `require` gives a closed, complete set for everything it knows.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use kubexm_manifests::{
    Catalogue, CatalogueError, Feature, Payload, RequireError, Requirements, Source, Zone, check, references, require,
};
use kubexm_spec::cluster::{Cluster, RegistryKind, for_version, parse};
use kubexm_spec::{ArtifactKey, ClusterImage, Digest, ExitCode, Platform, Program, Trust};

fn needs(cluster: &Cluster) -> Requirements {
    require(cluster, &Catalogue::embedded()).unwrap_or_else(|error| panic!("{error}"))
}

fn overlay(text: &str) -> Catalogue {
    let text = format!("schema: kubexm.io/catalogue/v1\nname: test\n{text}");
    Catalogue::embedded().overlaid(&text).unwrap_or_else(|error| panic!("{error}"))
}

fn file(
    requirements: &Requirements,
    program: Program,
    platform: Platform,
) -> (Option<Digest>, Option<u64>, Trust, String) {
    let item = requirements.find(&ArtifactKey::Binary(program), platform).unwrap();
    match &item.source {
        Source::File { sha256, size, url, .. } => (*sha256, *size, item.trust, url.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_embedded_catalogue_has_no_gap() {
    let gaps = check(&Catalogue::embedded());
    assert!(gaps.is_empty(), "{}", gaps.join("\n"));
    Zone::check_builtin().unwrap();
    assert_eq!(Zone::builtin_names(), ["cn", "global"]);
}

#[test]
fn the_check_sees_what_is_missing() {
    let whole = Catalogue::embedded();
    let broken: [fn(&mut Catalogue); 14] = [
        |c| drop(c.components.remove("runc")),
        |c| c.images.retain(|rule| rule.name != "pause"),
        |c| c.releases.get_mut("1.34").unwrap().patches[0].from = 1,
        |c| drop(c.releases.get_mut("1.35").unwrap().defaults.insert("runc".into(), "9.9.9".into())),
        |c| c.components.get_mut("helm").unwrap().url.push_str("{what}"),
        |c| drop(c.components.get_mut("kubeadm").unwrap().versions.remove("1.34.4")),
        |c| c.components.get_mut("docker").unwrap().versions.get_mut("24.0.9").unwrap().clear(),
        |c| drop(c.features.get_mut("calico").unwrap().versions.remove("3.29.7")),
        |c| c.features.get_mut("nginx").unwrap().tag = "{what}".into(),
        |c| c.features.get_mut("nginx").unwrap().images[0].name = "pause".into(),
        |c| c.components.get_mut("nerdctl").unwrap().default = Some("9.9.9".into()),
        |c| c.releases.get_mut("1.34").unwrap().support.minimum_etcd = Some("9.9.9".into()),
        |c| c.releases.get_mut("1.34").unwrap().support.minimum_containerd = "9.9.9".into(),
        |c| c.components.get_mut("cri-o").unwrap().versions.retain(|version, _| !version.starts_with("1.34.")),
    ];
    for (index, breaks) in broken.iter().enumerate() {
        let mut catalogue = whole.clone();
        breaks(&mut catalogue);
        assert!(!check(&catalogue).is_empty(), "damage {index} is not seen");
    }
}

#[test]
fn what_is_required_for_the_lab_release_is_this_list() {
    let list: Vec<String> = needs(&for_version(Some("v1.34.4")))
        .items
        .iter()
        .map(|item| format!("{} {} stage {} {}", item.key, item.version, item.stage, item.trust))
        .collect();
    insta::assert_snapshot!(list.join("\n"));
}

#[test]
fn both_platforms_are_asked_for_and_excluded_tools_are_not() {
    let mut cluster = for_version(Some("1.34.4"));
    cluster.bundle.platforms = Platform::ALL.to_vec();
    cluster.bundle.exclude = vec!["crictl".into()];
    let found = needs(&cluster);
    for platform in Platform::ALL {
        assert!(found.find(&ArtifactKey::Binary(Program::Crictl), platform).is_none());
        assert!(found.find(&ArtifactKey::Binary(Program::Helm), platform).unwrap().optional);
        assert!(file(&found, Program::Etcd, platform).3.contains(platform.arch.as_str()));
    }
    cluster.bundle.exclude = vec!["kubelet".into()];
    let error = require(&cluster, &Catalogue::embedded()).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Config);
    for tool in ["calicoctl", "crictl", "helm", "nerdctl"] {
        assert!(error.to_string().contains(tool), "{error}");
    }
}

#[test]
fn constants_follow_the_patch_not_only_the_minor() {
    let etcd = |version: &str| needs(&for_version(Some(version))).versions.unwrap().images["etcd"].clone();
    assert_eq!([etcd("1.34.1"), etcd("1.34.2")], ["3.6.4-0", "3.6.5-0"]);
    assert_eq!([etcd("1.32.9"), etcd("1.32.13")], ["3.5.16-0", "3.5.24-0"]);
}

#[test]
fn an_unknown_patch_is_trusted_by_upstreams_checksum_and_an_unknown_minor_is_refused() {
    let found = needs(&for_version(Some("1.34.99")));
    let (sha256, _, trust, url) = file(&found, Program::Kubeadm, Platform::LINUX_AMD64);
    assert_eq!((sha256, trust), (None, Trust::UpstreamChecksum));
    assert_eq!(url, "https://dl.k8s.io/release/v1.34.99/bin/linux/amd64/kubeadm");
    for version in ["1.23.17", "1.43", "2.0.0", "1.37.0", "1.34.4-/../../x"] {
        let error = require(&for_version(Some(version)), &Catalogue::embedded()).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::UnknownVersion);
        assert!(matches!(&error, RequireError::UnknownKubernetes { nearest, .. } if !nearest.is_empty()), "{error}");
    }
}

#[test]
fn containerd_must_be_known_and_new_enough() {
    let with = |kubernetes: &str, containerd: &str| {
        let mut cluster = for_version(Some(kubernetes));
        cluster.runtime.version = Some(containerd.to_owned());
        require(&cluster, &Catalogue::embedded())
    };
    assert_eq!(with("1.34.4", "2.2.1").unwrap().versions.unwrap().runtime, "containerd 2.2.1");
    assert!(matches!(with("1.36.0", "1.7.27"), Err(RequireError::TooOld { .. })));
    assert!(matches!(with("1.34.4", "2.9.0"), Err(RequireError::UnknownVersion { .. })));
}

#[test]
fn containerd_1_is_chosen_for_the_minors_that_support_it() {
    for minor in ["1.33", "1.34", "1.35"] {
        let mut cluster = for_version(Some(minor));
        cluster.runtime.version = Some("1.7.32".to_owned());
        let found = needs(&cluster);
        let (sha256, _, trust, url) = file(&found, Program::Containerd, Platform::LINUX_AMD64);
        assert!(sha256.is_some() && trust == Trust::Pinned && url.contains("/v1.7.32/"), "{minor} {url}");
    }
}

#[test]
fn the_registry_program_is_required_only_by_a_registry_of_its_type() {
    let registry = ArtifactKey::Binary(Program::Registry);
    for kind in [RegistryKind::Embedded, RegistryKind::None] {
        let mut cluster = for_version(Some("1.34.4"));
        cluster.registry.kind = kind;
        assert!(needs(&cluster).find(&registry, Platform::LINUX_AMD64).is_none(), "{kind:?}");
    }
    let mut cluster = for_version(Some("1.34.4"));
    cluster.registry.kind = RegistryKind::Registry;
    let found = needs(&cluster);
    let (_, _, trust, url) = file(&found, Program::Registry, Platform::LINUX_AMD64);
    assert_eq!(trust, Trust::UpstreamChecksum);
    assert_eq!(
        url,
        "https://github.com/distribution/distribution/releases/download/v3.1.2/registry_3.1.2_linux_amd64.tar.gz"
    );
    // a bundle built without it says what it lacks
    let catalogue = Catalogue::embedded();
    let used = catalogue.used_by(&needs(&for_version(Some("1.34.4"))));
    let error = require(&cluster, &used).unwrap_err();
    assert!(error.to_string().contains("component registry"), "{error}");
}

#[test]
fn a_bundle_of_extras_needs_its_extras_and_nothing_else() {
    let sum = Digest::of(b"x");
    let text = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: x}}\nspec:\n  bundle:\n    extraImages: [{{name: \"busybox:1\"}}, {{name: \"localhost/a:1\", from: \"oci:/a\"}}]\n    extraFiles: [{{url: \"https://h/p/tool.tgz?x=1\", sha256: {}}}, {{path: docs/notes.txt}}]\n",
        sum.hex()
    );
    let cluster = parse(&text).unwrap();
    let found = needs(&cluster);
    let keys: Vec<String> = found.items.iter().map(|item| item.key.to_string()).collect();
    assert_eq!(
        keys,
        ["file/notes.txt", "file/tool.tgz", "extra-image/docker.io/library/busybox:1", "extra-image/localhost/a:1"]
    );
    assert_eq!(found.versions, None);
    assert_eq!(found.images(), ["docker.io/library/busybox:1", "localhost/a:1"]);
    let mut twice = cluster.clone();
    twice.bundle.extra_files.push(kubexm_spec::cluster::ExtraFile::Path { path: "other/notes.txt".into() });
    assert!(matches!(require(&twice, &Catalogue::embedded()), Err(RequireError::SameFileName { .. })));
    // A manifest with it would be refused when everything has been fetched.
    let (mut long, url) = (cluster, format!("https://h/p/{}?x=1", "x".repeat(256)));
    long.bundle.extra_files.push(kubexm_spec::cluster::ExtraFile::Url { url, sha256: sum });
    let error = require(&long, &Catalogue::embedded()).unwrap_err().to_string();
    assert!(error.contains("https://h/p/") && error.contains("256 bytes") && !error.contains("x=1"), "{error}");
}

#[test]
fn an_overlay_brings_versions_and_digests_and_is_named_as_their_source() {
    let sum = Digest::of(b"own build");
    let catalogue = overlay(&format!(
        "components:\n  containerd: {{default: \"2.2.9\", versions: {{\"2.2.9\": {{amd64: {{sha256: {0}, size: 7}}}}}}}}\n  kubeadm: {{versions: {{\"1.34.4\": {{amd64: {{sha256: {0}}}}}}}, default: \"1.34.4\"}}\nimages:\n  \"registry.k8s.io/pause:3.10.1\": {sum}\nreleases: {{\"1.34\": {{defaults: {{flannel-cni-plugin: v0.9.1}}}}}}\n",
        sum.hex()
    ));
    // no version asked for: the overlay's own kubeadm decides
    let found = require(&for_version(None), &catalogue).unwrap();
    let amd64 = Platform::LINUX_AMD64;
    let (sha256, size, trust, url) = file(&found, Program::Containerd, amd64);
    assert_eq!((sha256, size, trust), (Some(sum), Some(7), Trust::Overlay));
    assert!(url.contains("/v2.2.9/"), "{url}");
    assert_eq!(file(&found, Program::Kubeadm, amd64).2, Trust::Overlay);
    assert_eq!(file(&found, Program::Kubelet, amd64).2, Trust::Pinned);
    let versions = found.versions.clone().unwrap();
    assert_eq!((versions.kubernetes.bare(), versions.images["flannel-cni-plugin"].as_str()), ("1.34.4", "v0.9.1"));
    let pause = found.find(&ArtifactKey::Image(ClusterImage::Pause), amd64).unwrap();
    assert_eq!(pause.trust, Trust::Overlay);
    assert!(matches!(&pause.source, Source::Image { digest: Some(digest), .. } if *digest == sum));
}

#[test]
fn a_wrong_overlay_is_refused_with_every_place() {
    let text = "schema: kubexm.io/catalogue/v3\nname: x\ncomponents:\n  kubeadmm: {}\n  runc: {version: {}, default: \"9.9.9\"}\n  helm: {versions: {\"3.20.0\": {x86: {sha256: ab}, amd64: {sha256: ab}}}}\nreleases: {\"1.43\": {}}\n";
    let error = Catalogue::embedded().overlaid(text).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Config);
    let CatalogueError::Overlay(problems) = error else { panic!("{error}") };
    insta::assert_snapshot!(problems.to_string());
}

#[test]
fn the_part_that_was_used_gives_the_same_requirements_again() {
    let sum = Digest::of(b"x").hex();
    let overlaid = overlay(&format!(
        "components: {{runc: {{default: \"1.3.99\", versions: {{\"1.3.99\": {{amd64: {{sha256: {sum}}}}}}}}}}}\n"
    ));
    for (catalogue, version) in [
        (Catalogue::embedded(), Some("1.34.4")),
        (Catalogue::embedded(), None),
        (overlaid, Some("1.35")),
        (Catalogue::embedded(), Some("1.34.77")),
    ] {
        let mut cluster = for_version(version);
        cluster.bundle.exclude = vec!["crictl".into()];
        cluster.bundle.platforms = Platform::ALL.to_vec();
        let found = require(&cluster, &catalogue).unwrap();
        let json = catalogue.used_by(&found).to_json().unwrap();
        let used = Catalogue::from_json(&json).unwrap();
        assert_eq!(require(&cluster, &used).unwrap(), found);
        assert_eq!(used.used_by(&found).to_json().unwrap(), json, "not the same bytes the second time");
        assert_eq!(used.releases.len(), 1);
        assert!(json.len() < 20_000, "{} bytes: the whole catalogue is in it", json.len());
        // another version is not in that bundle, and that is said
        assert_eq!(require(&for_version(Some("1.33.0")), &used).unwrap_err().exit_code(), ExitCode::UnknownVersion);
    }
}

#[test]
fn damage_to_catalogue_json_is_an_error() {
    let json = String::from_utf8(Catalogue::embedded().to_json().unwrap()).unwrap();
    assert!(Catalogue::from_json(json.replace("catalogue/v2", "catalogue/v3").as_bytes()).is_err());
    assert!(Catalogue::from_json(json.replace("\"components\"", "\"components2\"").as_bytes()).is_err());
    assert!(Catalogue::from_json(&json.as_bytes()[..json.len() - 1]).is_err());
    assert_eq!(Catalogue::from_json(json.as_bytes()).unwrap(), Catalogue::embedded());
}

#[test]
fn the_members_to_install_are_listed_for_each_archive() {
    let catalogue = Catalogue::embedded();
    let etcd = catalogue.component(Program::Etcd).unwrap().payload("3.6.5", kubexm_spec::Arch::Arm64);
    let Payload::Archive(etcd) = etcd else { panic!("etcd comes in an archive") };
    assert_eq!(etcd.members["etcd-v3.6.5-linux-arm64/etcdutl"], "etcdutl");
    let cni = catalogue.component(Program::CniPlugins).unwrap().payload("1.9.1", kubexm_spec::Arch::Amd64);
    assert!(matches!(cni, Payload::Archive(archive) if archive.all.as_deref() == Some("")));
    assert!(matches!(catalogue.component(Program::Runc).unwrap().payload, Payload::Raw(_)));
}

#[test]
fn rules_for_preflight_are_found_by_version_and_system() {
    let catalogue = Catalogue::embedded();
    assert!(catalogue.support("1.34.4").unwrap().kubeadm_ignore(true).is_empty());
    assert_eq!(catalogue.support("v1.35.0").unwrap().kubeadm_ignore(true), ["SystemVerification"]);
    assert!(catalogue.support("1.35.0").unwrap().kubeadm_ignore(false).is_empty());
    assert!(catalogue.support("1.34.4").unwrap().required_programs().any(|any| any == ["iptables", "nft"]));
    assert_eq!(catalogue.os("debian", "12").unwrap().0, "debian-12");
    assert!(catalogue.os("alpine", "3.20").is_none());
}

#[test]
fn the_images_of_a_feature_are_those_that_are_required() {
    let catalogue = Catalogue::embedded();
    let found = needs(&for_version(Some("1.34.4")));
    let versions = found.versions.clone().unwrap();
    let mut all = references(&catalogue, &versions, Feature::Kubeadm);
    assert_eq!(all.len(), 7);
    all.extend(references(&catalogue, &versions, Feature::Flannel));
    all.sort();
    assert_eq!(all, found.images());
}

#[test]
fn licences_are_known_of_every_program_and_image_and_travel_with_the_part_that_was_used() {
    let catalogue = Catalogue::embedded();
    let requirements = needs(&for_version(Some("v1.34.4")));
    let used = catalogue.used_by(&requirements);
    for item in &requirements.items {
        let wanted = (!matches!(item.key, ArtifactKey::Installer)).then_some("Apache-2.0");
        assert_eq!(used.licence(&item.key), wanted, "{}", item.key);
    }
    assert_eq!(used.licence(&ArtifactKey::ExtraImage("docker.io/library/busybox:1".into())), None);
    assert!(catalogue.components.values().all(|component| component.licence.is_some()));
}
