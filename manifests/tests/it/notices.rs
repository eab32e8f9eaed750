//! What upstream says against the versions of a cluster: other minors, lines that have ended.

use kubexm_manifests::{Catalogue, Notice, NoticeKind, notices, require};
use kubexm_spec::Cluster;
use kubexm_spec::cluster::{InternalKind, LoadBalancerMode, NetworkPlugin, RuntimeKind, for_version, parse};

fn on(day: &str, cluster: &Cluster) -> Vec<Notice> {
    let catalogue = Catalogue::embedded();
    let requirements = require(cluster, &catalogue).unwrap_or_else(|error| panic!("{error}"));
    notices(&requirements, &catalogue, day)
}

fn texts(all: &[Notice], kind: NoticeKind) -> Vec<String> {
    all.iter().filter(|notice| notice.kind == kind).map(ToString::to_string).collect()
}

fn addon(kubernetes: &str, source: &str) -> Cluster {
    let text = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: x}}\nspec:\n  kubernetes: {{version: {kubernetes}}}\n  addons: [{{name: a, type: helm, source: {source}}}]\n"
    );
    parse(&text).unwrap()
}

#[test]
fn a_version_that_upstream_makes_for_other_minors_is_reported_with_the_one_that_fits() {
    let named = addon("v1.34.4", "{catalogue: cert-manager, version: 1.18.6}");
    let text = texts(&on("2026-01-01", &named), NoticeKind::OutOfRange).remove(0);
    assert_eq!(
        text,
        "cert-manager 1.18.6: upstream names Kubernetes 1.29 to 1.33 for it, and this is 1.34; 1.20.3 is for 1.34"
    );
    // of several that fit the one that is chosen where none is named
    let mut cilium = addon("v1.33.13", "{catalogue: cilium, version: 1.16.19}");
    cilium.network.plugin = NetworkPlugin::None;
    let text = texts(&on("2026-01-01", &cilium), NoticeKind::OutOfRange).remove(0);
    assert!(text.ends_with("and this is 1.33; 1.18.5 is for 1.33"), "{text}");
    // the default is the one that fits, where there is one
    let default = addon("v1.34.4", "{catalogue: cert-manager}");
    assert_eq!(texts(&on("2026-01-01", &default), NoticeKind::OutOfRange), [""; 0]);
    let old = addon("v1.24.17", "{catalogue: metrics-server}");
    let text = texts(&on("2023-01-01", &old), NoticeKind::OutOfRange).remove(0);
    assert!(text.contains("1.25 and later") && text.ends_with("the catalogue knows none for 1.24"), "{text}");
}

#[test]
fn every_minor_has_the_default_that_upstream_names_for_it() {
    for (minor, feature, version) in [
        ("1.29", "calico", "3.29.7"),
        ("1.31", "calico", "3.30.7"),
        ("1.34", "calico", "3.31.7"),
        ("1.36", "calico", "3.32.1"),
        ("1.28", "metrics-server", "0.7.2"),
        ("1.34", "metrics-server", "0.8.0"),
        ("1.33", "cilium", "1.18.5"),
        ("1.34", "cilium", "1.19.6"),
        ("1.36", "cilium", "1.20.0"),
        ("1.27", "ingress-nginx", "1.11.8"),
        ("1.35", "ingress-nginx", "1.15.1"),
        ("1.24", "traefik", "3.6.15"),
        ("1.25", "traefik", "3.7.11"),
        ("1.36", "traefik", "3.7.11"),
        ("1.24", "metallb", "0.16.1"),
        ("1.36", "node-feature-discovery", "0.19.0"),
    ] {
        let feature = &Catalogue::embedded().features[feature];
        let mut cluster = for_version(Some(minor));
        let asked = if feature.name == "cilium" {
            cluster.network.plugin = NetworkPlugin::Cilium;
            &cluster
        } else if feature.chart.is_some() {
            cluster = addon(minor, &format!("{{catalogue: {}}}", feature.name));
            &cluster
        } else {
            cluster.network.plugin = NetworkPlugin::Calico;
            &cluster
        };
        let versions = require(asked, &Catalogue::embedded()).unwrap().versions.unwrap();
        assert_eq!(versions.features[&feature.name], version, "{minor}");
    }
}

#[test]
fn the_end_of_a_line_is_reported_from_its_day_on_and_changes_no_version() {
    let mut cluster = for_version(Some("1.34.4"));
    assert_eq!(
        texts(&on("2026-11-06", &cluster), NoticeKind::EndOfLife).len(),
        1,
        "no default is a line that has ended"
    );
    cluster.runtime.version = Some("2.2.7".to_owned());
    cluster.load_balancer.mode =
        LoadBalancerMode::Internal { kind: InternalKind::Haproxy, vip: None, port: 6443, interface: None };
    let ended = |day: &str| texts(&on(day, &cluster), NoticeKind::EndOfLife);
    assert_eq!(ended("2026-10-26"), [""; 0]);
    let kubernetes =
        "Kubernetes 1.34.4: upstream ended 1.34 on 2026-10-27; the newest that this catalogue knows is 1.36";
    assert_eq!(ended("2026-10-27"), [kubernetes]);
    let containerd = "containerd 2.2.7: upstream ended its line on 2026-11-06; 2.3.4 has patches still";
    assert_eq!(ended("2026-11-06"), [kubernetes, containerd]);
    let haproxy = "haproxy 3.2.22: upstream ended its line on 2030-04-01; the catalogue has no line of it for 1.34 that has patches still";
    assert!(ended("2030-04-01").contains(&haproxy.to_owned()), "{:?}", ended("2030-04-01"));
    let harbor = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: x}\nspec:\n  kubernetes: {version: v1.34.4}\n  registry: {type: harbor}\n";
    let ended = texts(&on("2025-04-09", &parse(harbor).unwrap()), NoticeKind::EndOfLife);
    assert!(
        ended.iter().any(|text| text.starts_with("harbor 2.10.2: upstream ended its line on 2025-04-09")),
        "{ended:?}"
    );
    let retired = addon("v1.34.4", "{catalogue: ingress-nginx}");
    assert!(texts(&on("2026-04-01", &retired), NoticeKind::EndOfLife)[0].starts_with("ingress-nginx 1.15.1"));
    let old = |kubernetes: &str| addon(kubernetes, "{catalogue: traefik, version: 3.6.15}");
    let ended = texts(&on("2026-08-16", &old("v1.34.4")), NoticeKind::EndOfLife);
    assert!(ended[0].starts_with("traefik 3.6.15: ") && ended[0].contains("; 3.7.11 is newer"), "{ended:?}");
    let ended = texts(&on("2026-08-16", &old("v1.24.17")), NoticeKind::EndOfLife);
    assert!(ended.iter().any(|text| text.contains("no line of it for 1.24 that has patches still")), "{ended:?}");
}

#[test]
fn suggested_versions_fit_the_minor_and_unknown_ends_are_called_unknown() {
    let ended = |day: &str, cluster: &Cluster, name: &str| {
        let all = texts(&on(day, cluster), NoticeKind::EndOfLife);
        all.into_iter().find(|text| text.starts_with(name)).unwrap_or_default()
    };
    let manager = |kubernetes: &str, day: &str| {
        let cluster = addon(kubernetes, "{catalogue: cert-manager, version: 1.18.6}");
        ended(day, &cluster, "cert-manager ")
    };
    // the newest of all is 1.21.1, which upstream makes for 1.33 and later
    let text = manager("v1.33.13", "2026-08-01");
    assert!(text.ends_with("; 1.21.1 is newer, and its end is not known"), "{text}");
    let text = manager("v1.32.13", "2026-08-01");
    assert!(text.ends_with("; 1.20.3 is newer, and its end is not known"), "{text}");
    let text = manager("v1.31.14", "2026-08-01");
    assert!(text.ends_with("; the catalogue has no line of it for 1.31 that has patches still"), "{text}");
    let text = manager("v1.31.14", "2026-04-01");
    assert!(text.ends_with("; 1.19.2 has patches still"), "{text}");
    let mut cluster = for_version(Some("1.34.4"));
    (cluster.runtime.kind, cluster.runtime.version) = (RuntimeKind::Containerd, Some("1.7.28".to_owned()));
    assert!(ended("2026-10-01", &cluster, "containerd ").ends_with("; 2.3.4 has patches still"));
}

#[test]
fn a_containerd_that_upstream_does_not_recommend_for_a_minor_is_reported() {
    let with = |kubernetes: &str, version: &str| {
        let mut cluster = for_version(Some(kubernetes));
        (cluster.runtime.kind, cluster.runtime.version) = (RuntimeKind::Containerd, Some(version.to_owned()));
        texts(&on("2025-01-01", &cluster), NoticeKind::OutOfRange)
    };
    assert_eq!(
        with("1.34.4", "2.0.5"),
        [
            "containerd 2.0.5: for Kubernetes 1.34 upstream recommends 1.6.39, 1.7.28, 2.0.6, 2.1.3 and later of the same lines"
        ]
    );
    for fine in ["1.7.28", "2.0.6", "2.1.9", "2.2.7", "2.3.4"] {
        assert_eq!(with("1.34.4", fine), [""; 0], "{fine}");
    }
    assert_eq!(with("1.36.4", "2.1.9").len(), 1);
    // every default is recommended
    for minor in Catalogue::embedded().releases.keys() {
        assert_eq!(texts(&on("2020-01-01", &for_version(Some(minor))), NoticeKind::OutOfRange), [""; 0], "{minor}");
    }
}
