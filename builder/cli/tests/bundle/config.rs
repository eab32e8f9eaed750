//! cluster.yaml before anything is built of it: `init`, `config`, `schema`.

use kubexm_spec::ExitCode;
use kubexm_spec::cluster::{Keyword, Profile, parse};

use crate::site::{Site, assert_contains};

#[test]
fn each_profile_of_init_can_be_built_and_is_never_written_over_a_file() {
    let site = Site::new();
    for profile in Profile::WORDS {
        let printed = site.run(&["init", "--profile", profile]).must(ExitCode::Ok).out;
        let file = format!("{profile}.yaml");
        site.run(&["init", "--profile", profile, "-o", &file]).must(ExitCode::Ok);
        assert_eq!(std::fs::read_to_string(site.path(&file)).unwrap(), printed);
        let shown = site.run(&["config", "-f", &file]).must(ExitCode::Ok);
        assert_eq!(parse(&shown.out).unwrap(), parse(&printed).unwrap(), "{profile}");
        let document = site.run(&["build", "-f", &file, "--dry-run", "--json"]).must(ExitCode::Ok).document();
        assert_eq!(document["kubernetes"], "v1.35.4", "{profile}");
        let zone = if *profile == "cn" { "cn" } else { "global" };
        assert_eq!(document["zone"], zone, "{profile}");
    }
    site.write("mine.yaml", "mine");
    let refused = site.run(&["init", "-o", "mine.yaml"]).must(ExitCode::Usage).err;
    assert_contains(&refused, &["mine.yaml already exists", "--force"]);
    assert_eq!(std::fs::read_to_string(site.path("mine.yaml")).unwrap(), "mine");
    site.run(&["init", "-o", "mine.yaml", "--force"]).must(ExitCode::Ok);
    assert_ne!(std::fs::read_to_string(site.path("mine.yaml")).unwrap(), "mine");
    assert_contains(&site.run(&["init", "--profile", "large"]).must(ExitCode::Usage).err, &["minimal, ha, harbor, cn"]);
}

#[test]
fn config_says_what_is_a_default_what_the_catalogue_chooses_and_what_is_not_installed_yet() {
    let site = Site::new();
    let text = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: one}\nspec:\n  kubernetes: {proxyMode: nftables}\n  network: {plugin: kube-ovn}\n";
    site.write("cluster.yaml", text);
    let shown = site.run(&["config", "-f", "cluster.yaml"]).must(ExitCode::Ok);
    assert_eq!(parse(&shown.out).unwrap(), parse(text).unwrap());
    let line = |start: &str| {
        let found = shown.out.lines().find(|line| line.trim_start().starts_with(start));
        found.unwrap_or_else(|| panic!("{start}: {}", shown.out))
    };
    assert!(line("maxPods: 110").ends_with("# default"));
    assert!(!line("plugin: kube-ovn").contains("default"));
    let version = line("# version: v1.");
    assert!(version.ends_with("# chosen by the catalogue"), "{version}");
    assert_contains(&shown.err, &["spec.kubernetes.proxyMode: \"nftables\"", "not supported yet"]);
    let document = site.run(&["config", "-f", "cluster.yaml", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["schema"], "kubexm.io/config/v1");
    assert_eq!(document["cluster"]["spec"]["kubernetes"]["maxPods"], 110);
    let defaults = document["defaults"].as_array().unwrap();
    assert!(defaults.contains(&"spec.kubernetes.maxPods".into()) && !defaults.contains(&"spec.network.plugin".into()));
    assert_eq!(document["notInstalled"][0]["path"], "spec.kubernetes.proxyMode");
    assert!(document["chosen"]["spec.runtime.version"].is_string(), "{document}");
    site.write("wrong.yaml", text.replace("plugin", "plugim"));
    assert_contains(
        &site.run(&["config", "-f", "wrong.yaml"]).must(ExitCode::Config).err,
        &["wrong.yaml", "line 6", "plugin"],
    );
}

#[test]
fn a_cluster_that_is_not_installed_yet_is_built_with_a_warning() {
    let site = Site::new();
    let text = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: one}\nspec:\n  runtime: {type: docker, extraConfig: {debug: true}}\n";
    site.write("cluster.yaml", text);
    let ended = site.run(&["build", "-f", "cluster.yaml", "--dry-run"]).must(ExitCode::Ok);
    assert_contains(
        &ended.err,
        &["kubexm-install refuses this cluster", "spec.runtime.extraConfig: this is known, and not supported yet"],
    );
    assert!(ended.out.contains("cri-dockerd"), "{}", ended.out);
}

#[test]
fn the_schema_is_json_for_editors_with_descriptions_and_defaults() {
    let site = Site::new();
    let schema = site.run(&["schema"]).must(ExitCode::Ok).document();
    let max_pods = &schema["properties"]["spec"]["properties"]["kubernetes"]["properties"]["maxPods"];
    assert_eq!((&max_pods["default"], &max_pods["maximum"]), (&110.into(), &254.into()));
    assert!(max_pods["description"].is_string());
}
