//! The support matrix: programs that do not go with a Kubernetes are refused, whoever names them.

#![expect(clippy::panic, reason = "helpers of tests may fail the test")]

use kubexm_manifests::release::PatchRange;
use kubexm_manifests::{Catalogue, Release, RequireError, require, version};
use kubexm_spec::cluster::{EtcdKind, KubernetesKind, RuntimeKind, for_version};
use kubexm_spec::{Digest, ExitCode};

const HEAD: &str = "schema: kubexm.io/catalogue/v1\nname: old\n";

fn overlaid(text: &str) -> Catalogue {
    Catalogue::embedded().overlaid(&format!("{HEAD}{text}")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn cri_o_of_another_minor_is_refused_with_those_that_go_with_it() {
    let with = |kubernetes: &str, version: &str| {
        let mut cluster = for_version(Some(kubernetes));
        (cluster.runtime.kind, cluster.runtime.version) = (RuntimeKind::CriO, Some(version.to_owned()));
        require(&cluster, &Catalogue::embedded())
    };
    assert_eq!(with("1.34.4", "1.34.1").unwrap().versions.unwrap().runtime, "cri-o 1.34.1");
    let error = with("1.34.4", "1.33.2").unwrap_err();
    assert!(
        matches!(&error, RequireError::MinorMismatch { known, .. } if known.contains(&"1.34.1".to_owned())),
        "{error}"
    );
    assert_eq!(error.exit_code(), ExitCode::Config);
}

#[test]
fn an_etcd_of_an_overlay_that_is_older_than_kubeadm_takes_is_refused_and_kubeadms_own_never() {
    let sum = Digest::of("x").hex();
    let catalogue = overlaid(&format!(
        "components: {{etcd: {{default: 3.5.23, versions: {{3.5.23: {{amd64: {{sha256: {sum}}}}}}}}}}}\n"
    ));
    let mut cluster = for_version(Some("1.34.4"));
    cluster.etcd.kind = EtcdKind::Kubexm;
    let error = require(&cluster, &catalogue).unwrap_err();
    assert!(matches!(&error, RequireError::EtcdTooOld { minimum, .. } if minimum == "3.5.24"), "{error}");
    assert!(error.to_string().contains("components.etcd.default"), "{error}");
    // kubeadm 1.33.0 runs an etcd that the newest patch of 1.33 would not take from others: so bundles of earlier programs have it
    let mut old = for_version(Some("1.33.0"));
    old.etcd.kind = EtcdKind::Kubexm;
    old.kubernetes.as_mut().unwrap().kind = KubernetesKind::Kubexm;
    let mut earlier = Catalogue::embedded();
    earlier.releases.get_mut("1.33").unwrap().etcd_before_next = None;
    assert_eq!(require(&old, &earlier).unwrap().versions.unwrap().programs["etcd"], "3.5.21");
}

/// Upstream's upgrade guide of etcd 3.6: members that were removed under earlier patches come back otherwise.
#[test]
fn a_minor_before_etcd_3_6_runs_3_5_26_whatever_its_kubeadm_names_unless_an_overlay_names_one() {
    let catalogue = Catalogue::embedded();
    let mut gated = Vec::new();
    for (release, next) in catalogue.releases.values().zip(catalogue.releases.values().skip(1)) {
        let line = |release: &Release, range: &PatchRange| version::minor(release.etcd_version(range)).to_owned();
        let goes = next.patches.iter().any(|range| line(next, range) == "3.6");
        for range in release.patches.iter().filter(|range| goes && line(release, range) == "3.5") {
            let version = release.etcd_version(range);
            assert!(version::compare(version, "3.5.26").is_ge(), "{}, {range}: {version}", release.minor);
            gated.push(release.minor.clone());
        }
    }
    assert_eq!(gated, ["1.33", "1.33"]);
    let etcd = |patch: &str, catalogue: &Catalogue| {
        let versions = require(&for_version(Some(patch)), catalogue).unwrap().versions.unwrap();
        [versions.images["etcd"].clone(), versions.programs["etcd"].clone()]
    };
    for patch in ["1.33.0", "1.33.13"] {
        assert_eq!(etcd(patch, &catalogue), ["3.5.26-0", "3.5.26"], "{patch}");
    }
    let named = |tag: &str| overlaid(&format!("releases: {{\"1.33\": {{constants: {{etcd: {tag}}}}}}}\n"));
    for (tag, version) in [("3.5.24-0", "3.5.24"), ("3.5.32-0", "3.5.32")] {
        assert_eq!(etcd("1.33.13", &named(tag)), [tag, version]);
    }
}
