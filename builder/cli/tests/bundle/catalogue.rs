//! `catalogue check`: what is there, what lacks, and what nobody has checked.

use kubexm_spec::ExitCode;

use crate::site::{Site, assert_contains};

#[test]
fn the_catalogue_of_the_program_has_no_gap_and_says_what_was_not_checked() {
    let site = Site::new();
    assert_contains(
        &site.run(&["catalogue", "check"]).must(ExitCode::Ok).out,
        &[
            "no gap in 24 components",
            "unverified: cri-dockerd: that upstream has its versions (20 versions have a tag; no tag v0.3.26)",
        ],
    );
    let document = site.run(&["catalogue", "check", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["schema"], "kubexm.io/catalogue-check/v1");
    assert_eq!((&document["ok"], document["gaps"].as_array().map(Vec::len)), (&true.into(), Some(0)));
    assert!(
        document["unverified"]
            .as_array()
            .unwrap()
            .iter()
            .any(|text| { text.as_str().unwrap().starts_with("registry: digests of 3.1.2: ") })
    );
    let all = site.run(&["catalogue", "show"]).must(ExitCode::Ok).document();
    assert_eq!(all["schema"], "kubexm.io/catalogue/v2");
    assert_eq!(all["features"]["calico"]["versions"]["3.31.7"]["verified"]["tag"], "v3.31.7");
}

#[test]
fn a_gap_that_an_overlay_makes_is_reported_and_a_wrong_overlay_with_its_place() {
    let site = Site::new();
    let sum = "ab".repeat(32);
    // one architecture is enough of what users bring
    site.write(
        "good.yaml",
        format!("schema: kubexm.io/catalogue/v1\nname: mine\ncomponents: {{runc: {{versions: {{\"1.4.99\": {{amd64: {{sha256: {sum}}}}}}}}}}}\n"),
    );
    site.run(&["catalogue", "check", "good.yaml"]).must(ExitCode::Ok);
    site.write(
        "gap.yaml",
        "schema: kubexm.io/catalogue/v1\nname: mine\nreleases: {\"1.34\": {defaults: {runc: 9.9.9}}}\n",
    );
    let ended = site.run(&["catalogue", "check", "gap.yaml"]).must(ExitCode::Config);
    assert_contains(&ended.err, &["release 1.34: default runc 9.9.9 is not pinned", "no runc 9.9.9"]);
    let document = site.run(&["catalogue", "check", "gap.yaml", "--json"]).must(ExitCode::Config).document();
    assert_eq!((&document["ok"], &document["overlays"][0]), (&false.into(), &"mine".into()));
    site.write("wrong.yaml", "schema: kubexm.io/catalogue/v1\nname: mine\ncomponents: {kubelett: {}}\n");
    let ended = site.run(&["catalogue", "check", "wrong.yaml"]).must(ExitCode::Config);
    assert_contains(&ended.err, &["wrong.yaml", "line 3", "kubelet"]);
}
