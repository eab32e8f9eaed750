//! What a cluster rests on that nobody has checked is reported, and what was checked is not.

#![expect(clippy::panic, reason = "helpers of tests may fail the test")]

use kubexm_manifests::{Catalogue, Doubt, DoubtKind, checked, doubts, require};
use kubexm_spec::cluster::{NetworkPlugin, Registry, RegistryKind, RuntimeKind, for_version};
use kubexm_spec::{ArtifactKey, Cluster};

fn of(cluster: &Cluster, catalogue: &Catalogue) -> Vec<Doubt> {
    let requirements = require(cluster, catalogue).unwrap_or_else(|error| panic!("{error}"));
    doubts(&requirements, catalogue)
}

fn of_version(version: &str) -> Vec<Doubt> {
    of(&for_version(Some(version)), &Catalogue::embedded())
}

fn keys(doubt: &Doubt) -> Vec<String> {
    doubt.keys.iter().map(ArtifactKey::to_string).collect()
}

#[test]
fn unverified_constants_of_a_patch_are_reported_with_their_images_and_verified_ones_not() {
    assert_eq!(of_version("1.34.4"), []);
    let mut catalogue = Catalogue::embedded();
    let release = catalogue.releases.get_mut("1.34").unwrap_or_else(|| panic!("1.34"));
    let range = release.patches.iter_mut().find(|range| range.from == 11).unwrap_or_else(|| panic!("from 11"));
    (range.verified, range.unverified) = (None, Some("no checkout of kubernetes/kubernetes".to_owned()));
    let all = of(&for_version(Some("1.34.11")), &catalogue);
    let [doubt] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((doubt.kind, doubt.is_severe()), (DoubtKind::Constants, true));
    assert_eq!(keys(doubt), ["binary/etcd", "image/coredns", "image/etcd", "image/pause"]);
    let text = doubt.to_string();
    for part in ["Kubernetes 1.34.11: ", "patches from 11", "pause 3.10.1", "kubeadm config images list` of v1.34.11"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("(no checkout of kubernetes/kubernetes)"), "{text}");
}

#[test]
fn a_patch_that_the_catalogue_does_not_know_is_reported_with_the_newest_that_it_does() {
    let all = of_version("v1.34.99");
    let kinds: Vec<DoubtKind> = all.iter().map(|doubt| doubt.kind).collect();
    assert_eq!(kinds, [DoubtKind::UnknownPatch, DoubtKind::Constants]);
    let newest = Catalogue::embedded().newest_patch("1.34").unwrap().to_owned();
    assert!(all[0].to_string().contains(&format!("its newest of 1.34 is {newest}")), "{}", all[0]);
    let keys = keys(&all[0]);
    assert!(keys.contains(&"binary/kubelet".to_owned()) && keys.contains(&"image/kube-proxy".to_owned()), "{keys:?}");
    assert!(!keys.iter().any(|key| key.contains("pause")), "{keys:?}");
    // what was read of an older patch does not vouch for this one
    let kinds: Vec<DoubtKind> = of_version("1.33.99").iter().map(|doubt| doubt.kind).collect();
    assert_eq!(kinds, [DoubtKind::UnknownPatch, DoubtKind::Constants]);
}

#[test]
fn a_patch_from_a_refresh_has_digests_and_unverified_constants() {
    let version =
        |name: &str| format!("  {name}: {{versions: {{1.35.99: {{amd64: {{sha256: {}}}}}}}}}\n", "ab".repeat(32));
    let programs = ["kubeadm", "kubelet", "kubectl"].map(version).concat();
    let text = format!("schema: kubexm.io/catalogue/v2\nname: refresh\ncomponents:\n{programs}");
    let catalogue = Catalogue::embedded().overlaid(&text).unwrap_or_else(|error| panic!("{error}"));
    let requirements = require(&for_version(Some("1.35")), &catalogue).unwrap_or_else(|error| panic!("{error}"));
    let all = doubts(&requirements, &catalogue);
    let [doubt] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((doubt.kind, doubt.is_severe()), (DoubtKind::Constants, true));
    let text = doubt.to_string();
    for part in ["Kubernetes 1.35.99: ", "of an older patch", " at v1.35.8 on ", "images list` of v1.35.99"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let about = |version: &str, catalogue: &Catalogue| {
        let requirements = require(&for_version(Some(version)), catalogue).unwrap_or_else(|error| panic!("{error}"));
        checked(&requirements, catalogue).into_iter().map(|one| one.about).find(|about| about.starts_with("Kubernetes"))
    };
    assert_eq!(about("1.35", &catalogue), None);
    assert_eq!(about("1.35.8", &catalogue), Some("Kubernetes 1.35.8".to_owned()));
    // the last range of 1.32 was read at its last patch, second-hand
    assert_eq!(about("1.32.13", &catalogue), Some("Kubernetes 1.32.13".to_owned()));
    assert_eq!(about("1.32.14", &catalogue), None);
}

#[test]
fn unverified_image_lists_are_reported_for_the_features_in_use() {
    let mut cluster = for_version(Some("1.34.4"));
    cluster.network.plugin = NetworkPlugin::Cilium;
    cluster.registry = Registry::of(RegistryKind::Harbor);
    let mut catalogue = Catalogue::embedded();
    assert_eq!(of(&cluster, &catalogue), []);
    for (name, version) in [("cilium", "1.19.6"), ("harbor", "2.10.2"), ("calico", "3.31.7")] {
        let known = catalogue.features.get_mut(name).and_then(|feature| feature.versions.get_mut(version));
        let known = known.unwrap_or_else(|| panic!("{name} {version}"));
        (known.verified, known.unverified) = (None, Some("the checkout is older".to_owned()));
    }
    let all = of(&cluster, &catalogue);
    let about: Vec<&str> = all.iter().map(|doubt| doubt.about.as_str()).collect();
    assert_eq!(about, ["cilium 1.19.6", "harbor 2.10.2"]);
    assert!(all.iter().all(|doubt| doubt.kind == DoubtKind::FeatureImages && !doubt.is_severe()));
    assert!(all.iter().all(|doubt| doubt.text.contains("(the checkout is older)")));
    assert_eq!(all[0].keys.len(), 7);
    assert_eq!(keys(&all[1]), ["binary/harbor"]);
}

#[test]
fn a_program_whose_versions_upstream_was_not_found_to_have_is_reported() {
    let mut cluster = for_version(Some("1.34.4"));
    cluster.runtime.kind = RuntimeKind::Docker;
    let all = of(&cluster, &Catalogue::embedded());
    let [doubt] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((doubt.kind, doubt.is_severe()), (DoubtKind::ProgramVersions, false));
    assert_eq!(keys(doubt), ["binary/cri-dockerd"]);
    let text = doubt.to_string();
    assert!(text.starts_with("cri-dockerd 0.3.26: that upstream has the catalogue's versions of it"), "{text}");
    assert!(text.ends_with("(20 versions have a tag; no tag v0.3.26)"), "{text}");
    // a version that the catalogue does not have is reported once
    let mut catalogue = Catalogue::embedded();
    let containerd = catalogue.components.get_mut("containerd").unwrap_or_else(|| panic!("containerd"));
    (containerd.verified, containerd.unverified) = (None, Some("no checkout".to_owned()));
    let kinds = |version: &str| -> Vec<DoubtKind> {
        let mut cluster = for_version(Some("1.34.4"));
        cluster.runtime.version = Some(version.to_owned());
        of(&cluster, &catalogue).iter().map(|doubt| doubt.kind).collect()
    };
    assert_eq!(kinds("2.3.4"), [DoubtKind::ProgramVersions]);
    assert_eq!(kinds("2.3.77"), [DoubtKind::UnknownPatch]);
}

#[test]
fn what_was_compared_is_reported_with_what_it_was_compared_with() {
    let catalogue = Catalogue::embedded();
    let mut cluster = for_version(Some("1.34.4"));
    cluster.network.plugin = NetworkPlugin::Cilium;
    cluster.registry = Registry::of(RegistryKind::Harbor);
    let requirements = require(&cluster, &catalogue).unwrap_or_else(|error| panic!("{error}"));
    let all: Vec<String> = checked(&requirements, &catalogue).iter().map(ToString::to_string).collect();
    let [kubernetes, cilium, harbor] = all.as_slice() else { panic!("{all:?}") };
    let constants = "Kubernetes 1.34.4: kubernetes/kubernetes cmd/kubeadm/app/constants/constants.go at v1.34.10 on ";
    assert!(kubernetes.starts_with(constants), "{kubernetes}");
    assert!(cilium.starts_with("cilium 1.19.6: cilium/charts cilium-1.19.6.tgz at "), "{cilium}");
    assert!(harbor.starts_with("harbor 2.10.2: goharbor/harbor Makefile at v2.10.2 on "), "{harbor}");
}

#[test]
fn an_overlay_with_all_constants_counts_as_verified_and_one_with_two_does_not() {
    let overlaid = |constants: &str| {
        let text = format!(
            "schema: kubexm.io/catalogue/v1\nname: mine\nreleases: {{\"1.34\": {{constants: {{{constants}}}}}}}\n"
        );
        of(&for_version(Some("1.34.99")), &Catalogue::embedded().overlaid(&text).unwrap())
            .into_iter()
            .filter(|doubt| doubt.kind == DoubtKind::Constants)
            .collect::<Vec<_>>()
    };
    assert_eq!(overlaid("pause: 3.10.1, coredns: v1.12.1, etcd: 3.6.5-0"), []);
    assert_eq!(overlaid("pause: 3.10.1, etcd: 3.6.5-0").len(), 1);
}

#[test]
fn a_patch_of_a_runtime_or_any_other_program_that_the_catalogue_does_not_know_is_reported_as_kubernetes_own_is() {
    let catalogue = Catalogue::embedded();
    for (kind, version, program, newest_of) in
        [(RuntimeKind::Containerd, "2.2.77", "containerd", "2.2"), (RuntimeKind::CriO, "v1.34.77", "cri-o", "1.34")]
    {
        let mut cluster = for_version(Some("1.34.4"));
        (cluster.runtime.kind, cluster.runtime.version) = (kind, Some(version.to_owned()));
        let all = of(&cluster, &catalogue);
        let [doubt] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((doubt.kind, doubt.is_severe()), (DoubtKind::UnknownPatch, true));
        assert_eq!(keys(doubt), [format!("binary/{program}")]);
        let text = doubt.to_string();
        let about = format!(
            "{program} {}: the catalogue does not know this patch; its newest of {newest_of} is ",
            &version.trim_start_matches('v')
        );
        assert!(text.starts_with(&about), "{text}");
        assert!(!text.contains("images"), "{text}");
    }
    // so is one that an overlay chooses, and does not pin
    let known = catalogue.releases["1.34"].defaults["runc"].clone();
    let other = format!("{}.77", kubexm_manifests::version::minor(&known));
    let overlay = format!(
        "schema: kubexm.io/catalogue/v1\nname: mine\nreleases: {{\"1.34\": {{defaults: {{runc: {other}}}}}}}\n"
    );
    let overlaid = Catalogue::embedded().overlaid(&overlay).unwrap();
    let all = of(&for_version(Some("1.34.4")), &overlaid);
    assert_eq!(all.iter().map(|doubt| doubt.about.clone()).collect::<Vec<_>>(), [format!("runc {other}")]);
}

#[test]
fn what_the_catalogue_chooses_itself_is_no_unknown_patch_of_any_minor() {
    let catalogue = Catalogue::embedded();
    for minor in catalogue.releases.keys() {
        let all = of(&for_version(Some(minor)), &catalogue);
        let unknown: Vec<&Doubt> = all.iter().filter(|doubt| doubt.kind == DoubtKind::UnknownPatch).collect();
        assert!(unknown.is_empty(), "{minor}: {unknown:?}");
    }
}
