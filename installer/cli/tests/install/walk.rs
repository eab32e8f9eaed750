//! `upgrade --then`: what is wrong with several bundles is said before the first host is connected to.

use std::path::PathBuf;

use predicates::prelude::*;
use predicates::str::contains;

use crate::site::{Site, closed_port, cluster_yaml};
use crate::trust::{installed, key, sign_at};

/// A bundle of this version, beside the others.
fn bundle(site: &Site, version: &str, change: impl FnOnce(String) -> String) -> String {
    let yaml = cluster_yaml(&[("node1", closed_port())]).replace("v1.34.4", version);
    let path: PathBuf = site.path(&format!("{version}.tar.zst"));
    std::fs::copy(site.bundle_with(&change(yaml), |_| true), &path).unwrap();
    path.to_str().unwrap().to_owned()
}

fn walk(site: &Site, bundles: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = site.install(&["upgrade", "-y", "--allow-unsigned", "--bundle", bundles[0]]);
    command.args(bundles[1..].iter().flat_map(|bundle| ["--then", bundle])).assert()
}

#[test]
fn bundles_in_another_order_with_a_gap_or_of_another_cluster_are_refused_before_a_host_is_asked() {
    let site = Site::new();
    let of = |version: &str| bundle(&site, version, |yaml| yaml);
    let (old, next, last) = (of("v1.33.13"), of("v1.34.4"), of("v1.35.4"));
    let back = walk(&site, &[&next, &old]).code(20);
    back.stderr(contains("has v1.33.13 after v1.34.4, which is no later version").and(contains("nothing was changed")));
    walk(&site, &[&next, &next]).code(20).stderr(contains("which is no later version"));
    walk(&site, &[&old, &last])
        .code(20)
        .stderr(contains("has v1.35.4 after v1.33.13, and minor versions cannot be skipped: a bundle of v1.34 comes"));
    let other = bundle(&site, "v1.34.5", |yaml| yaml.replace("{name: demo}", "{name: plant}"));
    walk(&site, &[&next, &other]).code(20).stderr(contains("is for cluster plant, and the one before it for demo"));
}

/// As every other command: with the address and the secrets of a bundle that would be refused nothing is connected to.
#[test]
fn what_is_remembered_of_the_cluster_is_looked_at_before_a_host_is_asked() {
    let site = Site::new();
    let of = |version: &str| bundle(&site, version, |yaml| yaml);
    let (old, next) = (of("v1.33.13"), of("v1.34.4"));
    let (ours, theirs) = (key(&site, "ours"), key(&site, "theirs"));
    for (bundle, date) in [(&old, 1_790_000_000), (&next, 1_790_000_100)] {
        sign_at(bundle.as_ref(), &ours, date);
    }
    installed(&site, &ours, 1_790_000_200);
    let signed = |bundles: [&str; 2]| {
        let mut command = site.install(&["upgrade", "-y", "--bundle", bundles[0], "--then", bundles[1]]);
        command.arg("--key").arg(site.path("ours.pub")).arg("--key").arg(site.path("theirs.pub")).assert()
    };
    signed([&old, &next]).code(34).stderr(contains("this bundle is older than what is installed"));
    // The later one is of somebody else, or was signed before the earlier one.
    let last = of("v1.35.4");
    sign_at(last.as_ref(), &theirs, 1_790_000_300);
    signed([&next, &last]).code(34).stderr(contains("what is installed was signed by key"));
    let last = of("v1.35.4");
    sign_at(last.as_ref(), &ours, 1_790_000_050);
    signed([&next, &last]).code(34).stderr(contains("this bundle is older"));
    // One that may come goes on to the host, where nobody listens.
    let last = of("v1.35.4");
    sign_at(last.as_ref(), &ours, 1_790_000_300);
    signed([&next, &last]).code(51);
}

#[test]
fn every_bundle_is_read_whole_before_the_first_upgrade_begins() {
    let site = Site::new();
    let of = |version: &str| bundle(&site, version, |yaml| yaml);
    let (old, next) = (of("v1.33.13"), of("v1.34.4"));
    let mut bytes = std::fs::read(&next).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&next, bytes).unwrap();
    let refused = walk(&site, &[&old, &next]);
    let code = refused.get_output().status.code().unwrap();
    assert!((30..40).contains(&code), "exit code {code}");
    refused.stderr(contains("one after the other").not());
}

#[test]
fn it_has_no_file_and_no_pause() {
    let site = Site::new();
    for option in [["-f", "cluster.yaml"], ["--pause-after", "control-planes"], ["--signature", "x.sig"]] {
        let mut command = site.install(&["upgrade", "--bundle", "a", "--then", "b"]);
        command.args(option).assert().code(2).stderr(contains("cannot be used with"));
    }
}
