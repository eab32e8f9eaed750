//! Writes the archives of `tests/fixtures/recorded` into a folder: `cargo run -p kubexm-tests --example record -- FOLDER`.

#![allow(clippy::expect_used, reason = "a tool for whoever works on the tests")]

use std::path::PathBuf;

use kubexm_tests::laws::record;
use kubexm_tests::samples::named;

#[tokio::main]
async fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder"));
    std::fs::create_dir_all(&folder).expect("the folder");
    let to = |name: &str| folder.join(format!("{name}.tar.gz"));
    let (planes, packages) = (named("two control planes and a worker"), named("hosts that lack packages"));
    let killed = Some("node2/join.node");
    record(planes, None, &to("rooted-whole")).await.expect("recorded");
    record(planes, killed, &to("rooted-killed")).await.expect("recorded");
    record(packages, None, &to("rooted-packages")).await.expect("recorded");
}
