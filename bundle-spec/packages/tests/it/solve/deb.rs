//! apt's rules. What is here was also asked of apt 2.6 by hand; the whole of Debian is in the referee tests.

use kubexm_packages::solve::{Baseline, Because};
use kubexm_spec::Family::Deb;

use crate::solve::common::{answer, package, pool, repos, solved};

fn asked(text: &str, wanted: &str) -> String {
    answer(&pool(Deb, text), wanted, &Baseline::empty())
}

#[test]
fn pre_depends_are_needed_too() {
    let text = "a 1; Pre-Depends: p; Depends: d\n d 1\n p 1; Depends: q\n q 1";
    assert_eq!(asked(text, "a"), "a 1, d 1, p 1, q 1");
}

#[test]
fn the_first_alternative_is_taken_unless_another_one_is_there_already() {
    let text = "a 1; Depends: b | d\n b 1\n c 1; Depends: d | b\n d 1";
    assert_eq!(asked(text, "a c"), "a 1, b 1, c 1");
    assert_eq!(asked(text, "c a"), "a 1, c 1, d 1");
    assert_eq!(asked(text, "a d"), "a 1, d 1");
}

#[test]
fn a_later_root_decides_between_alternatives_of_an_earlier_one() {
    let text = "a 1; Depends: m | n\n m 1\n n 1";
    assert_eq!(asked(text, "a n"), "a 1, n 1");
}

#[test]
fn an_alternative_that_cannot_be_had_is_passed_over() {
    let text = "a 1; Depends: b | c\n b 1; Depends: nowhere\n c 1";
    assert_eq!(asked(text, "a"), "a 1, c 1");
}

#[test]
fn an_alternative_that_conflicts_with_what_is_there_is_passed_over() {
    let text = "a 1; Depends: b | c; Conflicts: b\n b 1\n c 1";
    assert_eq!(asked(text, "a"), "a 1, c 1");
}

#[test]
fn a_real_package_comes_before_those_that_provide_its_name_and_these_come_by_priority() {
    let text = "a 1; Depends: awk\n mawk 1; Provides: awk; Priority: 0\n gawk 1; Provides: awk";
    assert_eq!(asked(text, "a"), "a 1, mawk 1");
    assert_eq!(asked(&format!("{text}\n awk 1; Priority: 4"), "a"), "a 1, awk 1");
}

#[test]
fn versioned_provides_satisfy_versioned_needs_and_bare_ones_do_not() {
    let text = "a 1; Depends: v (>= 2)\n bare 1; Provides: v\n old 1; Provides: v (= 1)\n new 1; Provides: v (= 3)";
    assert_eq!(asked(text, "a"), "a 1, new 1");
}

#[test]
fn the_highest_version_of_all_repositories_wins_and_one_name_has_one_version() {
    let text = "a 1; Depends: lib (>= 1)\n b 1; Depends: lib\n lib 1 0\n lib 3 1\n lib 2 2";
    assert_eq!(asked(text, "a b"), "a 1, b 1, lib 3");
}

#[test]
fn a_repository_with_a_higher_priority_wins_over_versions() {
    let packages = ["a 1 0", "a 2 1"].map(|line| package(Deb, line)).to_vec();
    let mut repos = repos();
    repos[0].priority = 1;
    let pool = kubexm_packages::solve::Pool::new(Deb, "amd64", repos, packages);
    assert_eq!(answer(&pool, "a", &Baseline::empty()), "a 1");
}

#[test]
fn an_older_version_is_chosen_where_the_newest_has_no_solution() {
    // apt says that this cannot be: it looks at no version but the newest.
    let text = "a 1; Depends: lib (= 1)\n lib 1\n lib 2";
    assert_eq!(asked(text, "a"), "a 1, lib 1");
    let text = "a 1; Depends: b, c\n b 1; Conflicts: c (>= 2)\n c 2\n c 1";
    assert_eq!(asked(text, "a"), "a 1, b 1, c 1");
}

#[test]
fn a_choice_made_too_early_is_rolled_back() {
    let text = "a 1; Depends: m | n, z\n m 1; Conflicts: z\n n 1\n z 1";
    assert_eq!(asked(text, "a"), "a 1, n 1, z 1");
}

#[test]
fn other_architectures_are_not_there_and_qualifiers_are_kept() {
    let text = "a 1; Depends: py:any, lib:native\n py 1; Arch: amd64; Multi-Arch: allowed\n lib 1; Arch: amd64\n b 1; Depends: lib:any\n i 1; Arch: i386";
    assert_eq!(asked(text, "a"), "a 1, lib 1, py 1");
    assert_eq!(
        asked(text, "b"),
        "no: b 1 needs lib:any, which lib 1 is not: its Multi-Arch is not `allowed`, as `:any` wants"
    );
    assert_eq!(asked(text, "i"), "no: no repository has i; close to it: a, b");
}

#[test]
fn any_is_satisfied_by_multi_arch_allowed_only_as_with_dpkg_and_apt() {
    let text = "foreign 1; Depends: py:any\n py 1; Arch: amd64; Multi-Arch: foreign; Provides: v (= 2)\n plain 1; Depends: py\n virtual 1; Depends: v:any (>= 2)\n old 1; Depends: py:any (>= 2)\n named 1; Depends: py:i386";
    assert_eq!(asked(text, "plain"), "plain 1, py 1");
    let reported = asked(text, "foreign");
    assert!(reported.contains("py:any, which py 1 is not: its Multi-Arch is not `allowed`"), "{reported}");
    let reported = asked(text, "virtual");
    assert!(reported.contains("v:any (>= 2), which py 1 is not: its Multi-Arch is not `allowed`"), "{reported}");
    // No version would do, whatever its Multi-Arch.
    assert_eq!(asked(text, "old"), "no: old 1 needs py:any (>= 2), which no repository has (there is 1)");
    let reported = asked(text, "named");
    assert!(reported.contains("named 1 needs py:i386, which py 1 is not: it is of amd64"), "{reported}");
    let installed = crate::solve::common::baseline(Deb, "py 1; Arch: amd64; Multi-Arch: foreign");
    let pool = pool(Deb, "a 1; Depends: py:any");
    assert!(answer(&pool, "a", &installed).starts_with("no: "));
    let installed = crate::solve::common::baseline(Deb, "py 1; Arch: i386; Multi-Arch: allowed");
    assert_eq!(answer(&pool, "a", &installed), "a 1");
}

#[test]
fn a_conflict_with_any_means_every_package_of_that_name() {
    // As dpkg has it (deparchsatisfied): the qualifier takes nothing away from what a conflict means.
    let text = "a 1; Conflicts: py:any\n py 1; Arch: amd64; Multi-Arch: foreign\n b 1; Conflicts: lib:any\n lib 1";
    assert!(asked(text, "a py").starts_with("no: a 1 conflicts with py:any"), "{}", asked(text, "a py"));
    assert!(asked(text, "b lib").starts_with("no: b 1 conflicts with lib:any"), "{}", asked(text, "b lib"));
}

#[test]
fn a_circle_of_needs_is_closed() {
    assert_eq!(asked("a 1; Depends: b\n b 1; Depends: c\n c 1; Depends: a", "a"), "a 1, b 1, c 1");
}

#[test]
fn a_chain_of_fifty_thousand_needs_is_followed() {
    let text: String = (0..50_000).map(|at| format!("p{at} 1; Depends: p{}\n", at + 1)).collect();
    let pool = pool(Deb, &format!("{text}p50000 1"));
    assert_eq!(solved(&pool, "p0", &Baseline::empty()).unwrap().packages.len(), 50_001);
}

#[test]
fn a_package_may_conflict_with_what_it_provides_itself() {
    let text = "exim 1; Provides: mta; Conflicts: mta\n postfix 1; Provides: mta; Conflicts: mta";
    assert_eq!(asked(text, "exim"), "exim 1");
    let both = asked(text, "exim postfix");
    assert!(both.contains("conflicts with mta"), "{both}");
}

#[test]
fn each_package_has_a_reason_and_the_first_one_counts() {
    let pool = pool(Deb, "a 1; Depends: lib (>= 1) | other\n b 1; Depends: lib\n lib 1; Depends: base\n base 1");
    let closure = solved(&pool, "a b", &Baseline::empty()).unwrap();
    let reasons: Vec<String> = closure
        .packages
        .iter()
        .map(|chosen| format!("{}: {}", pool.package(chosen.package).name, chosen.because))
        .collect();
    let expected = ["a: asked for", "b: asked for", "base: lib needs base", "lib: a needs lib (>= 1) | other"];
    assert_eq!(reasons, expected);
    assert_eq!(closure.packages[0].because, Because::Root("a".into()));
}

#[test]
fn what_is_missing_is_reported_with_who_needs_it_and_what_there_is() {
    let text = "socat 1.7; Depends: libwrap0 (>= 7.6)\n libwrap0 7.5\n top 1; Depends: socat";
    assert_eq!(asked(text, "socat"), "no: socat 1.7 needs libwrap0 (>= 7.6), which no repository has (there is 7.5)");
    let reported = asked(text, "top");
    assert!(
        reported.contains("top 1 needs socat") && reported.contains("libwrap0 (>= 7.6), which no repository has"),
        "{reported}"
    );
}

#[test]
fn a_conflict_is_reported_with_its_dependency_path() {
    let text = "a 1; Conflicts: b\n b 1\n c 2; Depends: b";
    assert_eq!(asked(text, "a c"), "no: a 1 conflicts with b, and so cannot be installed with b 1; c 2 needs b");
}

#[test]
fn two_versions_of_one_name_are_reported() {
    let reported = asked("a 1; Depends: lib (= 1)\n b 1; Depends: lib (= 2)\n lib 1\n lib 2", "a b");
    for part in ["a 1 needs lib (= 1)", "b 1 needs lib (= 2)", "only one of lib"] {
        assert!(reported.contains(part), "{reported}");
    }
}

#[test]
fn an_unknown_name_is_reported_with_near_ones() {
    assert_eq!(asked("socat 1\n socket 1", "sokat"), "no: no repository has sokat; close to it: socat, socket");
    assert_eq!(asked("socat 1", "socat=2"), "no: no repository has socat (= 2) (there is 1)");
}

#[test]
fn a_name_that_several_packages_provide_is_no_root() {
    let reported = asked("x 1; Provides: v\n y 1; Provides: v", "v");
    assert_eq!(reported, "no: v is not a package; name one of those that provide it: x, y");
    assert_eq!(asked("x 1; Provides: v", "v"), "x 1");
}

#[test]
fn a_package_with_unreadable_relations_is_not_used() {
    let text = "a 1; Depends: ((\n b 1; Depends: a | c\n c 1";
    assert_eq!(asked(text, "b"), "b 1, c 1");
    assert!(asked(text, "a").starts_with("no: a 1 cannot be used: "), "{}", asked(text, "a"));
}
