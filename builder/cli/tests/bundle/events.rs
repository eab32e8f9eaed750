//! What machines read: dry runs need no network, events end in a result, help and codes hold.

use kubexm_spec::ExitCode;
use serde_json::Value;

use crate::server::{Server, nobody};
use crate::site::{Site, assert_contains, bundles, end, noise, wanted};

#[test]
fn a_dry_run_sends_no_request_writes_nothing_and_lists_the_content() {
    let site = Site::new();
    let url = format!("http://{}/tool", nobody());
    site.extras(&format!("extraFiles:\n{}\n", wanted(&url, b"x")));
    assert_contains(
        &site.build(&["--dry-run"]).must(ExitCode::Ok).out,
        &["file/tool", &url, "user", "1 artifact of unknown size"],
    );
    let document = site.build(&["--dry-run", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["schema"], "kubexm.io/dry-run/v1");
    assert_eq!(document["items"][0]["sources"][0], Value::from(url));
    assert!(bundles(&site.path("")).is_empty());
    assert!(!site.path("kubexm").exists(), "a dry run writes nothing");
}

#[test]
fn the_sample_that_init_prints_builds() {
    let site = Site::new();
    let sample = site.run(&["init"]).must(ExitCode::Ok).out;
    site.write("cluster.yaml", sample);
    let document = site.build(&["--dry-run", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["kubernetes"], "v1.35.4");
    let keys: Vec<&str> = document["items"].as_array().unwrap().iter().map(|i| i["key"].as_str().unwrap()).collect();
    for key in ["binary/kubeadm", "binary/etcd", "image/pause", "image/flannel-cni-plugin", "installer/kubexm-install"]
    {
        assert!(keys.contains(&key), "{key} is not in {keys:?}");
    }
    assert_eq!(
        site.run(&["build", "--kubernetes", "v1.35.4", "--dry-run", "--json"]).document()["items"],
        document["items"]
    );
}

#[test]
fn events_are_json_and_end_in_a_result() {
    let site = Site::new();
    let body = noise(1, 4 << 20);
    let server = Server::files(vec![("tool", body.clone())]);
    site.extras(&format!("extraFiles:\n{}", wanted(&server.url("tool"), &body)));
    let ended = site.build(&["--json"]).must(ExitCode::Ok);
    assert_eq!(ended.err, "");
    let events = ended.events();
    assert!(events.iter().all(|event| event["schema"] == "kubexm.io/event/v1" && event["time"].is_string()));
    let phases: Vec<&Value> = events.iter().filter(|e| e["type"] == "phase").map(|e| &e["name"]).collect();
    assert_eq!(phases, ["lock", "fetch", "pack"]);
    for what in ["lock", "fetch", "pack"] {
        let last = events.iter().rfind(|e| e["type"] == "progress" && e["what"] == what).unwrap();
        assert_eq!(last["done"], last["total"], "{what} ends at its total");
    }
    assert!(events.len() < 60, "{} events for four mebibytes", events.len());
    let result = events.last().unwrap();
    assert_eq!((&result["type"], &result["ok"], &result["exitCode"]), (&"result".into(), &true.into(), &0.into()));
    let size = std::fs::metadata(site.path("out.tar.zst")).unwrap().len();
    assert_eq!(result["data"]["size"], size);
    let shown = site.run(&["inspect", "--json", "out.tar.zst"]).document();
    assert_eq!(shown["manifest"], result["data"]["manifest"]);
}

#[test]
fn a_build_that_fails_ends_in_a_result_too() {
    let site = Site::new();
    let server = Server::files(vec![]);
    site.extras(&format!("extraFiles:\n{}", wanted(&server.url("none"), b"x")));
    let events = site.build(&["--json"]).must(ExitCode::OriginMissing).events();
    let result = events.last().unwrap();
    assert_eq!((&result["type"], &result["ok"], &result["exitCode"]), (&"result".into(), &false.into(), &42.into()));
    assert_contains(result["summary"].as_str().unwrap(), &["file/none", &server.url("none")]);
    site.extras("extraFile: []");
    let events = site.build(&["--json"]).must(ExitCode::Config).events();
    assert_eq!((events.len(), &events[0]["type"]), (1, &"result".into()));
}

#[test]
fn without_o_the_bundle_is_called_after_name_version_and_platforms() {
    let site = Site::new();
    site.write("notes", "x");
    site.extras("platforms: [linux/arm64, linux/amd64]\nextraFiles: [{path: notes}]");
    site.run(&["build", "-f", "cluster.yaml"]).must(ExitCode::Ok);
    assert_eq!(bundles(&site.path("")), ["extras-amd64-arm64.tar.zst"]);
}

#[test]
fn a_closed_pipe_does_not_end_a_build() {
    let site = Site::new();
    site.write("notes", noise(1, 2 << 20));
    site.extras("extraFiles: [{path: notes}]");
    let mut shell = assert_cmd::Command::new("sh");
    let program = assert_cmd::cargo::cargo_bin("kubexm-bundle");
    shell
        .arg("-c")
        .arg(format!("{} build --json -f cluster.yaml -o out.tar.zst | true", program.display()))
        .current_dir(site.path(""))
        .env("KUBEXM_HOME", site.path("kubexm"));
    end(&mut shell).must(ExitCode::Ok);
    site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);
}

#[test]
fn the_help_holds_the_table_of_exit_codes() {
    let help = Site::new().run(&["--help"]).must(ExitCode::Ok).out;
    // A line that is too wide continues in the next one.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for code in ExitCode::ALL {
        assert_contains(&help, &[code.meaning()]);
    }
    Site::new().run(&["build", "--jobs", "0"]).must(ExitCode::Usage);
    Site::new().run(&["build", "--no-such"]).must(ExitCode::Usage);
}

#[test]
fn help_wraps_its_paragraphs_once_and_has_options_of_addresses_where_they_matter() {
    let site = Site::new();
    let help = |verb: &str| site.run(&[verb, "--help"]).must(ExitCode::Ok).out;
    for verb in ["verify", "pull", "build", "sbom"] {
        assert_contains(&help(verb), &["--plain-http", "--ca-file"]);
    }
    for verb in ["init", "lock", "schema", "keygen", "cache"] {
        assert!(!help(verb).contains("--plain-http"), "{verb}");
    }
    // Without a terminal lines are 100 columns wide at most; those of a paragraph that was wrapped before are far shorter
    // in its middle.
    let verify = help("verify");
    let lines: Vec<&str> = verify.lines().collect();
    let start = lines.iter().position(|line| line.starts_with("Four questions")).unwrap();
    let paragraph: Vec<&&str> = lines[start..].iter().take_while(|line| !line.is_empty()).collect();
    let inner = &paragraph[..paragraph.len() - 1];
    assert!(inner.iter().all(|line| line.len() > 80), "{paragraph:#?}");
    assert_contains(&verify, &["\n  kubexm-bundle verify --key release.pub site.tar.zst\n"]);
    for verb in [&["schema"][..], &["lock"], &["keygen", "-o", "a"], &["cache", "gc"]] {
        site.run(&[verb, &["--plain-http"]].concat()).must(ExitCode::Usage);
    }
}
