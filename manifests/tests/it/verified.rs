//! What the data calls verified is what was compared with upstream, and not what was written over it since.

use std::collections::BTreeMap;

use kubexm_manifests::{Catalogue, Compared, unverified};
use kubexm_spec::Digest;
use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    feature: Option<String>,
    version: Option<String>,
    component: Option<String>,
    kubernetes: Option<String>,
    from: Option<u32>,
    supports: Option<String>,
    render: Option<String>,
    recommends: Option<String>,
    end: Option<String>,
    line: Option<String>,
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
        } else if let Some(name) = &row.supports {
            let version = row.version.as_deref().unwrap();
            let known = &catalogue.features[name].versions[version];
            let span = known.supports.as_ref();
            let word = |text: Option<&String>| text.cloned().unwrap_or_default();
            let from = format!("from {}", word(span.and_then(|span| span.from.as_ref())));
            let to = format!("to {}", word(span.and_then(|span| span.to.as_ref())));
            (
                format!("{name} {version} supports"),
                vec![from, to, format!("kernel {}", word(known.minimum_kernel.as_ref()))],
            )
        } else if let Some(name) = &row.render {
            let version = row.version.as_deref().unwrap();
            let feature = &catalogue.features[name];
            let known = &feature.versions[version];
            let rule = feature.chart.as_ref().map_or("", |chart| chart.version.as_str());
            let chart = known.chart.as_deref().unwrap_or(rule).replace("{version}", version);
            let mut lines = feature.references(version);
            lines.push(format!("chart {chart}"));
            let mut minors: Vec<&str> =
                catalogue.releases.keys().map(String::as_str).filter(|minor| known.kubernetes.hold(minor)).collect();
            minors.sort_by(|a, b| kubexm_manifests::version::compare(a, b));
            lines.push(format!("minors {}", minors.join(" ")));
            (format!("{name} {version} rendered"), lines)
        } else if let Some(minor) = &row.recommends {
            let all = catalogue.releases[minor].support.recommended_containerd.clone();
            (format!("containerd of {minor}"), all)
        } else if let Some(name) = &row.end {
            let line = row.line.as_deref().unwrap();
            let day = match name.as_str() {
                "Kubernetes" => catalogue.releases[line].end_of_life.clone().unwrap(),
                name => {
                    let feature = catalogue.features.get(name).and_then(|feature| feature.end_of_life.get(line));
                    feature.unwrap_or_else(|| &catalogue.components[name].end_of_life[line]).clone()
                }
            };
            (format!("{name} {line}"), vec![format!("{line} {day}")])
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
    let compared: Vec<&String> = left.iter().filter(|text| !text.contains(": digests of ")).collect();
    assert_eq!(
        compared,
        [
            "openebs 4.4.0: its images (read from published lists of images of two other projects (second-hand) on 2026-11-25)",
            "openebs 4.4.0: which images its chart renders (openebs/dynamic-localpv-provisioner has no localpv-provisioner-4.4.0)",
            "Kubernetes 1.24: patches from 8 to 8 (read from two published lists of images (second-hand) on 2026-11-23)",
            "Kubernetes 1.27: patches from 12 to 12 (read from a published list of images (second-hand) on 2026-11-23)",
            "Kubernetes 1.29: patches from 11 to 13 (read from published outputs of kubeadm of 1.29.11 and 1.29.13 (second-hand) on 2026-11-23)",
            "cri-dockerd: that upstream has its versions (20 versions have a tag; no tag v0.3.26)",
        ]
    );
}

#[test]
fn ranges_ends_of_lines_and_recommendations_that_were_not_compared_are_listed_with_the_reason() {
    let why = |text: &str| Some(Compared::Unverified(text.to_owned()));
    let mut catalogue = Catalogue::embedded();
    let feature = catalogue.features.get_mut("calico").unwrap();
    feature.versions.get_mut("3.31.7").unwrap().supports_compared = why("the table is gone");
    feature.end_of_life_compared.clear();
    let component = catalogue.components.get_mut("containerd").unwrap();
    component.end_of_life_compared.insert("2.2".to_owned(), Compared::Unverified("differs".to_owned()));
    let release = catalogue.releases.get_mut("1.34").unwrap();
    release.end_of_life_compared = why("no checkout");
    release.support.recommended_containerd_compared = why("no checkout");
    let left = unverified(&catalogue);
    for line in [
        "calico 3.31.7: the Kubernetes minors and the kernel that it needs (the table is gone)",
        "calico: the end of life of 3.29, 3.30",
        "containerd: the end of life of 2.2 (differs)",
        "Kubernetes 1.34: its end of life (no checkout)",
        "Kubernetes 1.34: the versions of containerd for it (no checkout)",
    ] {
        assert!(left.iter().any(|text| text == line), "{line}\n{left:#?}");
    }
}
