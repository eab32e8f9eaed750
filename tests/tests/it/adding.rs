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

#[test]
fn the_files_of_an_op_kind_and_of_an_act_are_those_that_name_the_example() {
    let mut files = Vec::new();
    walk(&root().join("installer"), &mut files);
    for heading in ["An op kind", "An act"] {
        let (_, section) = DOCUMENT.split_once(&format!("\n## {heading}\n")).expect("the heading");
        let section = section.split("\n## ").next().unwrap_or_default();
        let (_, example) = section.split_once("Example: `").expect("an example");
        let example = example.split('`').next().unwrap_or_default();
        let words = [example.to_owned(), snake(example)];
        let names = |path: &&String| {
            let text = std::fs::read_to_string(root().join(path)).expect("a file");
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            text.split(|c| !is_word(c)).any(|word| words.iter().any(|name| name == word))
        };
        let found: BTreeSet<String> = files.iter().filter(names).cloned().collect();
        let said: BTreeSet<String> =
            named(section).into_iter().filter(|path| path.starts_with("installer/") && path.ends_with(".rs")).collect();
        assert_eq!(said, found, "docs/adding.md (left) and the files that name {example} (right), {heading}");
    }
    for path in named(DOCUMENT) {
        assert!(root().join(&path).is_file(), "docs/adding.md names {path}, which is not there");
    }
}

#[test]
fn every_op_kind_has_its_file_in_plan_and_in_ops() {
    for kind in Op::KINDS {
        let name = snake(kind);
        for folder in ["installer/plan/src/op", "installer/ops/src/ops"] {
            let (file, module) = (format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs"));
            let there = [&file, &module].into_iter().any(|path| root().join(path).is_file());
            assert!(there, "{kind}: neither {file} nor {module} is there");
        }
    }
}
