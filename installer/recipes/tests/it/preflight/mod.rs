//! Each row of preflight is made to fail, and to pass again, by one change to good facts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod identity;
mod load_balancers;
mod machine;
mod occupied;
mod settings;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use crate::common::Site;
use kubexm_plan::Facts;
use kubexm_plan::facts::{BootSysctl, Leftover, Listener, ModuleState, SelinuxState, Stamp};
use kubexm_recipes::preflight::{CHECKS, Finding, Severity};
use kubexm_recipes::{preflight, sample};
use kubexm_spec::cluster::{
    Firewall, InternalKind, LoadBalancerMode, NetworkPlugin, ProxyMode, Registry, RegistryKind, Selinux,
};
use kubexm_spec::{Arch, ArtifactKey, Program};

fn findings(change: impl FnOnce(&mut Site)) -> Vec<Finding> {
    let mut site = Site::new();
    change(&mut site);
    preflight(&site.cx())
}

fn after(change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    findings(|site| change(site.facts()))
}

/// There is exactly this one finding, it says `found`, and like every finding how to fix it.
#[track_caller]
fn one(findings: Vec<Finding>, severity: Severity, check: &str, found: &str) {
    let [finding] = findings.as_slice() else { panic!("{findings:#?}") };
    assert_eq!((finding.severity, finding.check.as_str()), (severity, check), "{finding}");
    let text = finding.to_string();
    assert!(text.contains(found), "{text}");
    assert!(!finding.needed.is_empty() && !finding.fix.is_empty(), "{text}");
}

#[track_caller]
fn fails(change: impl FnOnce(&mut Facts), check: &str, found: &str) {
    one(after(change), Severity::Fail, check, found);
}

#[track_caller]
fn warns(change: impl FnOnce(&mut Facts), check: &str, found: &str) {
    one(after(change), Severity::Warn, check, found);
}

#[track_caller]
fn passes(change: impl FnOnce(&mut Facts)) {
    assert_eq!(after(change), Vec::new());
}

const GIB: u64 = 1 << 30;

fn stamped(facts: &mut Facts) {
    facts.stamp =
        Some(Stamp { cluster: "demo".to_owned(), run: "r1".to_owned(), id: None, bundle: None, adopted: false });
}

fn second_host(site: &mut Site) {
    site.cluster.hosts.push(sample::host("node2", 12));
    site.cluster.role_groups.worker.push("node2".to_owned());
    site.facts.insert("node2".to_owned(), sample::facts("node2", 12));
}

#[test]
fn good_hosts_have_no_finding() {
    passes(|_| ());
}

#[test]
fn every_check_has_a_name_of_its_own() {
    let names: BTreeSet<_> = CHECKS.iter().map(|c| c.name).collect();
    assert_eq!(names.len(), CHECKS.len());
}

#[test]
fn a_host_of_a_platform_that_the_bundle_lacks_is_refused() {
    fails(|f| f.arch = None, "bundle", "does not know");
    fails(|f| f.arch = Some(Arch::Arm64), "bundle", "linux/arm64");
}

#[test]
fn a_bundle_that_lacks_something_is_refused_with_all_that_it_lacks() {
    let found = findings(|site| {
        let lost = [ArtifactKey::Binary(Program::Kubectl), ArtifactKey::Binary(Program::Runc)];
        site.manifest.artifacts.retain(|a| !lost.contains(&a.key));
    });
    let text = found[0].to_string();
    assert!(text.contains("binary/kubectl 1.34.4 for linux/amd64") && text.contains("binary/runc"), "{text}");
}

#[test]
fn problems_of_all_hosts_are_reported_together() {
    let found = findings(|site| {
        second_host(site);
        site.facts().cpus = 1;
        site.facts.get_mut("node2").unwrap().kernel = "2.6.32".to_owned();
    });
    let named: Vec<_> = found.iter().map(|f| (f.host.as_deref().unwrap_or_default(), f.check.as_str())).collect();
    assert_eq!(named, [("node1", "hardware"), ("node2", "kernel")]);
}
