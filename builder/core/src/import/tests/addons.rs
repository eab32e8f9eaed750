//! Add-ons.

use std::path::PathBuf;

use kubexm_spec::cluster::{Addon, AddonKind, AddonSource};

use super::{cluster, file, import, left_at};

fn addons(text: &str) -> Vec<Addon> {
    cluster(&import(&file(text))).addons
}

#[test]
fn a_chart_without_a_version_is_left_out_with_all_that_goes_with_it() {
    let imported = import(&file(
        "  addons:
  - name: nfs
    namespace: kube-system
    sources:
      chart:
        name: nfs
        repo: https://charts.example.com
        valuesFile: ./nfs.yaml
        values: [nfs.server=10.0.0.2]
",
    ));
    assert_eq!(cluster(&imported).addons, []);
    for path in ["", ".sources.chart", ".sources.chart.values", ".sources.chart.valuesFile"] {
        assert_eq!(left_at(&imported, &format!("spec.addons[0]{path}")).len(), 1, "{path}: {:#?}", imported.left);
    }
}

#[test]
fn a_file_of_a_web_server_is_no_path() {
    let imported =
        import(&file("  addons:\n  - {name: a, sources: {yaml: {path: [\"https://example.com/a.yaml\"]}}}\n"));
    assert_eq!(cluster(&imported).addons, []);
    assert!(left_at(&imported, "spec.addons[0].sources.yaml.path[0]")[0].contains("sha256"));
}

#[test]
fn an_addon_of_several_sources_becomes_several() {
    let all = addons(
        "  addons:
  - name: web
    namespace: web
    sources: {chart: {name: web, path: ./charts}, yaml: {path: [./a.yaml, ./b.yaml]}}
",
    );
    let path = |text: &str| AddonSource::Path { path: PathBuf::from(text) };
    let found: Vec<_> = all.iter().map(|a| (a.name.as_str(), a.kind, a.source.clone(), a.namespace.as_str())).collect();
    assert_eq!(
        found,
        [
            ("web", AddonKind::Helm, path("./charts/web"), "web"),
            ("web-2", AddonKind::Yaml, path("./a.yaml"), "web"),
            ("web-3", AddonKind::Yaml, path("./b.yaml"), "web"),
        ]
    );
}

#[test]
fn an_addon_that_our_reader_does_not_take_is_left_out_alone() {
    let imported = import(&file(
        "  addons:
  - {name: Bad_Name, sources: {yaml: {path: a.yaml}}}
  - {name: range, sources: {chart: {name: web, repo: \"https://a.test\", version: \"^1.2\"}}}
  - {name: good, sources: {yaml: {path: b.yaml}}}
  - {name: good, sources: {yaml: {path: c.yaml}}}
",
    ));
    let names: Vec<String> = cluster(&imported).addons.into_iter().map(|addon| addon.name).collect();
    assert_eq!(names, ["good"]);
    let lines: std::collections::BTreeSet<usize> = imported.left.iter().map(|left| left.line).collect();
    assert!([8, 9, 11].iter().all(|line| lines.contains(line)) && !lines.contains(&10), "{:#?}", imported.left);
}
