//! A minor that came after this program: an overlay adds it, and every step on the way there says what is still wanting.

#![expect(clippy::panic, reason = "helpers of tests may fail the test")]

use kubexm_manifests::{Catalogue, CatalogueError, DoubtKind, RequireError, check, doubts, require};
use kubexm_spec::cluster::for_version;
use kubexm_spec::{ExitCode, Trust};

const HEAD: &str = "schema: kubexm.io/catalogue/v1\nname: next\n";
const RELEASE: &str =
    "releases: {\"1.37\": {like: \"1.36\", constants: {pause: \"3.11\", coredns: v1.15.0, etcd: 3.6.8-0}}}\n";
const PROGRAMS: &str = "components: {kubeadm: {versions: {1.37.0: {}}}, kubelet: {versions: {1.37.0: {}}}, kubectl: {versions: {1.37.0: {}}}}\n";

fn overlaid(text: &str) -> Catalogue {
    Catalogue::embedded().overlaid(&format!("{HEAD}{text}")).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    match Catalogue::embedded().overlaid(&format!("{HEAD}{text}")) {
        Err(CatalogueError::Overlay(problems)) => problems.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_error_about_an_unknown_minor_says_what_an_overlay_must_have_and_that_is_enough() {
    let error = require(&for_version(Some("v1.37.0")), &Catalogue::embedded()).unwrap_err().to_string();
    assert!(error.contains("releases: {\"1.37\": {like: \"1.36\", constants: "), "{error}");
    assert!(error.contains("components.kubelet.versions"), "{error}");
    // what it says first, and no more
    let error = require(&for_version(Some("1.37")), &overlaid(RELEASE)).unwrap_err();
    assert!(matches!(&error, RequireError::UnknownVersion { component, .. } if component == "kubelet"), "{error}");
    assert_eq!(error.exit_code(), ExitCode::UnknownVersion);
    // and all of it
    let catalogue = overlaid(&format!("{RELEASE}{PROGRAMS}"));
    let found = require(&for_version(Some("1.37")), &catalogue).unwrap();
    let versions = found.versions.clone().unwrap();
    assert_eq!((versions.kubernetes.bare(), versions.kubeadm_api.as_str()), ("1.37.0", "v1beta4"));
    assert_eq!((&versions.images["pause"], &versions.images["coredns"]), (&"3.11".to_owned(), &"v1.15.0".to_owned()));
    assert_eq!(versions.images["kube-apiserver"], "v1.37.0");
    let kubelet = found.items.iter().find(|item| item.key.to_string() == "binary/kubelet").unwrap();
    assert_eq!(kubelet.trust, Trust::UpstreamChecksum);
    assert_eq!(doubts(&found, &catalogue), []);
    // the installer computes the same from what the bundle carries
    let used = Catalogue::from_json(&catalogue.used_by(&found).to_json().unwrap()).unwrap();
    assert_eq!(require(&for_version(Some("1.37")), &used).unwrap(), found);
}

#[test]
fn constants_copied_from_the_earlier_minor_count_as_unverified() {
    let catalogue = overlaid(&format!("releases: {{\"1.37\": {{like: \"1.36\"}}}}\n{PROGRAMS}"));
    let found = require(&for_version(Some("1.37.0")), &catalogue).unwrap();
    let kinds: Vec<DoubtKind> = doubts(&found, &catalogue).iter().map(|doubt| doubt.kind).collect();
    assert_eq!(kinds, [DoubtKind::Constants]);
}

#[test]
fn a_new_minor_that_is_like_none_or_like_an_unknown_one_is_refused_with_its_place() {
    let text = refused("releases: {\"1.37\": {constants: {}}}\n");
    assert!(text.contains("no Kubernetes minor \"1.37\"") && text.contains("`like`"), "{text}");
    assert!(refused("releases: {\"1.37\": {like: \"1.99\"}}\n").contains("nearest: 1.36"));
    assert!(refused("releases: {\"1.34\": {like: \"1.33\"}}\n").contains("1.34 is known"));
    assert!(refused("releases: {v1.37.0: {like: \"1.36\"}}\n").contains("not a Kubernetes minor"));
    assert!(refused("releases: {\"1.37\": {like: \"1.36\", kubeadmApi: v2}}\n").contains("v1beta4"));
}

#[test]
fn catalogue_check_reports_what_a_new_minor_lacks() {
    let gaps = check(&overlaid(RELEASE));
    assert!(gaps.iter().any(|gap| gap == "release 1.37: no patch is pinned"), "{gaps:?}");
    assert!(gaps.iter().any(|gap| gap == "release 1.37: no cri-o of this minor"), "{gaps:?}");
}
