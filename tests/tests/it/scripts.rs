//! What scripts decide: which scenes of `scripts/e2e` run, and what `scripts/bench` reports when a part of it could not run.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot set itself up has failed")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn python(script: &str, args: &[&str]) -> String {
    let output = Command::new("python3").arg(root().join(script)).args(args).output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Lanes and scenes that run, in order; scenes that are left out, and why.
struct Choice {
    run: Vec<(String, String)>,
    left: Vec<(String, String)>,
}

impl Choice {
    fn of(args: &[&str]) -> Self {
        let scenes = root().join("tests/e2e");
        let mut all = vec![scenes.to_str().expect("a path")];
        all.extend(args);
        let (mut run, mut left) = (Vec::new(), Vec::new());
        for line in python("tests/e2e/choose.py", &all).lines() {
            match line.splitn(3, ' ').collect::<Vec<_>>()[..] {
                ["run", lane, scene] => run.push((lane.to_owned(), scene.to_owned())),
                ["left", scene, why] => left.push((scene.to_owned(), why.to_owned())),
                _ => panic!("{line}"),
            }
        }
        Self { run, left }
    }

    fn names(&self) -> BTreeSet<&str> {
        self.run.iter().map(|(_, scene)| scene.as_str()).collect()
    }

    fn place(&self, scene: &str) -> Option<(&str, usize)> {
        self.run.iter().enumerate().find(|(_, (_, name))| name == scene).map(|(at, (lane, _))| (lane.as_str(), at))
    }
}

/// Names of all scenes whose file has this line.
fn scenes_with(line: &str) -> BTreeSet<String> {
    let files = std::fs::read_dir(root().join("tests/e2e")).expect("the folder of scenes");
    let names = files.map(|entry| entry.expect("an entry").path()).filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_prefix("scene-")?.strip_suffix(".sh")?.to_owned();
        std::fs::read_to_string(&path).expect("a scene").lines().any(|one| one.starts_with(line)).then_some(name)
    });
    names.collect()
}

fn commits() -> impl Iterator<Item = Choice> {
    (0..64).map(|hash| Choice::of(&["--commit", &format!("{hash:040x}")]))
}

#[test]
fn every_commit_runs_the_scenes_of_tier_always_and_every_long_scene_has_its_turn() {
    let (always, long) = (scenes_with("# tier: always"), scenes_with("# tier: long"));
    assert!(always.len() > 3 && long.len() > 3, "{always:?} {long:?}");
    let mut had = BTreeSet::new();
    for choice in commits() {
        let names = choice.names();
        assert!(always.iter().all(|name| names.contains(name.as_str())), "{names:?}");
        let picked: BTreeSet<String> = long.iter().filter(|name| names.contains(name.as_str())).cloned().collect();
        assert!((1..=2).contains(&picked.len()), "{picked:?}");
        had.extend(picked);
    }
    assert_eq!(had, long);
}

#[test]
fn what_does_not_run_is_named_with_its_reason() {
    let all = scenes_with("# tier: ");
    for choice in commits().chain([Choice::of(&["--within", "300"])]) {
        let left: BTreeSet<&str> = choice.left.iter().map(|(scene, _)| scene.as_str()).collect();
        assert!(left.is_disjoint(&choice.names()), "{left:?}");
        assert_eq!(left.len() + choice.run.len(), all.len(), "{left:?}");
        assert!(choice.left.iter().all(|(_, why)| !why.is_empty()));
    }
}

#[test]
fn with_long_every_scene_runs_once() {
    let choice = Choice::of(&["--long"]);
    assert_eq!(choice.run.len(), choice.names().len());
    assert_eq!(choice.names(), scenes_with("# tier: ").iter().map(String::as_str).collect());
}

#[test]
fn the_scenes_of_tier_always_fit_into_a_quarter_of_an_hour_and_fewer_into_less() {
    let always = scenes_with("# tier: always");
    let quarter = Choice::of(&["--within", "900"]);
    assert!(always.iter().all(|name| quarter.names().contains(name.as_str())), "{:?}", quarter.left);
    let less = Choice::of(&["--within", "300"]);
    assert!(less.names().len() < quarter.names().len() && less.names().len() > 1, "{:?}", less.run);
    assert!(less.left.iter().any(|(scene, why)| always.contains(scene) && why.contains("300 s")), "{:?}", less.left);
}

#[test]
fn a_scene_that_starts_from_a_cluster_runs_after_its_creator_in_the_same_lane() {
    let (makers, starters) = (scenes_with("# makes: fleet"), scenes_with("# starts-from: fleet"));
    assert_eq!((makers.len(), starters.is_empty()), (1, false));
    for choice in commits().chain([Choice::of(&["--long"])]) {
        for maker in &makers {
            let (lane, at) = choice.place(maker).expect("the maker runs");
            // A long one runs in some commits only.
            let places: Vec<_> = starters.iter().filter_map(|starter| choice.place(starter)).collect();
            assert!(!places.is_empty(), "{:?}", choice.run);
            for (other, after) in places {
                assert!(other == lane && after > at, "{:?}", choice.run);
            }
        }
    }
}

#[test]
fn a_scene_never_compares_with_a_later_one_of_its_own_lane() {
    let choices = commits().chain([Choice::of(&["--long"]), Choice::of(&["--only", "kills resume"])]);
    for choice in choices {
        for (scene, compared) in [("kills", "fleet"), ("resume", "online")] {
            let Some((lane, at)) = choice.place(scene) else { continue };
            let (other, before) = choice.place(compared).expect("what it compares with runs");
            assert!(other != lane || before < at, "{:?}", choice.run);
        }
    }
}

#[test]
fn a_part_of_the_bench_that_cannot_run_is_named_and_the_others_figures_are_kept() {
    let work = tempfile::tempdir().expect("a folder");
    let samples = "1\tverify\t0.50\t2048\t0.4\t0.1\n1\tsha256sum-file\t1.00\t1024\t0.9\t0.1\n";
    std::fs::write(work.path().join("samples.tsv"), samples).expect("samples");
    std::fs::write(work.path().join("failed"), "many-hosts\nfleet\n").expect("failed parts");
    let folder = work.path().to_str().expect("a path");
    let table = python("tests/bench/report.py", &[folder, "table", "fleet"]);
    assert!(table.contains("Could not run: many-hosts, fleet.") && table.contains("| 0.50 |"), "{table}");
    let json = python("tests/bench/report.py", &[folder, "json", "fleet"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["failed"], serde_json::json!(["many-hosts", "fleet"]));
    assert_eq!(json["comparisons"][0]["ratio"], 0.5);
}

/// The end of a test run does not read as if somebody had looked.
#[test]
fn where_there_is_no_database_of_advisories_it_is_said_that_nothing_was_checked() {
    let empty = tempfile::tempdir().expect("a folder");
    let output = Command::new(root().join("scripts/advisories")).env("CARGO_HOME", empty.path()).output();
    let output = output.expect("the script");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.starts_with("not checked: advisories"), "{output:?}");
    assert!(said.contains(&*empty.path().to_string_lossy()) && said.lines().count() == 1, "{said}");
}
