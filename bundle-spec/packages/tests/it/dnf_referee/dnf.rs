//! dnf as a referee: one process of its own Python for many sets.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::dnf_referee::Universe;

#[derive(Serialize)]
struct Request<'a> {
    root: String,
    platform: &'a str,
    arch: &'a str,
    repos: Vec<Repo<'a>>,
    enabled: Vec<String>,
    sets: &'a [&'a [&'a str]],
}

#[derive(Serialize)]
struct Repo<'a> {
    id: &'a str,
    folder: String,
    hotfixes: bool,
    priority: i32,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    packages: Vec<String>,
    error: Option<String>,
}

/// `repo name-version.arch` of what dnf would install for each set, or what it says where there is no way.
pub fn resolve(universe: &Universe, sets: &[&[&str]]) -> Vec<Result<BTreeSet<String>, String>> {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("log")).unwrap();
    let repos = universe.repos.iter().map(|repo| Repo {
        id: repo.id,
        folder: repo.folder.display().to_string(),
        hotfixes: repo.hotfixes,
        priority: repo.priority,
    });
    let request = Request {
        root: root.path().display().to_string(),
        platform: universe.platform,
        arch: universe.arch,
        repos: repos.collect(),
        enabled: universe.enabled.iter().map(|(module, stream)| format!("{module}:{stream}")).collect(),
        sets,
    };
    // Debian's own Python: dnf's library is a package of Debian's.
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", include_str!("resolve.py")])
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&serde_json::to_vec(&request).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "dnf's library died (scripts/test installs python3-dnf)");
    let answers: Vec<Answer> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answers.len(), sets.len());
    let reported = |answer: Answer| match answer.error {
        Some(error) => Err(error),
        None => Ok(answer.packages.into_iter().collect()),
    };
    answers.into_iter().map(reported).collect()
}
