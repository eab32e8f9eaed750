//! Which zone holds: `--zone`, then `KMZONE`, then the older `KKZONE` (with a warning), then `spec.bundle.zone`, then global.

use kubexm_spec::ExitCode;

use crate::server::Server;
use crate::site::{Ended, Site, assert_contains, end, noise, wanted};

fn site() -> Site {
    let site = Site::new();
    for name in ["flag", "new", "old", "file"] {
        site.write(&format!("{name}.yaml"), format!("name: {name}\nrules: []\n"));
    }
    site.write("notes", "x");
    site.extras("zone: file.yaml\nextraFiles: [{path: notes}]");
    site
}

fn dry_run(site: &Site, variables: &[(&str, &str)], more: &[&str]) -> Ended {
    let mut program = site.program();
    program.args(["build", "-f", "cluster.yaml", "--dry-run", "--json"]).args(more);
    end(program.envs(variables.iter().copied())).must(ExitCode::Ok)
}

fn zone(ended: &Ended) -> String {
    ended.document()["zone"].as_str().unwrap().to_owned()
}

#[test]
fn the_most_specific_zone_setting_wins() {
    let site = site();
    let (new, old) = (("KMZONE", "new.yaml"), ("KKZONE", "old.yaml"));
    assert_eq!(zone(&dry_run(&site, &[new, old], &["--zone", "flag.yaml"])), "flag");
    assert_eq!(zone(&dry_run(&site, &[new, old], &[])), "new");
    assert_eq!(zone(&dry_run(&site, &[("KMZONE", "")], &[])), "file", "an empty variable says nothing");
    assert_eq!(zone(&dry_run(&site, &[], &[])), "file");
    site.extras("extraFiles: [{path: notes}]");
    assert_eq!(zone(&dry_run(&site, &[], &[])), "global");
    assert_eq!(zone(&dry_run(&site, &[], &["--zone", "cn"])), "cn");
}

#[test]
fn the_old_variable_is_read_with_a_warning_and_the_new_one_without() {
    let site = site();
    let old = dry_run(&site, &[("KKZONE", "old.yaml")], &[]);
    assert_eq!(zone(&old), "old");
    assert_contains(old.document()["warnings"][0].as_str().unwrap(), &["KKZONE", "KMZONE"]);
    let new = dry_run(&site, &[("KMZONE", "new.yaml"), ("KKZONE", "old.yaml")], &[]);
    assert_eq!(new.document()["warnings"], serde_json::json!([]));
    // Whom the nearest word overrules is reported, and nobody who says the same.
    let overruled = ["KKZONE sets old.yaml", "spec.bundle.zone sets"];
    let notes = new.document()["notes"].clone();
    for (note, word) in notes.as_array().unwrap().iter().zip(overruled) {
        assert_contains(note.as_str().unwrap(), &["zone new.yaml of KMZONE is used", word]);
    }
    assert_eq!(notes.as_array().unwrap().len(), 2);
    let same = dry_run(&site, &[("KMZONE", "cn")], &["--zone", "cn"]).document()["notes"].clone();
    assert_eq!(same.as_array().unwrap().len(), 1, "{same}");

    site.write("notes", "x");
    site.extras("extraFiles: [{path: notes}]");
    let mut program = site.program();
    let built = end(program.args(["build", "-f", "cluster.yaml"]).env("KKZONE", "old.yaml")).must(ExitCode::Ok);
    assert_contains(&built.err, &["warning: KKZONE is the old name of KMZONE"]);
}

#[test]
fn a_mirror_of_the_zone_is_asked_first_and_the_origin_when_it_fails() {
    let body = noise(2, 10_000);
    let (mirror, origin) = (Server::files(vec![]), Server::files(vec![("tool", body.clone())]));
    let site = Site::new();
    site.extras(&format!("extraFiles:\n{}", wanted(&origin.url("tool"), &body)));
    let rule = format!("{{match: \"{}\", to: [\"{}\"]}}", origin.address(), mirror.url("store"));
    site.write("zone.yaml", format!("name: mirrored\nrules: [{rule}]\n"));
    site.built(&["--zone", "zone.yaml"]);
    assert_eq!((mirror.count("store/tool"), origin.count("tool")), (1, 1));
}
