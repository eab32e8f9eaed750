//! A file that says little and stands for much is refused before it is built: it may come from a bundle that nobody signed.

use kubexm_spec::cluster::Problems;
use kubexm_spec::yaml;

use crate::cluster_rules::refused as refused_file;

fn refused(text: &str, why: &str) {
    let error = yaml::parse(text).expect_err(why).to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn texts_that_aliases_repeat_count_each_time() {
    refused(&format!("x: &a \"{}\"\ny: [{}]\n", "A".repeat(1 << 20), "*a, ".repeat(90_000)), "MiB of text");
    refused(&format!("x: &a {}\ny: [{}]\n", "A".repeat(400), "*a, ".repeat(90_000)), "MiB of text");
    // Anchors within anchors are copies of copies.
    let nested = format!("{}\"{}\"{}", "[&a ".repeat(60), "A".repeat(1 << 20), "]".repeat(60));
    refused(&nested, "MiB of text");
}

#[test]
fn keys_have_an_end_and_so_have_paths() {
    refused(&format!("\"{}\": 1\n", "k".repeat(600)), "a key of more than");
    let deep = format!("{}1{}", format!("{{{}: ", "k".repeat(200)).repeat(20), "}".repeat(20));
    refused(&deep, "the keys above this");
    // Behind an alias, too: each level is short, and they add up.
    let mut chain = format!("a0: &a0 {{{}: 1}}\n", "k".repeat(400));
    for level in 1..10 {
        chain.push_str(&format!("a{level}: &a{level} {{{}: *a{}}}\n", "k".repeat(400), level - 1));
    }
    refused(&chain, "the keys above this");
}

#[test]
fn what_people_write_is_read() {
    let text = format!(
        "base: &base {{ image: {}, args: [a, b] }}\n{}",
        "x".repeat(200),
        (0..50).map(|at| format!("s{at}: {{<<: *base, name: n{at}}}\n")).collect::<String>()
    );
    yaml::parse(&text).expect("a tree");
}

fn of_groups(problems: &Problems) -> usize {
    problems.0.iter().filter(|problem| problem.path.starts_with("spec.roleGroups")).count()
}

#[test]
fn a_long_name_is_refused_before_a_range_makes_a_thousand_of_it() {
    let problems = refused_file(&format!("  roleGroups: {{master: [\"{}[1:1000]\"]}}\n", "A".repeat(10_000)));
    let text = problems.to_string();
    assert!(text.contains("has 10008 bytes, and the name of a host has 253 at most") && text.len() < 2_000, "{text}");
}

#[test]
fn an_item_has_one_problem_and_a_short_hint_however_many_names_it_stands_for() {
    let (long, name) = ("b".repeat(4000), "a".repeat(130));
    let items: String = (0..30).map(|at| format!("\"{name}{at}x[1:1000]\", ")).collect();
    let problems = refused_file(&format!("  hosts: [{{name: {long}}}]\n  roleGroups: {{worker: [{items}]}}\n"));
    let of_them = problems.0.iter().filter(|problem| problem.text.starts_with("there is no host")).count();
    assert_eq!(of_them, 30, "one for each item");
    assert!(problems.to_string().len() < 40_000);
    let one = refused_file("  hosts: [{name: node1}]\n  roleGroups: {worker: [\"nod[1:9]\"]}\n");
    assert!(one.to_string().contains("there is no host \"nod1\" (nearest: node1)"), "{one}");
}

#[test]
fn the_names_of_all_ranges_are_counted_before_they_are_written_out() {
    let items: String = (0..450).map(|at| format!("\"a{at}x[1:1000]\", ")).collect();
    let problems = refused_file(&format!("  roleGroups: {{master: [{items}]}}\n"));
    let text = problems.to_string();
    assert!(text.contains("the ranges of this file stand for more than 400000 names"), "{text}");
    assert!(problems.0.len() <= 1001, "{}", problems.0.len());
}

#[test]
fn twenty_thousand_hosts_are_named_by_ranges_and_many_unknown_ones_get_few_hints() {
    let hosts = |count: usize| -> String {
        let one = |at: usize| format!("  - {{name: n{at}, address: 10.{}.{}.{}}}\n", at >> 14, at >> 7 & 127, at & 127);
        (1..=count).map(one).collect()
    };
    let ranges: String = (0..20).map(|at| format!("\"n[{}:{}]\", ", at * 1000 + 1, at * 1000 + 1000)).collect();
    let whole = format!(
        "  hosts:\n{}  roleGroups: {{master: [n1], worker: [{ranges}]}}\n  network: {{podCidr: 172.16.0.0/8}}\n",
        hosts(20_000)
    );
    // 20,000 hosts are no matter of names (what else is said of them is none of ours).
    match kubexm_spec::cluster::parse(&crate::cluster_rules::file(&whole)) {
        Ok(cluster) => assert_eq!(cluster.role_groups.worker.len(), 20_000),
        Err(problems) => assert_eq!(of_groups(&problems), 0, "{problems}"),
    }
    let unknown: String = (0..100).map(|at| format!("\"{}{at}[1:1000]\", ", "m".repeat(90))).collect();
    let problems =
        refused_file(&format!("  hosts:\n{}  roleGroups: {{master: [n1], worker: [{unknown}]}}\n", hosts(500)));
    let hints = problems.0.iter().filter(|problem| problem.hint.starts_with("nearest")).count();
    assert_eq!((hints, of_groups(&problems) >= 100), (20, true));
}

#[test]
fn unknown_fields_without_end_are_counted_and_not_all_listed() {
    let fields: String = (0..3000).map(|at| format!("  unknown{at}: 1\n")).collect();
    let problems = refused_file(&fields);
    assert_eq!(problems.0.len(), 1001);
    assert!(problems.to_string().contains("there are 2000 more problems, which are not listed"));
}

#[test]
fn a_file_names_a_thousand_others_and_no_more() {
    let script = |count: usize| {
        let names: String = (0..count).map(|at| format!("m{at}, ")).collect();
        format!("  system: {{preInstall: [{{name: x, bash: \"true\", materials: [{names}]}}]}}\n")
    };
    let whole = kubexm_spec::cluster::parse(&crate::cluster_rules::file(&script(1000))).expect("a file");
    assert_eq!(whole.materials().len(), 1000);
    let text = refused_file(&script(1001)).to_string();
    assert!(text.contains("1001 files beside this one are named") && text.contains("1000 may be"), "{text}");
}
