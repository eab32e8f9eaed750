//! Closures over what a host has already: nothing is removed, nothing made older, no more upgraded than must be.

use kubexm_packages::solve::Baseline;
use kubexm_spec::Family::{self, Deb, Rpm};

use crate::solve::common::{answer, baseline, package, pool, solved};

fn over(family: Family, installed: &str, text: &str, wanted: &str) -> String {
    answer(&pool(family, text), wanted, &baseline(family, installed))
}

#[test]
fn what_is_installed_satisfies_and_is_left_at_its_version() {
    for family in [Deb, Rpm] {
        let (need, least) =
            if family == Deb { ("Depends: lib (>= 1)", "Depends: lib (>= 2)") } else { ("R: lib >= 1", "R: lib >= 2") };
        let text = format!("a 1; {need}\n b 1; {least}\n lib 2");
        assert_eq!(over(family, "lib 1", &text, "a"), "a 1");
        assert_eq!(over(family, "lib 1", &text, "lib"), "");
        assert_eq!(over(family, "lib 1", &text, "b"), "b 1, lib 2");
        assert_eq!(over(family, "a 1", &text, "a"), "");
    }
}

#[test]
fn an_upgrade_names_the_version_that_goes() {
    let pool = pool(Deb, "b 1; Depends: lib (>= 2)\n lib 2");
    let closure = solved(&pool, "b", &baseline(Deb, "lib 1")).unwrap();
    let replaced: Vec<Option<&str>> = closure.packages.iter().map(|one| one.replaces.as_deref()).collect();
    assert_eq!(replaced, [None, Some("1")]);
}

#[test]
fn a_family_locked_by_equal_versions_is_upgraded_together() {
    let installed = "iptables 1; Depends: libip4tc (= 1), libxtables (= 1)\n libip4tc 1\n libxtables 1";
    let text = "iptables 2; Depends: libip4tc (= 2), libxtables (= 2)\n libip4tc 2\n libxtables 2\n a 1; Depends: libxtables (>= 2)";
    assert_eq!(over(Deb, installed, text, "a"), "a 1, iptables 2, libip4tc 2, libxtables 2");
    let (installed, text) = (rpm(installed), rpm(text));
    assert_eq!(over(Rpm, &installed, &text, "a"), "a 1, iptables 2, libip4tc 2, libxtables 2");
}

/// The same relations in rpm's words.
fn rpm(text: &str) -> String {
    let line = |line: &str| {
        let (head, needs) = line.split_once("; Depends: ").unwrap_or((line, ""));
        let needs = needs.split(", ").filter(|need| !need.is_empty());
        let needs: String = needs.map(|need| format!("; R: {}", need.replace(['(', ')'], ""))).collect();
        format!("{head}{needs}\n")
    };
    text.lines().map(line).collect()
}

#[test]
fn a_node_that_is_newer_than_the_bundle_is_not_made_older() {
    let installed = "iptables 3; Depends: libxtables (= 3)\n libxtables 3";
    let text = "iptables 2; Depends: libxtables (= 2)\n libxtables 2\n a 1; Depends: libxtables (= 2)\n b 1; Depends: iptables";
    assert_eq!(over(Deb, installed, text, "b"), "b 1");
    assert_eq!(over(Deb, installed, text, "iptables"), "");
    let reported = over(Deb, installed, text, "a");
    assert!(reported.starts_with("no: ") && reported.contains("a 1 needs libxtables (= 2)"), "{reported}");
}

#[test]
fn what_conflicts_with_what_is_installed_is_refused_and_both_are_named() {
    let text = "chrony 4; Conflicts: ntp";
    let reported = over(Deb, "ntp 1", text, "chrony");
    assert!(reported.contains("chrony 4 conflicts with ntp") && reported.contains("ntp 1 is installed"), "{reported}");
    let reported = over(Deb, "timesyncd 1; Conflicts: time-daemon", "chrony 4; Provides: time-daemon", "chrony");
    assert!(reported.contains("timesyncd 1 conflicts with time-daemon"), "{reported}");
    let reported = over(Rpm, "old 1", "new 2; O: old", "new");
    assert!(reported.contains("new 2 obsoletes old") && reported.contains("old 1 is installed"), "{reported}");
}

#[test]
fn a_conflict_that_an_upgrade_ends_is_ended_by_it() {
    let text = "a 2; Conflicts: tool (<< 2)\n tool 2";
    assert_eq!(over(Deb, "tool 1", text, "a"), "a 2, tool 2");
    let pool = pool(Deb, text);
    let closure = solved(&pool, "a", &baseline(Deb, "tool 1")).unwrap();
    assert_eq!(closure.packages[1].because.to_string(), "a needs tool 2, as it conflicts with tool (<< 2)");
    // Or it is the installed one that conflicts.
    let closure = solved(&pool, "a", &baseline(Deb, "tool 1; Conflicts: a")).unwrap();
    assert_eq!(closure.packages[1].because.to_string(), "a needs tool 2, as it conflicts with tool (<< 2)");
    let pool = crate::solve::common::pool(Deb, "a 2\n tool 2");
    let closure = solved(&pool, "a", &baseline(Deb, "tool 1; Conflicts: a")).unwrap();
    assert_eq!(closure.packages[1].because.to_string(), "a needs tool 2, as tool 1 conflicts with a");
}

#[test]
fn what_is_held_is_not_upgraded() {
    let pool = pool(Deb, "a 1; Depends: lib (>= 2)\n lib 2");
    let mut held = baseline(Deb, "lib 1");
    held.held.insert("lib".into());
    assert!(answer(&pool, "a", &held).starts_with("no: "), "{}", answer(&pool, "a", &held));
}

#[test]
fn what_was_broken_before_is_left_alone() {
    assert_eq!(over(Deb, "old 1; Depends: gone\n x 1; Conflicts: y\n y 1", "a 1", "a"), "a 1");
}

#[test]
fn an_existing_conflict_is_not_made_worse() {
    // Found by the property test.
    let reported = over(Deb, "a 1; Provides: w\n b 1; Conflicts: w", "e 1; Provides: w", "e");
    assert!(reported.starts_with("no: b 1 conflicts with w"), "{reported}");
}

#[test]
fn a_package_of_another_architecture_does_not_satisfy_and_keeps_the_same_version() {
    let text = "a 1; Depends: lib\n lib 2; Arch: amd64; Multi-Arch: same\n b 1; Depends: lib (>= 2)";
    assert_eq!(over(Deb, "lib 2; Arch: i386; Multi-Arch: same", text, "a"), "a 1, lib 2");
    let reported = over(Deb, "lib 1; Arch: i386; Multi-Arch: same\n lib 1; Arch: amd64; Multi-Arch: same", text, "b");
    assert!(reported.starts_with("no: "), "{reported}");
}

#[test]
fn several_kernels_may_be_installed() {
    let installed =
        Baseline { packages: ["kernel 1", "kernel 2"].map(|line| package(Rpm, line)).to_vec(), ..Baseline::default() };
    assert_eq!(answer(&pool(Rpm, "a 1; R: kernel >= 2\n kernel 3"), "a", &installed), "a 1");
}
