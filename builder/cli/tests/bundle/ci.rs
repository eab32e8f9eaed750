//! What pipelines use: the shell of the GitHub Action and of the GitLab template, run as their runners run it, and the table of
//! exit codes that they rely on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use kubexm_spec::{Digest, ExitCode};
use serde::Deserialize;

use crate::server::{Server, file};
use crate::sign;
use crate::site::{Ended, Site, assert_contains, end};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn program() -> String {
    assert_cmd::cargo::cargo_bin("kubexm-bundle").to_str().unwrap().to_owned()
}

#[derive(Deserialize)]
struct Action {
    inputs: BTreeMap<String, ActionInput>,
    #[serde(default)]
    outputs: BTreeMap<String, ActionOutput>,
    runs: Runs,
}

#[derive(Deserialize)]
struct ActionInput {
    #[serde(default)]
    default: String,
    #[serde(default)]
    required: bool,
}

#[derive(Deserialize)]
struct ActionOutput {
    value: String,
}

#[derive(Deserialize)]
struct Runs {
    using: String,
    steps: Vec<ActionStep>,
}

#[derive(Deserialize)]
struct ActionStep {
    id: String,
    shell: String,
    env: BTreeMap<String, String>,
    run: String,
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> T {
    serde_saphyr::from_str(&std::fs::read_to_string(root().join(name)).unwrap()).unwrap()
}

/// What the expression `${{ NAME }}` names.
fn expression(text: &str) -> &str {
    text.trim().strip_prefix("${{").and_then(|rest| rest.strip_suffix("}}")).unwrap().trim()
}

/// Runs the action that verifies with these inputs; how it ended, and its outputs.
fn action(site: &Site, given: &[(&str, &str)]) -> (Ended, BTreeMap<String, String>) {
    action_in(site, "scripts/ci", given)
}

fn action_in(site: &Site, folder: &str, given: &[(&str, &str)]) -> (Ended, BTreeMap<String, String>) {
    let action: Action = read(&format!("{folder}/action.yml"));
    assert_eq!(action.runs.using, "composite");
    let [step] = &action.runs.steps[..] else { panic!("one step") };
    assert_eq!(step.shell, "bash");
    assert!(!step.run.contains("${{"), "text of inputs is run: {}", step.run);
    assert!(given.iter().all(|(name, _)| action.inputs.contains_key(*name)), "{given:?}");
    let value = |name: &str| match given.iter().find(|(given, _)| *given == name) {
        Some((_, value)) => (*value).to_owned(),
        None => {
            let input = &action.inputs[name];
            assert!(!input.required || name == "bundle");
            input.default.clone()
        }
    };
    let output = site.write("outputs", "");
    let mut command = Command::new("bash");
    // As GitHub's runner starts a step with `shell: bash`.
    command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &step.run]).current_dir(site.path(""));
    command.env("GITHUB_ACTION_PATH", root().join(folder)).env("GITHUB_OUTPUT", &output);
    command.env("RUNNER_TEMP", site.path("home")).env_remove("GITHUB_TOKEN");
    for (name, text) in &step.env {
        let from = expression(text);
        match from.strip_prefix("inputs.") {
            Some(input) => command.env(name, value(input)),
            None => {
                assert_eq!(from, "github.action_repository");
                command.env(name, "example/kubexm")
            }
        };
    }
    let ended = end(&mut command);
    let text = std::fs::read_to_string(output).unwrap();
    let outputs: BTreeMap<_, _> =
        text.lines().map(|line| line.split_once('=').unwrap()).map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
    if !outputs.is_empty() {
        for (name, ActionOutput { value }) in &action.outputs {
            assert_eq!(expression(value), format!("steps.{}.outputs.{name}", step.id));
            assert!(outputs.contains_key(name), "{name} is not in {outputs:?}");
        }
    }
    (ended, outputs)
}

#[test]
fn the_action_passes_a_good_bundle_and_stops_at_a_damaged_and_at_an_unsigned_one() {
    let site = sign::built();
    let program = program();
    let base = [("program", program.as_str()), ("bundle", "out.tar.zst")];
    let (ended, outputs) = action(&site, &base);
    assert_contains(&ended.must(ExitCode::Ok).out, &["all well", "unsigned"]);
    assert_eq!((outputs["exit-code"].as_str(), outputs["signature"].as_str()), ("0", "unsigned"));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&outputs["report"]).unwrap()).unwrap();
    assert_eq!(report["manifest"], outputs["manifest"].as_str());

    let demanded = [&base[..], &[("require-signature", "true")]].concat();
    let (ended, outputs) = action(&site, &demanded);
    assert_contains(
        &ended.must(ExitCode::BundleUntrusted).out,
        &["::error title=kubexm-bundle verify: exit 34::", "unsigned"],
    );
    assert_eq!(outputs["exit-code"], "34");

    site.run(&["sign", "--key", "a.key", "out.tar.zst"]).must(ExitCode::Ok);
    let pem = std::fs::read_to_string(site.path("a.pub")).unwrap();
    for key in ["a.pub", "b.pub\na.pub\n", pem.as_str()] {
        let (ended, outputs) = action(&site, &[&demanded[..], &[("key", key)]].concat());
        ended.must(ExitCode::Ok);
        assert_eq!(outputs["signature"], "valid", "{key}");
    }
    action(&site, &[&base[..], &[("key", "b.pub")]].concat()).0.must(ExitCode::BundleUntrusted);

    let mut bytes = std::fs::read(site.path("out.tar.zst")).unwrap();
    let place = bytes.len() - 10_000;
    bytes[place] ^= 1;
    site.write("out.tar.zst", &bytes);
    let (ended, outputs) = action(&site, &base);
    let text = ended.must(ExitCode::BundleDamaged).out;
    assert_contains(&text, &["exit 30", "blobs/sha256/", "bytes "]);
    assert_eq!(text.lines().filter(|line| line.starts_with("::")).count(), 1, "{text}");
    assert_eq!(outputs["exit-code"], "30");
    site.write("out.tar.zst", &bytes[..5000]);
    action(&site, &base).0.must(ExitCode::BundleTruncated);
    site.write("out.tar.zst", "text");
    action(&site, &base).0.must(ExitCode::NotABundle);
}

#[test]
fn the_action_ends_with_2_for_wrong_inputs_and_never_runs_them() {
    let site = sign::built();
    let program = program();
    let wrong = |more: &[(&str, &str)]| action(&site, more).0.must(ExitCode::Usage).out;
    assert_contains(&wrong(&[("program", &program), ("bundle", "")]), &["no bundle is named"]);
    assert_contains(&wrong(&[("program", "./none"), ("bundle", "x")]), &["there is no ./none"]);
    assert_contains(
        &wrong(&[("program", &program), ("bundle", "x"), ("require-signature", "yes")]),
        &["true or false"],
    );
    assert_contains(&wrong(&[("version", "1.2.3"), ("bundle", "x")]), &["give sha256 too"]);
    // What `key: ${{ secrets.RELEASE_PUB }}` gives where there is no such secret.
    for empty in ["", "\n", " \n "] {
        assert_contains(
            &wrong(&[("program", &program), ("bundle", "out.tar.zst"), ("key", empty)]),
            &["key is given and empty"],
        );
    }
    let trick = "$(touch tricked)`touch tricked`; touch tricked\n--help";
    action(&site, &[("program", &program), ("bundle", trick)]);
    assert!(!site.path("tricked").exists());
}

#[test]
fn the_action_fetches_a_program_by_version_and_runs_it_only_with_the_right_digest() {
    let site = sign::built();
    let body = std::fs::read(program()).unwrap();
    let sha256 = Digest::of(&body).hex();
    let server = Server::start(move |request| file(request, &body));
    let url = server.url("v1.2.3");
    let base = [("bundle", "out.tar.zst"), ("version", "1.2.3"), ("download-url", url.as_str())];
    action(&site, &[&base[..], &[("sha256", sha256.as_str())]].concat()).0.must(ExitCode::Ok);
    let asked = server.requests();
    assert!(asked.iter().any(|request| request.path.starts_with("v1.2.3/kubexm-bundle-1.2.3-linux-")), "{asked:?}");
    let other = "0".repeat(64);
    let (ended, outputs) = action(&site, &[&base[..], &[("sha256", other.as_str())]].concat());
    assert_contains(&ended.must(ExitCode::Usage).out, &["does not have the digest"]);
    assert!(outputs.is_empty(), "it was run: {outputs:?}");
}

#[derive(Deserialize)]
struct Gitlab {
    #[serde(rename = ".kubexm-verify")]
    job: Job,
    #[serde(rename = ".kubexm-build")]
    build: Job,
}

#[derive(Deserialize)]
struct Job {
    variables: BTreeMap<String, String>,
    script: Vec<String>,
    artifacts: Artifacts,
}

#[derive(Deserialize)]
struct Artifacts {
    when: String,
    paths: Vec<String>,
}

fn gitlab(site: &Site, shell: &str, given: &[(&str, &str)]) -> Ended {
    let Gitlab { job, .. } = read("scripts/ci/gitlab.yml");
    gitlab_job(site, shell, &job, given)
}

fn gitlab_job(site: &Site, shell: &str, job: &Job, given: &[(&str, &str)]) -> Ended {
    assert!(given.iter().all(|(name, _)| job.variables.contains_key(*name)), "{given:?}");
    let mut command = Command::new(shell);
    command.args(["-e", "-c", &job.script.join("\n")]).current_dir(site.path(""));
    command.envs(&job.variables).envs(given.iter().copied());
    let _ = std::fs::remove_file(site.path("kubexm-verify.json"));
    end(&mut command)
}

#[test]
fn the_gitlab_template_ends_with_the_codes_of_verify_and_keeps_its_report() {
    let site = sign::built();
    let program = program();
    for shell in ["sh", "bash"] {
        site.built(&[]);
        let base = [("KUBEXM_PROGRAM", program.as_str()), ("KUBEXM_BUNDLE", "out.tar.zst")];
        let run = |more: &[(&str, &str)]| gitlab(&site, shell, &[&base[..], more].concat());
        let document = run(&[]).must(ExitCode::Ok).document();
        assert_eq!(document["signature"]["state"], "unsigned");
        run(&[("KUBEXM_REQUIRE_SIGNATURE", "true")]).must(ExitCode::BundleUntrusted);
        site.run(&["sign", "--key", "a.key", "out.tar.zst"]).must(ExitCode::Ok);
        run(&[("KUBEXM_REQUIRE_SIGNATURE", "true"), ("KUBEXM_KEY", "a.pub")]).must(ExitCode::Ok);
        run(&[("KUBEXM_KEY", "b.pub")]).must(ExitCode::BundleUntrusted);
        run(&[("KUBEXM_REQUIRE_SIGNATURE", "1")]).must(ExitCode::Usage);
        run(&[("KUBEXM_BUNDLE", "")]).must(ExitCode::Usage);
        for empty in ["", " "] {
            assert_contains(
                &run(&[("KUBEXM_KEY", empty)]).must(ExitCode::Usage).out,
                &["KUBEXM_KEY is given and empty"],
            );
        }
        let mut bytes = std::fs::read(site.path("out.tar.zst")).unwrap();
        let place = bytes.len() / 2;
        bytes[place] ^= 1;
        site.write("out.tar.zst", bytes);
        run(&[]).must(ExitCode::BundleDamaged);
        let kept = std::fs::read(site.path("kubexm-verify.json")).unwrap();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&kept).unwrap()["exitCode"], 30);
    }
    let Gitlab { job, .. } = read("scripts/ci/gitlab.yml");
    assert_eq!((job.artifacts.when.as_str(), job.artifacts.paths), ("always", vec!["kubexm-verify.json".to_owned()]));
}

#[test]
fn the_gitlab_template_runs_a_fetched_program_only_with_the_right_digest() {
    let site = sign::built();
    let body = std::fs::read(program()).unwrap();
    let sha256 = Digest::of(&body).hex();
    let server = Server::start(move |request| file(request, &body));
    let url = server.url("v1");
    let base = [("KUBEXM_BUNDLE", "out.tar.zst"), ("KUBEXM_VERSION", "1.2.3"), ("KUBEXM_DOWNLOAD_URL", url.as_str())];
    let run = |sha256: &str| gitlab(&site, "sh", &[&base[..], &[("KUBEXM_SHA256", sha256)]].concat());
    run(&sha256).must(ExitCode::Ok);
    run(&"0".repeat(64)).must(ExitCode::Usage);
    assert!(!site.path("kubexm-verify.json").exists());
}

#[test]
fn github_and_gitlab_have_the_same_inputs_for_verify_and_build() {
    let templates: Gitlab = read("scripts/ci/gitlab.yml");
    for (folder, job) in [("scripts/ci", &templates.job), ("scripts/ci/build", &templates.build)] {
        let action: Action = read(&format!("{folder}/action.yml"));
        let variable = |input: &String| format!("KUBEXM_{}", input.to_uppercase().replace('-', "_"));
        let inputs: BTreeMap<String, String> =
            action.inputs.iter().map(|(name, input)| (variable(name), input.default.clone())).collect();
        assert_eq!(inputs, job.variables, "{folder}");
    }
    // One text for both.
    let file = std::fs::read_to_string(root().join("scripts/ci/build-bundle")).unwrap();
    let body = |text: &str| {
        text.lines().skip_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(body(&templates.build.script.join("\n")), body(&file), "copy build-bundle to .kubexm-build");
}

#[test]
fn the_build_templates_lock_build_and_sign_and_refuse_what_is_not_locked() {
    let program = program();
    let build = read::<Gitlab>("scripts/ci/gitlab.yml").build;
    for github in [true, false] {
        let site = sign::built();
        site.write("a.txt", "one");
        site.extras("extraFiles: [{path: a.txt}]");
        let run = |given: &[(&str, &str)]| match github {
            true => action_in(&site, "scripts/ci/build", given).0,
            false => {
                let variable = |input: &str| format!("KUBEXM_{}", input.to_uppercase().replace('-', "_"));
                let given: Vec<(String, &str)> = given.iter().map(|(name, value)| (variable(name), *value)).collect();
                let given: Vec<(&str, &str)> = given.iter().map(|(name, value)| (name.as_str(), *value)).collect();
                gitlab_job(&site, "sh", &build, &given)
            }
        };
        let base = [("program", program.as_str()), ("bundle", "ci.tar.zst")];
        let pem = std::fs::read_to_string(site.path("a.key")).unwrap();
        for key in ["a.key", pem.as_str()] {
            run(&[&base[..], &[("key", key)]].concat()).must(ExitCode::Ok);
            site.run(&["verify", "ci.tar.zst", "--key", "a.pub"]).must(ExitCode::Ok);
            assert!(site.path("cluster.lock.json").exists() && site.path("kubexm-build.json").exists());
        }
        run(&[&base[..], &[("split", "100K")]].concat()).must(ExitCode::Ok);
        assert!(site.path("ci.tar.zst.001").exists());
        assert_contains(
            &run(&[&base[..], &[("key", " ")]].concat()).must(ExitCode::Usage).err,
            &["key is given and empty"],
        );
        assert_contains(
            &run(&[&base[..], &[("cluster", "none.yaml")]].concat()).must(ExitCode::Usage).err,
            &["none.yaml"],
        );
        site.write("a.txt", "two");
        run(&base).must(ExitCode::LockDrift);
    }
}

#[test]
fn shellcheck_finds_nothing_in_the_templates() {
    let Gitlab { job, .. } = read("scripts/ci/gitlab.yml");
    let inline = job.script.join("\n");
    Command::new("shellcheck").args(["-s", "sh", "-"]).write_stdin(inline).assert().success();
    for script in ["scripts/ci/verify-bundle", "scripts/ci/build-bundle"] {
        Command::new("shellcheck").arg(root().join(script)).assert().success();
    }
}

#[test]
fn exit_codes_in_the_page_are_those_of_the_programs() {
    let page = std::fs::read_to_string(root().join("docs/exit-codes.md")).unwrap();
    let table: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let (table, ci) = table.split_at(ExitCode::ALL.len());
    let wanted: Vec<String> = ExitCode::ALL.iter().map(|c| format!("| {} | {} |", c.code(), c.meaning())).collect();
    assert_eq!(table, wanted, "fix docs/exit-codes.md");
    let reported: Vec<u8> = ci[1..]
        .iter()
        .flat_map(|row| row.split('|').nth(1).unwrap().split(','))
        .map(|code| code.trim().parse().unwrap())
        .collect();
    // What a verify can end with, but for a fault of the program.
    let of_verify = |code: &u8| matches!(code, 0 | 2 | 20 | 30..=35 | 37 | 38 | 40..=44);
    let wanted: Vec<u8> = ExitCode::ALL.iter().map(|code| code.code()).filter(of_verify).collect();
    assert_eq!(reported, wanted, "fix the table of \"In CI\"");
}
