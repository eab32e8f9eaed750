//! A file that says little and stands for much is refused before it is built: it may come from a bundle that nobody signed.

use kubexm_spec::yaml;

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
