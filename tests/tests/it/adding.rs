//! `docs/adding.md` names every file that an addition touches, by an example: compared with the tree.

#![allow(clippy::expect_used, reason = "what cannot be read fails the test")]

use std::collections::BTreeSet;
use std::path::Path;

use kubexm_plan::Op;

const DOCUMENT: &str = include_str!("../../../docs/adding.md");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project")
}

/// `SelinuxMode` → `selinux_mode`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Paths that a section names in backquotes.
fn named(section: &str) -> BTreeSet<String> {
    let words = section.split('`').skip(1).step_by(2);
    words.filter(|word| word.ends_with(".rs") || word.ends_with(".md")).map(str::to_owned).collect()
}

fn walk(folder: &Path, files: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path.strip_prefix(root()).expect("below").to_string_lossy().into_owned());
        }
    }
}

/// The section below a heading.
fn section(heading: &str) -> &'static str {
    let (_, section) = DOCUMENT.split_once(&format!("\n## {heading}\n")).expect("the heading");
    section.split("\n## ").next().unwrap_or_default()
}

/// The example of a section: `SelinuxMode`.
fn example(section: &str) -> &str {
    let (_, example) = section.split_once("Example: `").expect("an example");
    example.split('`').next().unwrap_or_default()
}

/// Rust files below a folder that have one of the words.
fn files_with(folder: &str, words: &[String]) -> BTreeSet<String> {
    let mut files = Vec::new();
    walk(&root().join(folder), &mut files);
    let has_word = |path: &String| {
        let text = std::fs::read_to_string(root().join(path)).expect("a file");
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        text.split(|c| !is_word(c)).any(|word| words.iter().any(|name| name == word))
    };
    files.into_iter().filter(has_word).collect()
}

#[test]
fn the_files_of_an_op_kind_and_of_an_act_are_those_that_name_the_example() {
    for heading in ["An op kind", "An act"] {
        let section = section(heading);
        let example = example(section);
        let found = files_with("installer", &[example.to_owned(), snake(example)]);
        let said: BTreeSet<String> =
            named(section).into_iter().filter(|path| path.starts_with("installer/") && path.ends_with(".rs")).collect();
        assert_eq!(said, found, "docs/adding.md (left) and the files that name {example} (right), {heading}");
    }
    for path in named(DOCUMENT) {
        assert!(root().join(&path).is_file(), "docs/adding.md names {path}, which is not there");
    }
}

/// What ships of the installer.
fn is_source(path: &str) -> bool {
    path.starts_with("installer/") && path.contains("/src/") && path.ends_with(".rs")
}

/// The files of the installer that the first table of a section names.
fn of_table(heading: &str) -> BTreeSet<String> {
    let lines = section(heading).lines().skip_while(|line| !line.starts_with('|'));
    let table: Vec<&str> = lines.take_while(|line| line.starts_with('|')).collect();
    let first = table.iter().map(|row| row.split('|').nth(1).unwrap_or_default()).collect::<Vec<_>>().join("\n");
    named(&first).into_iter().filter(|path| is_source(path)).collect()
}

/// Sources of the installer with one of the words in them.
fn sources_with(words: &[&str]) -> BTreeSet<String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    files_with("installer", &words).into_iter().filter(|path| is_source(path)).collect()
}

/// Other things of the same name, and plans of an earlier schema.
const NOT_THE_PIPELINE: [(&str, &str); 3] = [
    ("installer/engine/src/schedule.rs", "add_node of petgraph"),
    ("installer/plan/src/lint/order.rs", "the same"),
    ("installer/plan/src/schema.rs", "add-node had another name in plans of schema 2"),
];

#[test]
fn the_files_of_a_pipeline_are_those_that_name_the_example() {
    let heading = "A pipeline";
    let example = example(section(heading));
    let mut found = sources_with(&[example, &snake(example)]);
    for (path, why) in NOT_THE_PIPELINE {
        assert!(found.remove(path), "{path} ({why}) is an exception for nothing");
    }
    // Only some pipelines have a row there.
    assert!(found.remove("installer/cli/src/commands/plan.rs") && section(heading).contains("commands/plan.rs"));
    assert_eq!(of_table(heading), found, "docs/adding.md (left) and the files that name {example} (right)");
}

/// How many files an addition may touch: rows of its table.
const BUDGETS: [(&str, usize); 4] = [("An op kind", 4), ("An act", 4), ("A container runtime", 14), ("A pipeline", 5)];

#[test]
fn an_addition_touches_no_more_files_than_its_budget() {
    for (heading, budget) in BUDGETS {
        let lines = section(heading).lines().skip_while(|line| !line.starts_with('|'));
        let rows: Vec<&str> = lines.take_while(|line| line.starts_with('|')).skip(2).collect();
        let files: usize =
            rows.iter().map(|row| row.split('|').nth(1).unwrap_or_default().matches('`').count() / 2).sum();
        assert!(files <= budget, "{heading}: {files} files, and the budget is {budget}:\n{}", rows.join("\n"));
    }
}

#[test]
fn the_files_of_a_runtime_are_those_that_name_the_example() {
    let mut found = sources_with(&["CriO", "cri_o", "crio", "cri"]);
    found.retain(|path| {
        let text = std::fs::read_to_string(root().join(path)).expect("a file").to_lowercase();
        ["crio", "cri-o", "cri_o"].iter().any(|name| text.contains(name))
    });
    assert_eq!(of_table("A container runtime"), found, "docs/adding.md (left) and the files that name CRI-O (right)");
}

#[test]
fn the_files_of_the_smallest_network_are_in_the_table() {
    let said: BTreeSet<String> =
        of_table("A pod network").iter().map(|path| path.replace("/flannel.rs", "/none.rs")).collect();
    let mut found = sources_with(&["NetworkPlugin"]);
    found.retain(|path| std::fs::read_to_string(root().join(path)).expect("a file").contains("NetworkPlugin::None"));
    assert!(!found.is_empty() && found.is_subset(&said), "{found:?} and docs/adding.md: {said:?}");
}

#[test]
fn a_field_of_cluster_yaml_is_declared_in_one_file() {
    let section = section("A field of cluster.yaml");
    let key = example(section).rsplit('.').next().expect("a key");
    let found = files_with("bundle-spec/spec", &[key.to_owned(), snake(key)]);
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let said: BTreeSet<String> = rows
        .filter_map(|row| row.split('`').nth(1).filter(|path| path.starts_with("bundle-spec/spec/")))
        .map(str::to_owned)
        .collect();
    assert_eq!(said, found, "docs/adding.md (left) and the files that name {key} (right)");
    assert_eq!(found.iter().filter(|path| path.contains("/src/")).count(), 1, "one declaration, {found:?}");
}

/// Kinds with one type of data, in one file.
const SHARED: [(&str, &str); 2] = [("NodeLabel", "node_metadata"), ("NodeAnnotation", "node_metadata")];

#[test]
fn every_op_kind_has_its_file_in_plan_and_in_ops() {
    for kind in Op::KINDS {
        let shared = SHARED.iter().find(|(of, _)| of == kind);
        let name = shared.map_or_else(|| snake(kind), |(_, file)| (*file).to_owned());
        for folder in ["installer/plan/src/op", "installer/ops/src/ops"] {
            let (file, module) = (format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs"));
            let there = [&file, &module].into_iter().any(|path| root().join(path).is_file());
            assert!(there, "{kind}: neither {file} nor {module} is there");
        }
    }
}
