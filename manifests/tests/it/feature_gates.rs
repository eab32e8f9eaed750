//! The referee: the feature gates that are taken are those that the real kube-scheduler starts with. `scripts/lab build` makes it.

use std::process::Command;

use kubexm_manifests::{Catalogue, require, require_of_bundle};
use kubexm_spec::cluster::for_version;

use crate::kubeadm_images::lab;

/// Which the lab builds.
const VERSION: &str = "1.34.4";
/// Of those that are refused one in so many is tried, each by itself.
const EACH: usize = 16;

/// Every setting of every gate that the table has.
fn settings() -> Vec<(String, bool)> {
    let text = include_str!("../../data/feature-gates.yaml");
    let names = text.lines().filter_map(|line| Some(line.strip_prefix("  ")?.split_once(": {")?.0.to_owned()));
    names.flat_map(|name| [(name.clone(), true), (name, false)]).collect()
}

fn is_taken((name, on): &(String, bool)) -> bool {
    let mut cluster = for_version(Some(VERSION));
    cluster.kubernetes.as_mut().expect("a cluster").feature_gates.insert(name.clone(), *on);
    require(&cluster, &Catalogue::embedded()).is_ok()
}

#[test]
fn the_real_scheduler_starts_with_what_is_taken_and_with_nothing_else() {
    let program = lab().join(format!("k8s/{VERSION}/kube-scheduler"));
    assert!(program.is_file(), "{} is missing: run `scripts/lab build`", program.display());
    let starts = |gates: &[&(String, bool)]| {
        let all: Vec<String> = gates.iter().map(|(name, on)| format!("{name}={on}")).collect();
        let output = Command::new(&program).arg(format!("--feature-gates={}", all.join(","))).arg("--version").output();
        let output = output.expect("kube-scheduler runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (taken, refused): (Vec<_>, Vec<_>) = settings().into_iter().partition(is_taken);
    assert!(taken.len() > 200 && refused.len() > 200, "{} taken, {} refused", taken.len(), refused.len());
    for on in [true, false] {
        let (ok, said) = starts(&taken.iter().filter(|(_, value)| *value == on).collect::<Vec<_>>());
        assert!(ok, "it does not start with what is taken: {said}");
    }
    for setting in refused.iter().step_by(EACH) {
        assert!(!starts(&[setting]).0, "it starts with {setting:?}, which is refused");
    }
}

/// An earlier program may have built it; what reads it (`inspect`, `verify`) says what it has.
#[test]
fn a_bundle_with_a_gate_that_is_refused_can_still_be_read() {
    let mut cluster = for_version(Some(VERSION));
    cluster.kubernetes.as_mut().expect("a cluster").feature_gates.insert("TTLAfterFinished".to_owned(), true);
    let refused = require(&cluster, &Catalogue::embedded()).expect_err("1.24 was the last to have it");
    assert!(refused.to_string().contains("TTLAfterFinished"), "{refused}");
    let read = require_of_bundle(&cluster, &Catalogue::embedded()).expect("it is read");
    assert_eq!(read.items, require(&for_version(Some(VERSION)), &Catalogue::embedded()).expect("the same").items);
}
