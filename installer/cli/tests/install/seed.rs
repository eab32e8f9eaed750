//! `seed` as it is typed: what is refused before any registry is asked. What it pushes is tested in `installer/seed`.

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

use crate::site::{Site, closed_port};

#[test]
fn an_address_that_is_none_and_a_password_in_the_arguments_are_refused_without_the_secret() {
    let site = Site::new();
    let bundle = site.bundle(1);
    let bundle = bundle.to_str().unwrap();
    for to in ["https://r.test", "r.test/Upper", "robot:hunter2@r.test"] {
        site.install(&["seed", "--bundle", bundle, "--to", to])
            .assert()
            .code(2)
            .stderr(contains("HOST[:PORT][/PREFIX]"));
    }
    let args = ["seed", "--bundle", bundle, "--to", "r.test", "--username", "robot", "--password-from", "hunter2"];
    site.install(&args).assert().code(2).stderr(contains("file:PATH").and(contains("hunter2").not()));
    let alone = ["seed", "--bundle", bundle, "--to", "r.test", "--username", "robot"];
    site.install(&alone).assert().code(2).stderr(contains("--password-from"));
}

#[test]
fn a_file_that_is_no_bundle_an_unsigned_one_and_a_map_in_the_way_are_refused_first() {
    let site = Site::new();
    let to = format!("127.0.0.1:{}", closed_port());
    let none = site.path("none.tar.zst");
    site.install(&["seed", "--bundle", none.to_str().unwrap(), "--to", &to]).assert().code(37);
    let bundle = site.bundle(1);
    let bundle = bundle.to_str().unwrap();
    site.install(&["seed", "--bundle", bundle, "--to", &to, "--require-signature"]).assert().code(34);
    let own = site.path("notes.yaml");
    std::fs::write(&own, "mine: true\n").unwrap();
    let map = ["seed", "--bundle", bundle, "--to", &to, "--map-out", own.to_str().unwrap()];
    site.install(&map).assert().failure().stderr(contains("notes.yaml"));
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "mine: true\n");
}

/// Another machine has it: `ssh media cat site.tar.zst | kubexm-install seed --bundle - …`.
#[test]
fn a_bundle_on_standard_input_is_one_whole_bundle_from_a_pipe_or_a_file() {
    let site = Site::new();
    let to = format!("127.0.0.1:{}", closed_port());
    let bytes = std::fs::read(site.bundle(1)).unwrap();
    let spool = site.path("spool");
    let seed = |more: &[&str]| {
        let mut args = vec!["seed", "--bundle", "-", "--to", &to, "--spool", spool.to_str().unwrap()];
        args.extend(more);
        let mut command = site.install(&args);
        command.write_stdin(bytes.clone());
        command
    };
    // It was read as far as its signatures, from a file of which nothing stays.
    seed(&["--require-signature"]).assert().code(34);
    assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0);
    seed(&["--base", "-"]).assert().code(2).stderr(contains("one whole bundle"));
    let mut cut = site.install(&["seed", "--bundle", "-", "--to", &to]);
    cut.write_stdin(&bytes[..bytes.len() / 2]).assert().code(31).stderr(contains("standard input"));
}
