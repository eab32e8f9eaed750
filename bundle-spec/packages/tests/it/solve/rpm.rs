//! libsolv's rules. What is here was also asked of dnf 4.14 by hand; the referee tests build such repositories.

use kubexm_packages::solve::Baseline;
use kubexm_spec::Family::Rpm;

use crate::solve::common::{answer, pool, solved};

const POOL: &str = "app 1; R: webserver
    apache 1; P: webserver
    nginx 1; P: webserver
    webserver 1
    b 1; R: smtp
    zmail 1; P: smtp
    exim 1; P: smtp
    c 1; R: /usr/sbin/sendmail
    postfix 1; F: /usr/sbin/sendmail
    sendmail 1; F: /usr/sbin/sendmail
    libcurl 1; P: libcurl-impl
    libcurl-minimal 1; P: libcurl-impl; C: libcurl
    curl 1; R: libcurl-impl
    old 1
    new 2; O: old < 2
    d 1; R: old
    m 1
    n 1
    x1 1; R: (m if n)
    x2 1; R: (m if n); R: n
    x3 1; R: (m unless n)
    x4 1; R: (m unless n); R: n
    x5 1; R: (nope if n else m)
    y1 1; R: alt
    y2 1; R: alt2
    pa 1; P: alt
    pb 1; P: alt; P: alt2
    pc 1; P: alt2
    w1 1; R: (alt with alt2)
    w2 1; R: (alt2 without alt)
    o1 1; R: (nope or pc)
    o2 1; R: ((nope and pa) or (pb and pc))
    k 1; C: (m and n)
    l 1; C: (m unless n)";

fn asked(wanted: &str) -> String {
    answer(&pool(Rpm, POOL), wanted, &Baseline::empty())
}

#[test]
fn of_several_providers_the_first_by_name_is_taken_even_before_the_package_of_that_name() {
    assert_eq!(asked("app"), "apache 1, app 1");
    assert_eq!(asked("b"), "b 1, exim 1");
    assert_eq!(asked("c"), "c 1, postfix 1");
    assert_eq!(asked("curl"), "curl 1, libcurl 1");
}

#[test]
fn an_alternative_is_chosen_after_all_other_requirements() {
    assert_eq!(asked("y1"), "pa 1, y1 1");
    assert_eq!(asked("y1 y2"), "pb 1, y1 1, y2 1");
    assert_eq!(asked("y2 y1"), "pb 1, y1 1, y2 1");
    assert_eq!(asked("y1 pb"), "pb 1, y1 1");
    assert_eq!(asked("curl libcurl-minimal"), "curl 1, libcurl-minimal 1");
}

#[test]
fn two_providers_are_both_taken_where_both_are_needed() {
    assert_eq!(asked("y1 w2 pa"), "pa 1, pc 1, w2 1, y1 1");
}

#[test]
fn an_obsoleting_package_replaces_a_requested_one_but_not_a_dependency() {
    assert_eq!(asked("old"), "new 2");
    assert_eq!(asked("d"), "d 1, old 1");
    let reported = asked("d new");
    assert!(reported.starts_with("no: ") && reported.contains("new 2 obsoletes old < 2"), "{reported}");
}

#[test]
fn boolean_dependencies_mean_what_they_mean_to_libsolv() {
    assert_eq!(asked("x1"), "x1 1");
    assert_eq!(asked("x1 n"), "m 1, n 1, x1 1");
    assert_eq!(asked("x2"), "m 1, n 1, x2 1");
    assert_eq!(asked("x3"), "m 1, x3 1");
    assert!(asked("x4").starts_with("no: "), "{}", asked("x4"));
    assert_eq!(asked("x5"), "m 1, x5 1");
    assert!(asked("x5 n").starts_with("no: "));
    assert_eq!(asked("w1"), "pb 1, w1 1");
    assert_eq!(asked("w2"), "pc 1, w2 1");
    assert_eq!(asked("o1"), "o1 1, pc 1");
    assert_eq!(asked("o2"), "o2 1, pb 1, pc 1");
}

#[test]
fn boolean_conflicts_hold_too() {
    assert_eq!(asked("k m"), "k 1, m 1");
    let reported = asked("k m n");
    assert!(reported.starts_with("no: ") && reported.contains("conflicts with (m and n)"), "{reported}");
    assert_eq!(asked("l m"), "l 1, m 1, n 1");
    assert_eq!(asked("l m n"), "l 1, m 1, n 1");
}

#[test]
fn what_only_a_conflict_brings_is_reported_with_who_conflicts() {
    let pool = pool(Rpm, POOL);
    let closure = solved(&pool, "l m", &Baseline::empty()).unwrap();
    let reported: Vec<String> = closure
        .packages
        .iter()
        .map(|chosen| format!("{}: {}", pool.package(chosen.package).name, chosen.because))
        .collect();
    assert_eq!(reported, ["l: asked for", "m: asked for", "n: l needs n, as it conflicts with (m unless n)"]);
}

#[test]
fn a_boolean_dependency_of_too_many_clauses_is_reported_as_that() {
    let pairs: Vec<String> = (0..13).map(|at| format!("(a{at} and b{at})")).collect();
    let ands: Vec<String> = (0..13).map(|at| format!("(a{at} or b{at})")).collect();
    let names: Vec<String> = (0..13).map(|at| format!("a{at} 1\n b{at} 1")).collect();
    let text = format!(
        "x 1; R: ({})\n y 1; C: ({})\n z 1; R: (nope if x)\n{}",
        pairs.join(" or "),
        ands.join(" and "),
        names.join("\n")
    );
    let pool = pool(Rpm, &text);
    let reported = answer(&pool, "x", &Baseline::empty());
    assert!(
        reported.contains("x 1 needs ((a0 and b0) or ") && reported.contains("too large to be solved"),
        "{reported}"
    );
    assert!(!reported.contains("no repository"), "{reported}");
    // One that greed can do stays possible, and the other way round is reported in its words.
    let all: String = (0..13).map(|at| format!(" a{at}")).collect();
    let reported = answer(&pool, &format!("y{all}"), &Baseline::empty());
    assert!(
        reported.contains("y 1 conflicts with ((a0 or b0) and ") && reported.contains("too large to be solved"),
        "{reported}"
    );
}

#[test]
fn a_root_may_be_a_path_or_a_capability() {
    assert_eq!(asked("/usr/sbin/sendmail"), "postfix 1");
    assert_eq!(asked("smtp"), "exim 1");
}

#[test]
fn a_path_that_no_list_has_is_named_so_that_lists_can_be_read() {
    let pool = pool(Rpm, "a 1; R: /opt/x\n b 1; R: (/opt/x or c)\n c 1");
    let refused = solved(&pool, "a", &Baseline::empty()).unwrap_err();
    assert_eq!(refused.needs_files, ["/opt/x".into()]);
    assert_eq!(refused.to_string(), "a 1 needs /opt/x, which no repository has");
    let closure = solved(&pool, "b", &Baseline::empty()).unwrap();
    assert_eq!(closure.needs_files, ["/opt/x".into()], "with the lists the answer might be another one");
}

#[test]
fn a_version_without_a_release_means_any_release() {
    let pool = pool(Rpm, "a 1-1; R: lib = 2.0\n lib 2.0-7\n lib 2.1-1");
    assert_eq!(answer(&pool, "a", &Baseline::empty()), "a 1-1, lib 2.0-7");
}

#[test]
fn packages_of_other_architectures_are_ignored() {
    let pool = pool(Rpm, "a 1; R: lib\n lib 2; Arch: i686\n lib 1; Arch: x86_64");
    assert_eq!(answer(&pool, "a", &Baseline::empty()), "a 1, lib 1");
}

#[test]
fn a_condition_that_a_package_brings_about_itself_holds() {
    // Found by the property test.
    let pool = pool(Rpm, "e 1; P: v\n f 2; P: v; R: (c if v else f); O: e");
    assert_eq!(answer(&pool, "e", &Baseline::empty()), "e 1");
}

#[test]
fn many_packages_that_provide_one_name_are_chosen_among_at_once() {
    // Metadata of rpm's family is not signed: whoever serves it may write this. It took minutes, and grew with the square.
    let mut text = "socat 1; R: x\nboth 1; R: (x and (x with y))\n".to_owned();
    (0..20_000).for_each(|number| text.push_str(&format!("p{number:05} 1; P: x; P: y\n")));
    text.push_str("newer 2; P: x; O: p00000 < 2; O: p00001\n");
    let pool = pool(Rpm, &text);
    let begun = std::time::Instant::now();
    // `newer` makes the first two obsolete.
    assert_eq!(answer(&pool, "socat", &Baseline::empty()), "newer 2, socat 1");
    assert_eq!(answer(&pool, "both", &Baseline::empty()), "both 1, newer 2, p00002 1");
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}
