//! `catalogue refresh`, against origins on the loopback interface that answer as the real ones do: pages of releases, releases that
//! are no releases, sums beside files, rate limits, and login pages in between.

mod failures;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use kubexm_spec::ExitCode;
use serde_json::{Value, json};

use crate::server::{Reply, Request, Server};
use crate::site::{Site, assert_contains, end};

const SUM: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const ZONED: [&str; 5] = ["api.github.com", "dl.k8s.io", "github.com", "helm.cilium.io", "kubernetes-sigs.github.io"];

/// A site whose zone sends every origin of these tests to a server.
fn site(server: &Server) -> Site {
    let site = Site::new();
    let rules: Vec<String> = ZONED
        .iter()
        .map(|host| format!("- {{match: {host}, to: [\"http://{}/{host}\"], only: true}}", server.address()))
        .collect();
    site.write("zone.yaml", format!("name: lab\nrules:\n{}\n", rules.join("\n")));
    site
}

fn release(tag: &str, prerelease: bool) -> Value {
    json!({"tag_name": tag, "draft": false, "prerelease": prerelease, "body": "…"})
}

/// Pages of a hundred, as GitHub gives them.
fn page(request: &Request, releases: &[Value]) -> Reply {
    let query = request.path.split_once('?').map_or("", |(_, query)| query);
    let number = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.parse::<usize>().ok());
    let (size, page) = (number("per_page=").unwrap_or(30), number("page=").unwrap_or(1));
    let these: Vec<&Value> = releases.iter().skip(size * (page - 1)).take(size).collect();
    Reply::new(200, json!(these).to_string()).header("content-type", "application/json; charset=utf-8")
}

fn containerd(request: &Request) -> Option<Reply> {
    let path = request.path.split('?').next().unwrap_or_default();
    if path == "api.github.com/repos/containerd/containerd/releases" {
        let mut all = vec![
            release("api/v1.99.0", false),
            release("v2.4.0-rc.1", true),
            release("v2.3.6", false),
            release("v2.3.5", false),
            json!({"tag_name": "v2.5.0", "draft": true, "prerelease": false}),
        ];
        // the first page is full of what nobody asks for
        all.extend((0..120).map(|number| release(&format!("v1.5.{number}"), false)));
        all.push(release("v2.2.8", false));
        return Some(page(request, &all));
    }
    let file = path.strip_prefix("github.com/containerd/containerd/releases/download/")?;
    let known = |version: &str| file.starts_with(&format!("v{version}/containerd-static-{version}-linux-"));
    // 2.3.6 was withdrawn: it is listed, and its files are gone
    let answers = file.ends_with(".tar.gz.sha256sum") && (known("2.3.5") || known("2.2.8"));
    let name = file.rsplit('/').next()?.trim_end_matches(".sha256sum");
    Some(if answers { Reply::new(200, format!("{SUM}  {name}\n")) } else { Reply::new(404, "Not Found") })
}

#[test]
fn newer_releases_are_found_on_all_pages_without_withdrawn_ones_and_candidates() {
    let server = Server::start(|request| containerd(request).unwrap_or_else(|| Reply::new(404, "")));
    let site = site(&server);
    let args = ["catalogue", "refresh", "--zone", "zone.yaml", "--component", "containerd", "-o", "newer.yaml"];
    let ended = site.run(&args).must(ExitCode::Ok);
    assert_contains(
        &ended.out,
        &[
            "newer: containerd 2.2.8, 2.3.5",
            "containerd 2.3.6: it is listed, and no digest of it is published",
            "newer.yaml: written",
        ],
    );
    let overlay = std::fs::read_to_string(site.path("newer.yaml")).unwrap();
    assert_contains(
        &overlay,
        &["schema: kubexm.io/catalogue/v2", "\"2.3.5\":", &format!("sha256: \"{SUM}\", trust: mirror")],
    );
    for absent in ["2.3.6", "2.4.0", "2.5.0", "1.5.", "1.99.0", "default"] {
        assert!(!overlay.lines().filter(|line| !line.starts_with('#')).any(|line| line.contains(absent)), "{overlay}");
    }
    // it is an overlay that the program takes, and its versions can be named
    site.run(&["catalogue", "check", "newer.yaml"]).must(ExitCode::Ok);
    site.write(
        "cluster.yaml",
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: x}\nspec:\n  kubernetes: {version: v1.34.4}\n  runtime: {version: 2.3.5}\n",
    );
    let build = ["build", "--dry-run", "--json", "-f", "cluster.yaml", "--catalogue", "newer.yaml"];
    let document = site.run(&build).must(ExitCode::Ok).document();
    let items = document["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["key"] == "binary/containerd").unwrap();
    assert_eq!((&item["version"], &item["trust"]), (&json!("2.3.5"), &json!("mirror")));
    // a second look finds nothing that it has
    let again = [&args[..6], &["--catalogue", "newer.yaml"]].concat();
    assert_contains(&site.run(&again).must(ExitCode::Ok).out, &["nothing newer is published"]);
}

fn kubernetes(request: &Request) -> Reply {
    let path = request.path.strip_prefix("dl.k8s.io/release/").unwrap_or_default();
    if let Some(minor) = path.strip_prefix("stable-").and_then(|rest| rest.strip_suffix(".txt")) {
        let patch = if minor == "1.34" { 99 } else { 0 };
        return Reply::new(200, format!("v{minor}.{patch}"));
    }
    match path {
        "stable.txt" => Reply::new(200, "v1.99.0\n"),
        _ if path.starts_with("v1.34.99/bin/linux/") && path.ends_with(".sha256") => Reply::new(200, SUM),
        _ => Reply::new(404, "not found"),
    }
}

#[test]
fn what_a_cluster_would_get_is_reported_and_only_where_it_names_no_patch() {
    let server = Server::start(kubernetes);
    let site = site(&server);
    let cluster = |version: &str| {
        site.write(
            "cluster.yaml",
            format!("apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: x}}\nspec:\n  kubernetes: {{version: {version}}}\n"),
        );
        let programs = ["kubeadm", "kubelet", "kubectl"].map(|name| ["--component", name]).concat();
        let args =
            [&["catalogue", "refresh", "--zone", "zone.yaml", "-f", "cluster.yaml", "--json"], &*programs].concat();
        site.run(&args).must(ExitCode::Ok).document()
    };
    let document = cluster("v1.34.4");
    assert_eq!(document["schema"], "kubexm.io/catalogue-refresh/v1");
    assert_eq!(document["components"]["kubelet"]["1.34.99"]["arm64"]["trust"], "mirror");
    assert_eq!(document["changes"], json!([]));
    assert_eq!(document["file"], Value::Null);
    let note = document["notes"][0].as_str().unwrap();
    assert!(note.starts_with("Kubernetes 1.99.0: the catalogue does not know this minor"), "{note}");
    let changes = cluster("v1.34")["changes"].clone();
    assert_eq!(changes[0], json!({"key": "binary/kubeadm", "now": "1.34.11", "then": "1.34.99"}));
    assert!(changes.as_array().unwrap().iter().any(|one| one["key"] == "image/kube-apiserver"), "{changes}");
}

#[test]
fn the_newest_chart_of_each_known_line_and_of_newer_ones_is_reported_and_not_written_to_the_overlay() {
    let index = |versions: &[&str]| {
        let versions: String = versions.iter().map(|version| format!("  - {{version: {version}}}\n")).collect();
        format!("apiVersion: v1\nentries:\n  cilium:\n{versions}  other:\n  - {{version: 9.9.9}}\n")
    };
    let args = ["catalogue", "refresh", "--zone", "zone.yaml", "--component", "cilium", "-o", "newer.yaml"];
    let run = |versions: &[&str], args: &[&str]| {
        let index = index(versions);
        let server = Server::start(move |request| match request.path.as_str() {
            "helm.cilium.io/index.yaml" => Reply::new(200, index.clone()),
            _ => Reply::new(404, ""),
        });
        let site = site(&server);
        let ended = site.run(args).must(ExitCode::Ok);
        assert!(!site.path("newer.yaml").exists());
        ended
    };
    let all = ["1.22.0-rc.1", "1.21.0", "1.21.1", "1.20.0", "1.18.14", "1.18.12", "1.17.9", "1.16.25", "1.15.3"];
    let out = run(&all, &args).out;
    assert_contains(
        &out,
        &["newer chart: cilium 1.16.25, 1.18.14, 1.21.1 (not in the overlay: ", "an overlay would be empty"],
    );
    assert!(!out.contains("nothing newer"), "{out}");
    let document = run(&all, &[&args[..], &["--json"]].concat()).document();
    assert_eq!(document["charts"]["cilium"], json!(["1.16.25", "1.18.14", "1.21.1"]));
    let out = run(&["1.20.0", "1.18.5", "1.15.3"], &args).out;
    assert!(!out.contains("newer chart"), "{out}");
    assert_contains(&out, &["nothing newer is published with a digest"]);
}

#[test]
fn what_has_nothing_to_ask_is_named_with_the_reason_and_nothing_is_concluded_of_it() {
    let server = Server::start(|request| containerd(request).unwrap_or_else(|| Reply::new(404, "")));
    let site = site(&server);
    let args = ["catalogue", "refresh", "--zone", "zone.yaml"];
    let names = ["docker", "harbor", "calico", "nginx", "haproxy"];
    let names: Vec<&str> = names.iter().flat_map(|name| ["--component", name]).collect();
    site.write(
        "cluster.yaml",
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: x}\nspec:\n  kubernetes: {version: v1.36.3}\n",
    );
    let out = site.run(&[&args[..], &names, &["-f", "cluster.yaml"]].concat()).must(ExitCode::Ok).out;
    let line = "nothing was asked about calico, haproxy, nginx (images without a chart, of which upstream has no list of \
                versions to ask); docker, harbor (upstream publishes no digests: name version and digest in an overlay of your own)\n";
    assert!(out.starts_with(line) && !out.contains("nothing newer") && !out.contains("nothing changes"), "{out}");
    assert_eq!(server.requests().len(), 0);
    // beside others it is said as well
    let both = [&args[..], &["--component", "containerd", "--component", "docker"]].concat();
    assert_contains(
        &site.run(&both).must(ExitCode::Ok).out,
        &["newer: containerd 2.2.8, 2.3.5\n", "nothing was asked about docker ("],
    );
    let document = site.run(&[&both[..], &["--json"]].concat()).must(ExitCode::Ok).document();
    assert_eq!(document["notAsked"], json!({"docker": "no-digests"}));
}

#[test]
fn a_text_of_one_minor_that_is_missing_or_a_page_does_not_cost_the_others() {
    let server = Server::start(|request| match request.path.as_str() {
        "dl.k8s.io/release/stable-1.24.txt" => Reply::new(404, "not found"),
        "dl.k8s.io/release/stable.txt" => Reply::new(200, "<!DOCTYPE html><html>Please sign in</html>"),
        _ => kubernetes(request),
    });
    let site = site(&server);
    let programs = ["kubeadm", "kubelet", "kubectl"].map(|name| ["--component", name]).concat();
    let args = [&["catalogue", "refresh", "--zone", "zone.yaml", "-o", "newer.yaml"], &*programs].concat();
    let ended = site.run(&args).must(ExitCode::OriginMissing);
    assert_contains(&ended.out, &["newer: kubelet 1.34.99", "newer.yaml: written"]);
    assert_contains(&ended.err, &["not everything was looked up", "stable-1.24.txt", "stable.txt answers with"]);
    assert_contains(&std::fs::read_to_string(site.path("newer.yaml")).unwrap(), &["\"1.34.99\":"]);
}

#[test]
fn a_patch_of_kubernetes_that_lacks_a_program_is_left_out_and_named() {
    let server = Server::start(|request| {
        // of 1.34.99 kubelet is gone, 1.33.99 is complete
        let path = request.path.strip_prefix("dl.k8s.io/release/").unwrap_or_default();
        match path {
            "stable-1.33.txt" => Reply::new(200, "v1.33.99"),
            _ if path.starts_with("v1.33.99/bin/linux/") => Reply::new(200, SUM),
            _ if path.starts_with("v1.34.99/") && path.contains("/kubelet") => Reply::new(404, "not found"),
            _ => kubernetes(request),
        }
    });
    let site = site(&server);
    let args = ["catalogue", "refresh", "--zone", "zone.yaml", "-o", "newer.yaml"];
    let run = |names: &[&str], output: &str| {
        let names: Vec<&str> = names.iter().flat_map(|name| ["--component", name]).collect();
        site.run(&[&args[..5], &[output], &names].concat()).must(ExitCode::Ok).out
    };
    let nodes = ["kubeadm", "kubelet", "kubectl"];
    let out = run(&nodes, "newer.yaml");
    assert_contains(
        &out,
        &[
            "newer: kubeadm 1.33.99\n",
            "newer: kubelet 1.33.99\n",
            "kubelet 1.34.99: it is listed, and no digest",
            "note: Kubernetes 1.34.99: left out, since no digest of kubelet was found",
        ],
    );
    let overlay = std::fs::read_to_string(site.path("newer.yaml")).unwrap();
    assert!(overlay.contains("\"1.33.99\"") && !overlay.contains("1.34.99"), "{overlay}");
    // an overlay with one program alone says what it is good for
    let out = run(&["kubeadm"], "one.yaml");
    let note = "Kubernetes 1.34.99: nothing was asked about kubectl, kubelet: where cluster.yaml names only 1.34, this";
    assert_contains(&out, &["newer: kubeadm 1.33.99, 1.34.99\n", note]);
    let build = |overlay: &str| {
        let build = ["build", "--dry-run", "--json", "--kubernetes", "v1.34", "--catalogue", overlay];
        let document = site.run(&build).must(ExitCode::Ok).document();
        let items = document["items"].as_array().unwrap().clone();
        items.iter().find(|item| item["key"] == "binary/kubelet").unwrap()["version"].clone()
    };
    assert_eq!((build("one.yaml"), build("newer.yaml")), (json!("1.34.11"), json!("1.34.11")));
}

#[test]
fn user_files_are_not_overwritten_and_typos_are_reported() {
    let server = Server::start(|request| containerd(request).unwrap_or_else(|| Reply::new(404, "")));
    let site = site(&server);
    site.write("mine.yaml", "schema: kubexm.io/catalogue/v2\nname: mine\n");
    let args = ["catalogue", "refresh", "--zone", "zone.yaml", "--component", "containerd", "-o", "mine.yaml"];
    assert_contains(&site.run(&args).must(ExitCode::Usage).err, &["mine.yaml", "--force"]);
    assert_eq!(server.requests().len(), 0);
    let ended = site.run(&["catalogue", "refresh", "--component", "containerdd"]).must(ExitCode::UnknownVersion);
    assert_contains(&ended.err, &["the catalogue knows no containerdd; nearest: containerd"]);
    assert_contains(
        &site.run(&["catalogue", "refresh", "--offline"]).must(ExitCode::Usage).err,
        &["leave out --offline"],
    );
}

#[test]
fn an_overlay_that_is_there_is_replaced_by_force_only_and_one_that_is_read_never() {
    let server = Server::start(|request| containerd(request).unwrap_or_else(|| Reply::new(404, "")));
    let site = site(&server);
    let args = ["catalogue", "refresh", "--zone", "zone.yaml", "--component", "containerd", "-o", "newer.yaml"];
    site.run(&args).must(ExitCode::Ok);
    let first = std::fs::read_to_string(site.path("newer.yaml")).unwrap();
    let edited = format!("{first}# of mine\n");
    site.write("newer.yaml", &edited);
    let asked = server.requests().len();
    assert_contains(&site.run(&args).must(ExitCode::Usage).err, &["newer.yaml already exists", "--force"]);
    let zone = site.run(&[&args[..7], &["zone.yaml", "--force"]].concat()).must(ExitCode::Usage);
    assert_contains(&zone.err, &["zone.yaml is one of the files that are read"]);
    let read = site.run(&[&args[..], &["--catalogue", "newer.yaml", "--force"]].concat()).must(ExitCode::Usage);
    assert_contains(&read.err, &["newer.yaml is one of the files that are read"]);
    assert_eq!(std::fs::read_to_string(site.path("newer.yaml")).unwrap(), edited);
    assert_eq!(server.requests().len(), asked, "nothing was asked");
    site.run(&[&args[..], &["--force"]].concat()).must(ExitCode::Ok);
    assert_eq!(std::fs::read_to_string(site.path("newer.yaml")).unwrap(), first);
}

#[test]
fn a_cluster_that_was_not_possible_before_or_is_not_now_does_not_cost_the_overlay() {
    let server = Server::start(kubernetes);
    let site = site(&server);
    let refresh = |version: &str, output: &str| {
        site.write(
            "cluster.yaml",
            format!("apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: x}}\nspec:\n  kubernetes: {{version: {version}}}\n"),
        );
        let args = ["catalogue", "refresh", "--zone", "zone.yaml", "-f", "cluster.yaml", "-o", output];
        let ended = site.run(&[&args[..], &["--component", "kubelet"]].concat()).must(ExitCode::Ok);
        assert_contains(&std::fs::read_to_string(site.path(output)).unwrap(), &["\"1.34.99\":"]);
        ended.out
    };
    let out = refresh("v1.99.0", "one.yaml");
    assert_contains(&out, &["note: cluster.yaml: not possible with the overlay either: ", "one.yaml: written"]);
    assert!(!out.contains("nothing changes"), "{out}");
    // a line of containerd that the catalogue does not know
    let server = Server::start(|request| {
        let path = request.path.split('?').next().unwrap_or_default();
        match path.strip_prefix("github.com/containerd/containerd/releases/download/v2.4.0/") {
            Some(file) => Reply::new(200, format!("{SUM}  {}\n", file.trim_end_matches(".sha256sum"))),
            None => page(request, &[release("v2.4.0", false)]),
        }
    });
    let site = self::site(&server);
    site.write(
        "cluster.yaml",
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: x}\nspec:\n  kubernetes: {version: v1.34.4}\n  runtime: {version: 2.4.0}\n",
    );
    let args = ["catalogue", "refresh", "--zone", "zone.yaml", "-f", "cluster.yaml", "--component", "containerd"];
    let out = site.run(&[&args[..], &["-o", "two.yaml"]].concat()).must(ExitCode::Ok).out;
    assert_contains(
        &out,
        &["note: cluster.yaml: possible with the overlay, and was not before: ", "two.yaml: written"],
    );
    let document = site.run(&[&args[..], &["--json"]].concat()).must(ExitCode::Ok).document();
    assert!(document["notes"][0].as_str().unwrap().contains("was not before"), "{document}");
}

#[test]
fn with_the_overlay_on_standard_output_everything_else_is_on_standard_error() {
    let server = Server::start(|request| containerd(request).unwrap_or_else(|| Reply::new(404, "")));
    let site = site(&server);
    let args = ["catalogue", "refresh", "--zone", "zone.yaml", "--component", "containerd", "-o", "-"];
    let run = |more: &[&str]| {
        let args = [&args[..], more].concat();
        end(site.program().args(args).env("SOURCE_DATE_EPOCH", "1806537600")).must(ExitCode::Ok)
    };
    let ended = run(&[]);
    assert_contains(&ended.out, &["# Written by `kubexm-bundle catalogue refresh`", "\"2.3.5\":"]);
    assert!(!ended.out.contains("newer: ") && !ended.out.contains("upstream ended"), "{}", ended.out);
    assert_contains(
        &ended.err,
        &["newer: containerd 2.2.8, 2.3.5", "containerd 2.3.6: it is listed", "Kubernetes 1.35.8: upstream ended 1.35"],
    );
    site.write("newer.yaml", &ended.out);
    let ended = run(&["--catalogue", "newer.yaml"]);
    assert_eq!(ended.out, "");
    assert_contains(&ended.err, &["nothing newer is published with a digest"]);
}
