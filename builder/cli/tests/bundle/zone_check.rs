//! `zone check` and `zone show`: holes are found before a build, and distinguished from what can be found nowhere.

use kubexm_spec::ExitCode;
use serde_json::{Value, json};

use crate::images::two_platforms;
use crate::registry::{Registry, Setup};
use crate::server::{Reply, Server, file, nobody};
use crate::site::{Ended, Site, assert_contains, end, noise, wanted};

/// A site whose one file is at an origin, with a zone that asks mirrors before it.
fn mirrored(origin: &Server, mirrors: &[String], only: bool) -> Site {
    let site = Site::new();
    site.extras(&format!("extraFiles:\n{}", wanted(&origin.url("tool"), &noise(5, 5_000))));
    let to: Vec<String> = mirrors.iter().map(|mirror| format!("\"{mirror}\"")).collect();
    let rule = format!("{{match: \"{}\", to: [{}], only: {only}}}", origin.address(), to.join(", "));
    site.write("zone.yaml", format!("name: mirrored\nrules: [{rule}]\n"));
    site
}

fn check(site: &Site, more: &[&str]) -> Ended {
    let mut all = vec!["zone", "check", "-f", "cluster.yaml", "--zone", "zone.yaml"];
    all.extend(more);
    site.run(&all)
}

#[test]
fn an_artifact_that_another_mirror_has_is_reported_and_is_no_failure() {
    let (empty, origin) = (Server::files(vec![]), Server::files(vec![("tool", noise(5, 5_000))]));
    let site = mirrored(&origin, &[empty.url("store"), format!("http://{}", nobody())], false);
    let ended = check(&site, &[]).must(ExitCode::Ok);
    assert_contains(&ended.out, &["ok   file/tool", &empty.url("store/tool"), "404"]);
    assert_contains(
        &ended.out,
        &["1 artifact, 1 hole, 1 place that does not answer now, 0 not available from any source"],
    );
    assert!(origin.requests().iter().all(|request| request.method == "HEAD"), "{:?}", origin.requests());
    let document = check(&site, &["--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["schema"], "kubexm.io/zone-check/v1");
    assert_eq!((&document["available"], &document["holes"]), (&json!(true), &json!(1)));
    let places = document["items"][0]["places"].as_array().unwrap();
    assert_eq!(
        places.iter().map(|p| &p["available"]).collect::<Vec<_>>(),
        [&json!(false), &json!(false), &json!(true)]
    );
    assert_eq!(places[0]["exitCode"], ExitCode::OriginMissing.code());
    assert_eq!(places[2]["size"], 5_000);
}

#[test]
fn an_artifact_that_no_source_has_has_its_own_exit_code() {
    let (empty, origin) = (Server::files(vec![]), Server::files(vec![("tool", noise(5, 5_000))]));
    let site = mirrored(&origin, &[empty.url("store")], true);
    let ended = check(&site, &[]).must(ExitCode::NoSource);
    assert_contains(&ended.out, &["GONE file/tool"]);
    assert_contains(&ended.err, &["not available from any source: file/tool"]);
    assert!(origin.requests().is_empty(), "the zone says `only`");
    let document = check(&site, &["--json"]).must(ExitCode::NoSource).document();
    assert_eq!(document["available"], false);
}

#[test]
fn a_login_page_in_place_of_a_program_is_a_hole() {
    let page = Server::start(|_| Reply::new(200, "<html>log in</html>").header("content-type", "text/html"));
    let good = Server::start(|request| file(request, b"a program"));
    let site = Site::new();
    let kubernetes = "  kubernetes: {version: v1.34.4}\n";
    site.write(
        "cluster.yaml",
        format!("apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: lab}}\nspec:\n{kubernetes}"),
    );
    let rules: String = ["dl.k8s.io", "github.com", "get.helm.sh"]
        .iter()
        .map(|host| format!("- {{match: {host}, to: [\"{}\", \"{}\"], only: true}}\n", page.url("x"), good.url("y")))
        .collect();
    let registry = nobody();
    let images: String = ["registry.k8s.io", "ghcr.io"]
        .iter()
        .map(|host| format!("- {{match: {host}, to: [\"{registry}\"], plainHttp: true, only: true}}\n"))
        .collect();
    site.write("zone.yaml", format!("name: lab\nrules:\n{rules}{images}"));
    let document = check(&site, &["--json"]).must(ExitCode::OriginDown).document();
    let of = |key: &str| -> Value {
        let items = document["items"].as_array().unwrap();
        items.iter().find(|item| item["key"] == key).unwrap_or_else(|| panic!("{key}")).clone()
    };
    let kubeadm = of("binary/kubeadm");
    assert_eq!(kubeadm["available"], true);
    assert_contains(kubeadm["places"][0]["reason"].as_str().unwrap(), &["HTML"]);
    assert_eq!((&of("image/pause")["available"], &of("image/pause")["state"]), (&json!(false), &json!("unanswered")));
    assert_eq!(of("installer/kubexm-install")["places"][0]["address"], "this machine");
}

#[test]
fn images_are_asked_for_by_their_manifest() {
    let (site, registry) = (Site::new(), Registry::start(Setup::default()));
    let (made, ..) = two_platforms(site.path("made"), "v1");
    registry.push(made.path(), "mirror/app", "v1");
    site.zone("registry.test", &format!("{}/mirror", registry.address));
    site.extras("extraImages: [{name: registry.test/app:v1}]");
    check(&site, &[]).must(ExitCode::Ok);
    site.extras("extraImages: [{name: registry.test/app:v1}, {name: registry.test/app:v2}]");
    let ended = check(&site, &["--all"]).must(ExitCode::NoSource);
    assert_contains(&ended.out, &["ok   extra-image/registry.test/app:v1", "GONE extra-image/registry.test/app:v2"]);
}

#[test]
fn the_effective_zone_is_shown_with_its_source_and_what_it_overrides() {
    let site = Site::new();
    site.write(
        "mine.yaml",
        "name: mine\nrules:\n- {match: quay.io, to: [inside.test/quay], only: true, caFile: ca.pem}\n",
    );
    site.extras("zone: mine.yaml");
    // Whose authority is not there is reported when the zone is read, whoever reads it.
    for verb in [&["zone", "show", "-f", "cluster.yaml"][..], &["build", "-f", "cluster.yaml", "--dry-run"]] {
        assert_contains(
            &site.run(verb).must(ExitCode::Config).err,
            &["mine.yaml", "ca.pem", "the rule for quay.io", "No such file"],
        );
    }
    site.write("ca.pem", "no certificate");
    assert_contains(
        &site.run(&["zone", "show", "-f", "cluster.yaml"]).must(ExitCode::Config).err,
        &["holds no certificate"],
    );
    site.write("ca.pem", "-----BEGIN CERTIFICATE-----\n");
    let shown = site.run(&["zone", "show", "-f", "cluster.yaml"]).must(ExitCode::Ok).out;
    assert_contains(
        &shown,
        &["zone mine, named by spec.bundle.zone", "quay.io", "inside.test/quay, and nobody else", "ca.pem"],
    );
    let mut program = site.program();
    program.args(["zone", "show", "-f", "cluster.yaml", "--json"]).env("KMZONE", "cn");
    let document = end(&mut program).must(ExitCode::Ok).document();
    assert_eq!((&document["zone"], &document["namedBy"]), (&json!("cn"), &json!("KMZONE")));
    assert_eq!(
        document["notes"][0],
        "zone cn of KMZONE is used; spec.bundle.zone sets mine.yaml, which has lower precedence"
    );
    assert!(
        document["rules"].as_array().unwrap().iter().any(|rule| rule["matches"] == "registry.k8s.io"),
        "{document}"
    );
}

#[test]
fn a_chart_whose_repository_has_no_index_is_a_hole() {
    let (empty, full) =
        (Server::files(vec![]), Server::files(vec![("charts/index.yaml", b"apiVersion: v1\n".to_vec())]));
    let site = Site::new();
    let chart = |server: &Server| format!("source: {{repo: \"{}\", chart: web, version: 1.0.0}}", server.url("charts"));
    site.extras(&format!("extraCharts:\n- {{name: one, {}}}\n- {{name: two, {}}}", chart(&empty), chart(&full)));
    site.write("zone.yaml", "name: plain\nrules: []\n");
    let ended = check(&site, &["--all"]).must(ExitCode::NoSource);
    assert_contains(&ended.out, &["GONE chart/one", &empty.url("charts/index.yaml"), "ok   chart/two"]);
}

#[test]
fn places_that_do_not_answer_for_one_reason_are_reported_together() {
    let (dead, site) = (format!("http://{}", nobody()), Site::new());
    let files: Vec<String> = (0..12).map(|n| wanted(&format!("{dead}/t{n:02}"), b"tool")).collect();
    site.extras(&format!("extraFiles:\n{}", files.join("\n")));
    site.write("zone.yaml", "name: plain\nrules: []\n");
    let ended = check(&site, &[]).must(ExitCode::OriginDown);
    assert_contains(
        &ended.out,
        &[&format!("DOWN 12 artifacts: {dead}: "), "asked for file/t00, file/t01", "and 4 more"],
    );
    assert_eq!(ended.out.matches("Connection refused").count(), 1, "{}", ended.out);
    let all = check(&site, &["--all"]).must(ExitCode::OriginDown).out;
    assert_eq!(all.matches("Connection refused").count(), 12, "{all}");
    assert_contains(&all, &[&format!("silent  {dead}/t11: ")]);
}
