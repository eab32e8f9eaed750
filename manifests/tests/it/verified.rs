//! What the data calls verified is what was compared with upstream, and not what was written over it since.

use std::collections::BTreeMap;

use kubexm_manifests::{Catalogue, unverified};
use kubexm_spec::Digest;
use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    feature: Option<String>,
    version: Option<String>,
    component: Option<String>,
    kubernetes: Option<String>,
    from: Option<u32>,
    of: Option<String>,
    verified: Option<BTreeMap<String, String>>,
}

fn rows() -> Vec<Row> {
    serde_saphyr::from_str(include_str!("../../data/verified.yaml")).unwrap()
}

/// As `scripts/catalogue compare` makes it.
fn of(mut lines: Vec<String>) -> String {
    lines.sort();
    Digest::of(lines.join("\n")).hex()[..12].to_owned()
}

#[test]
fn a_row_that_was_changed_after_it_was_compared_is_not_called_verified() {
    let catalogue = Catalogue::embedded();
    for row in rows().into_iter().filter(|row| row.verified.is_some()) {
        let (about, lines) = if let Some(name) = &row.feature {
            let version = row.version.as_deref().unwrap();
            (format!("{name} {version}"), catalogue.features[name].references(version))
        } else if let Some(name) = &row.component {
            (name.clone(), catalogue.components[name].versions.keys().cloned().collect())
        } else {
            let minor = row.kubernetes.as_deref().unwrap();
            let patches = catalogue.releases[minor].patches.iter();
            let range = patches.into_iter().find(|range| Some(range.from) == row.from).unwrap();
            (
                format!("Kubernetes {minor} {range}"),
                vec![range.pause.clone(), range.coredns.clone(), range.etcd.clone()],
            )
        };
        assert_eq!(row.of.unwrap(), of(lines), "{about}: compare it again (scripts/catalogue compare --write)");
    }
}

#[test]
fn every_feature_version_and_patch_range_is_verified_or_says_why_not() {
    let catalogue = Catalogue::embedded();
    for feature in catalogue.features.values() {
        for (version, known) in &feature.versions {
            assert!(known.verified.is_some() || known.unverified.is_some(), "{} {version}", feature.name);
        }
    }
    for release in catalogue.releases.values() {
        for range in &release.patches {
            assert!(range.verified.is_some() || range.unverified.is_some(), "{} {range}", release.minor);
        }
    }
    let left = unverified(&catalogue);
    let features: Vec<&String> = left.iter().filter(|text| text.contains("its images")).collect();
    assert_eq!(
        features,
        ["openebs 4.4.0: its images (openebs/dynamic-localpv-provisioner has no localpv-provisioner-4.4.0)"]
    );
}
