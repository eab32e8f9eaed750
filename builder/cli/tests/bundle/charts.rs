//! Charts and YAML add-ons: their images are learnt by rendering them with the real helm, which the lab builds.

use std::path::PathBuf;

use flate2::{Compression, write::GzEncoder};
use kubexm_spec::{Digest, ExitCode};
use serde_json::{Value, json};

use crate::cluster::Lab;
use crate::images::{Maker, two_platforms};
use crate::materials::lab;
use crate::registry::{Registry, Setup};
use crate::server::Server;
use crate::site::{Ended, Site, assert_contains, end};

/// The operator's chart of these tests: one image in a pod, one hidden in its arguments, one in a hook, one in a test.
const OPERATOR: [(&str, &str); 5] = [
    ("values.yaml", "image: {repository: registry.test/team/operator, tag: '1.0'}\nextra: false\nargs: []\n"),
    (
        "templates/operator.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}\nspec:\n  \
         template:\n    spec:\n      containers:\n      - name: operator\n        image: {{ .Values.image.repository }}:{{ .Values.image.tag }}\n        \
         args: {{ toJson .Values.args }}\n{{- if .Values.extra }}\n      - {name: extra, image: 'registry.test/team/extra:1.0'}\n{{- end }}\n",
    ),
    (
        "templates/hook.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\nspec: {template: {spec: \
         {containers: [{name: a, image: 'registry.test/team/hook:1.0'}]}}}\n",
    ),
    (
        "templates/tests/try.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: try, annotations: {helm.sh/hook: test}}\nspec: {containers: [{name: a, \
         image: 'registry.test/team/tried-only:1.0'}]}\n",
    ),
    ("crds/kind.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\n"),
];

const HIDDEN: &str = "registry.test/team/worker:2.0";

fn chart_yaml(name: &str, version: &str) -> String {
    format!("apiVersion: v2\nname: {name}\nversion: {version}\n")
}

/// A chart's archive, as `helm package` would make it.
fn archive(name: &str, version: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let chart = chart_yaml(name, version);
    for (path, text) in [("Chart.yaml", chart.as_str())].iter().chain(files) {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("{name}/{path}"), text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn helm() -> PathBuf {
    let helm = lab().join("bin/helm");
    assert!(helm.exists(), "{} is needed: scripts/lab build makes it", helm.display());
    helm
}

/// A user's folder, and the registry that a zone sends `registry.test` to.
struct Place {
    site: Site,
    registry: Registry,
    zone: Vec<String>,
}

impl Place {
    fn new() -> Self {
        let (site, registry) = (Site::new(), Registry::start(Setup::default()));
        for name in ["operator:1.0", "hook:1.0", "extra:1.0", "worker:2.0"] {
            let (repository, tag) = name.split_once(':').unwrap();
            let (maker, ..) = two_platforms(site.path(&format!("made/{repository}")), "x");
            registry.push(maker.path(), &format!("team/{repository}"), tag);
        }
        let rule = format!("{{match: registry.test, to: [\"{}\"], plainHttp: true, only: true}}", registry.address);
        Self { site, registry, zone: vec![rule] }
    }

    /// Writes cluster.yaml: the inside of `spec.bundle`, without a cluster.
    fn spec(&self, spec: &str) {
        let rules: String = self.zone.iter().map(|rule| format!("- {rule}\n")).collect();
        self.site.write("zone.yaml", format!("name: lab\nrules:\n{rules}"));
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: charts}}\nspec:\n  bundle:\n{spec}"
        );
        self.site.write("cluster.yaml", text);
    }

    fn run(&self, args: &[&str]) -> Ended {
        let helm = helm();
        let mut command = self.site.program();
        command.args(args).args(["-f", "cluster.yaml", "--zone", "zone.yaml"]);
        if !matches!(args[0], "explain") {
            command.arg("--helm").arg(helm);
        }
        end(&mut command)
    }

    fn lock(&self) -> Value {
        self.run(&["lock"]).must(ExitCode::Ok);
        serde_json::from_slice(&std::fs::read(self.site.path("cluster.lock.json")).unwrap()).unwrap()
    }

    fn operator(&self, source: &str, more: &str) {
        self.spec(&format!(
            "    extraImages: [{{name: \"{HIDDEN}\"}}]\n    extraCharts:\n    - {{name: op, source: {source}{more}}}\n"
        ));
    }
}

fn images(lock: &Value) -> Vec<&str> {
    let rendering = lock["renderings"].as_array().unwrap().iter().find(|r| r["key"] == "chart/op");
    rendering.unwrap()["images"].as_array().unwrap().iter().map(|image| image.as_str().unwrap()).collect()
}

fn item<'a>(lock: &'a Value, key: &str) -> &'a Value {
    let items = lock["items"].as_array().unwrap();
    items.iter().find(|item| item["key"] == key).unwrap_or_else(|| panic!("no {key} in {lock}"))
}

/// A repository with the operator's chart at a relative address; requests are counted.
fn repository(digest: Option<&str>, url: &str) -> (Server, Vec<u8>) {
    let chart = archive("operator", "1.2.3", &OPERATOR);
    let own = Digest::of(&chart).hex();
    let digest = digest.unwrap_or(&own);
    let index = format!(
        "apiVersion: v1\nentries:\n  operator:\n  - {{name: operator, version: 1.2.3, digest: '{digest}', urls: ['{url}']}}\n"
    );
    let files = vec![("charts/index.yaml", index.into_bytes()), ("charts/files/operator-1.2.3.tgz", chart.clone())];
    (Server::files(files), chart)
}

const RENDERED: [&str; 2] = ["registry.test/team/hook:1.0", "registry.test/team/operator:1.0"];

#[test]
fn a_chart_of_a_repository_brings_the_images_that_an_install_would_pull_and_no_others() {
    let place = Place::new();
    let (server, chart) = repository(None, "files/operator-1.2.3.tgz");
    place.operator(&format!("{{repo: \"{}\", chart: operator, version: 1.2.3}}", server.url("charts")), "");
    let lock = place.lock();
    assert_eq!(images(&lock), RENDERED);
    let locked = item(&lock, "chart/op");
    assert_eq!(
        (locked["digest"].as_str(), locked["trust"].as_str()),
        (Some(&*Digest::of(&chart).to_string()), Some("upstream-checksum"))
    );
    assert_eq!(item(&lock, "chart-image/registry.test/team/operator:1.0")["type"], "image");
    assert!(!lock.to_string().contains("tried-only"), "{lock}");

    place.run(&["build", "-o", "out.tar.zst", "--locked"]).must(ExitCode::Ok);
    place.site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);
    let listed = place.site.run(&["list", "out.tar.zst"]).must(ExitCode::Ok).out;
    assert_contains(&listed, &["team/hook:1.0", "team/operator:1.0", "team/worker:2.0", "chart/op"]);
    let unpacked = place.site.unpack(&place.site.path("out.tar.zst"));
    assert!(unpacked.join("blobs/sha256").join(Digest::of(&chart).hex()).exists());
}

#[test]
fn a_chart_of_a_registry_is_the_layer_that_its_tag_names() {
    let place = Place::new();
    let chart = archive("operator", "1.2.3+b1", &OPERATOR);
    let maker = Maker::new(place.site.path("made/chart"));
    let layer = maker.blob("application/vnd.cncf.helm.chart.content.v1.tar+gzip", &chart);
    let config = maker.json("application/vnd.cncf.helm.config.v1+json", &json!({"name": "operator"}));
    let manifest = "application/vnd.oci.image.manifest.v1+json";
    let whole = json!({"schemaVersion": 2, "mediaType": manifest, "config": config, "layers": [layer]});
    maker.finish(&[("x", &maker.json(manifest, &whole))]);
    place.registry.push(maker.path(), "charts/operator", "1.2.3_b1");
    place.operator("{oci: \"oci://registry.test/charts/operator\", version: 1.2.3+b1}", "");
    let lock = place.lock();
    assert_eq!(images(&lock), RENDERED);
    assert_eq!(item(&lock, "chart/op")["trust"], "oci-digest");
    assert_eq!(item(&lock, "chart/op")["digest"], Digest::of(&chart).to_string());
    // Another place with the lock and nothing in its cache fetches the layer by its digest.
    std::fs::remove_dir_all(place.site.path("kubexm")).unwrap();
    place.run(&["build", "-o", "out.tar.zst", "--locked"]).must(ExitCode::Ok);

    // Mirrors of registries.conf have the tag, too.
    let mirror = format!("[[registry.mirror]]\nlocation = \"{}\"\ninsecure = true\n", place.registry.address);
    place.site.write("own.conf", format!("[[registry]]\nprefix = \"upstream.invalid\"\n{mirror}"));
    place.operator("{oci: \"oci://upstream.invalid/charts/operator\", version: 1.2.3+b1}", "");
    std::fs::remove_dir_all(place.site.path("kubexm")).unwrap();
    place.run(&["lock", "--registries-conf", "own.conf"]).must(ExitCode::Ok);
    let lock = std::fs::read(place.site.path("cluster.lock.json")).unwrap();
    let lock: Value = serde_json::from_slice(&lock).unwrap();
    assert_eq!(item(&lock, "chart/op")["digest"], Digest::of(&chart).to_string());
}

#[test]
fn a_folder_is_packed_the_same_each_time_and_values_decide_which_images_there_are() {
    let place = Place::new();
    place.site.write("chart/Chart.yaml", chart_yaml("operator", "1.2.3"));
    OPERATOR.iter().for_each(|(name, text)| drop(place.site.write(&format!("chart/{name}"), text)));
    place.operator("{path: chart}", "");
    let first = place.lock();
    assert_eq!(images(&first), RENDERED);
    assert_eq!(item(&place.lock(), "chart/op"), item(&first, "chart/op"));

    place.site.write("values.yaml", "extra: true\nimage: {tag: '9'}\n");
    place.operator("{path: chart}", ", valuesFile: values.yaml, values: {image: {tag: '1.0'}}");
    let refused = place.run(&["build", "-o", "out.tar.zst", "--locked"]).must(ExitCode::LockDrift).err;
    assert_contains(&refused, &["chart/op", "extra", "image"]);
    let second = place.lock();
    assert_eq!(images(&second), ["registry.test/team/extra:1.0", RENDERED[0], RENDERED[1]]);
    assert_eq!(second["renderings"][0]["values"], json!({"extra": true, "image": {"tag": "1.0"}}));
    place.run(&["build", "-o", "out.tar.zst", "--locked"]).must(ExitCode::Ok);
}

#[test]
fn images_hidden_in_an_operators_arguments_are_an_error_that_says_what_to_write() {
    let place = Place::new();
    let (server, _) = repository(None, "files/operator-1.2.3.tgz");
    let addon = |more: &str| {
        format!(
            "    extraCharts:\n    - {{name: op, source: {{repo: \"{}\", chart: operator, version: 1.2.3}}, \
             values: {{args: [\"--worker-image={HIDDEN}\", \"--shell=registry.test/team/shell:0.1\"]}}}}\n{more}",
            server.url("charts")
        )
    };
    place.spec(&addon(""));
    let reported = place.run(&["lock"]).must(ExitCode::ChartImages).err;
    assert_contains(
        &reported,
        &["chart/op:", HIDDEN, "team/shell:0.1", "Deployment default/op: spec.template.spec.containers[0].args[0]"],
    );
    // Word for word what was reported fixes it: one goes in, the other is no image.
    let extra = format!("- {{name: \"{HIDDEN}\"}}");
    assert_contains(&reported, &[&extra, "ignoreImages:"]);
    let fixed = format!("    extraImages:\n    {extra}\n    ignoreImages:\n    - \"registry.test/team/shell:0.1\"\n");
    place.spec(&addon(&fixed));
    let lock = place.lock();
    assert_eq!(images(&lock), [RENDERED[0], RENDERED[1], HIDDEN]);
    assert!(!lock.to_string().contains("chart-image/registry.test/team/worker"), "it is an extra image already");
}

#[test]
fn images_in_plain_manifests_must_be_covered_by_the_cluster_as_in_charts() {
    let lab = Lab::new();
    let site = &lab.site;
    let cluster = std::fs::read_to_string(site.path("cluster.yaml")).unwrap();
    site.write(
        "cluster.yaml",
        format!("{cluster}  addons: [{{name: plain, type: yaml, source: {{path: objects}}}}]\n"),
    );
    site.write("objects/b.yaml", "kind: Pod\nspec: {containers: [{image: 'registry.k8s.io/pause:3.10.1'}]}\n");
    site.write("objects/a.yml", "kind: Pod\nspec: {containers: [{image: 'registry.k8s.io/pause'}]}");
    let reported = lab.build().must(ExitCode::ChartImages).err;
    assert_contains(&reported, &["yaml/plain", "neither tag nor digest", "registry.k8s.io/pause:latest"]);
    site.write("objects/a.yml", "kind: Pod\nspec: {containers: [{args: [--image=registry.k8s.io/pause:3.10.1]}]}");
    lab.build().must(ExitCode::Ok);
    let folder = site.unpack(&site.path("out.tar.zst"));
    let lock = std::fs::read_to_string(folder.join("lock.yaml")).unwrap();
    assert_contains(&lock, &["renderings:", "yaml/plain", "plain.yaml"]);
    assert!(!lock.contains("chart-image/"), "the cluster's own image covers it: {lock}");
}

#[test]
fn helm_of_the_catalogue_is_fetched_verified_and_run() {
    let mut place = Place::new();
    let name = format!("linux-{}/helm", if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" });
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    tar.append_path_with_name(helm(), &name).unwrap();
    let packed = tar.into_inner().unwrap().finish().unwrap();
    let arch = &name[6..11];
    let file = format!("get.helm.sh/helm-v3.17.99-linux-{arch}.tar.gz");
    let digest = Digest::of(&packed).hex();
    let server = Server::files(vec![(Box::leak(file.into_boxed_str()), packed)]);
    place.zone.push(format!("{{match: get.helm.sh, to: [\"{}\"], only: true}}", server.url("get.helm.sh")));
    place.site.write(
        "own.yaml",
        format!("schema: kubexm.io/catalogue/v1\nname: own\ncomponents:\n  helm: {{default: 3.17.99, versions: {{3.17.99: {{{arch}: {{sha256: {digest}}}}}}}}}\n"),
    );
    place.site.write("chart/Chart.yaml", chart_yaml("operator", "1.2.3"));
    OPERATOR.iter().for_each(|(name, text)| drop(place.site.write(&format!("chart/{name}"), text)));
    place.operator("{path: chart}", "");
    let lock = |catalogue: &str| {
        let args = ["lock", "-f", "cluster.yaml", "--zone", "zone.yaml", "--catalogue", catalogue];
        place.site.run(&args)
    };
    lock("own.yaml").must(ExitCode::Ok);
    assert_eq!(server.requests().len(), 1);
    // Another program under its name is not run.
    std::fs::remove_dir_all(place.site.path("kubexm")).unwrap();
    let own = std::fs::read_to_string(place.site.path("own.yaml")).unwrap();
    place.site.write("other.yaml", own.replace(&digest, &"0".repeat(64)));
    lock("other.yaml").must(ExitCode::OriginMismatch);
}

#[test]
fn a_rendering_is_cached_for_the_next_build_and_for_dry_runs() {
    let place = Place::new();
    let (server, _) = repository(None, "files/operator-1.2.3.tgz");
    place.operator(&format!("{{repo: \"{}\", chart: operator, version: 1.2.3}}", server.url("charts")), "");
    let before = place.run(&["build", "--dry-run"]).must(ExitCode::Ok).out;
    assert_contains(&before, &["images of chart/op: learnt by rendering it"]);
    assert_contains(&place.run(&["explain", "chart/op"]).must(ExitCode::Ok).out, &["learnt by rendering it"]);
    assert!(server.requests().is_empty(), "a dry run asks nobody");
    place.lock();
    let after = place.run(&["build", "--dry-run"]).must(ExitCode::Ok).out;
    assert_contains(&after, &["images of chart/op: registry.test/team/operator:1.0"]);
    let document = place.run(&["build", "--dry-run", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["charts"], json!([{"key": "chart/op", "images": RENDERED}]));
    // Without a network, and without a helm that could run: everything is in the cache.
    place.run(&["build", "-o", "first.tar.zst"]).must(ExitCode::Ok);
    std::fs::write(place.site.path("no-helm"), "not a program").unwrap();
    let mut again = place.site.program();
    again.args([
        "build",
        "-f",
        "cluster.yaml",
        "--zone",
        "zone.yaml",
        "--offline",
        "-o",
        "again.tar.zst",
        "--helm",
        "no-helm",
    ]);
    end(&mut again).must(ExitCode::Ok);
    assert_eq!(
        std::fs::read(place.site.path("first.tar.zst")).unwrap(),
        std::fs::read(place.site.path("again.tar.zst")).unwrap()
    );
}

#[test]
fn each_failure_to_get_a_chart_has_its_own_exit_code() {
    let place = Place::new();
    let (server, _) = repository(None, "files/operator-1.2.3.tgz");
    let url = server.url("charts");
    let (forged, _) = repository(Some(&"0".repeat(64)), "files/operator-1.2.3.tgz");
    let (no_digest, _) = repository(Some(""), "files/operator-1.2.3.tgz");
    let (login, _) = repository(None, "https://good.test@127.0.0.1:1/x.tgz");
    let (login_of_registry, _) = repository(None, "oci://name@registry.test/charts/operator");
    let page = Server::files(vec![("charts/index.yaml", b"<html>log in</html>".to_vec())]);
    place.site.write("chart.tgz", "no archive");
    for (source, code, words) in [
        (format!("{{repo: \"{url}\", chart: operator, version: 1.2.4}}"), ExitCode::OriginMissing, "it has 1.2.3"),
        (format!("{{repo: \"{url}\", chart: other, version: 1.2.3}}"), ExitCode::OriginMissing, "has no other 1.2.3"),
        (
            format!("{{repo: \"{}\", chart: operator, version: 1.2.3}}", forged.url("charts")),
            ExitCode::OriginMismatch,
            "other bytes",
        ),
        (
            format!("{{repo: \"{}\", chart: operator, version: 1.2.3}}", no_digest.url("charts")),
            ExitCode::OriginMissing,
            "has no digest",
        ),
        (
            format!("{{repo: \"{}\", chart: operator, version: 1.2.3}}", page.url("charts")),
            ExitCode::OriginMismatch,
            "instead of the file",
        ),
        (
            format!("{{repo: \"{}\", chart: operator, version: 1.2.3}}", login.url("charts")),
            ExitCode::OriginMismatch,
            "an address with a login",
        ),
        (
            format!("{{repo: \"{}\", chart: operator, version: 1.2.3}}", login_of_registry.url("charts")),
            ExitCode::OriginMismatch,
            "an address with a login",
        ),
        (
            "{oci: \"oci://registry.test/team/operator\", version: \"1.0\"}".to_owned(),
            ExitCode::OriginMismatch,
            "something other than a chart",
        ),
        ("{path: chart.tgz}".to_owned(), ExitCode::Config, "not a gzip-compressed tar"),
    ] {
        place.operator(&source, "");
        let reported = place.run(&["lock"]).must(code).err;
        assert_contains(&reported, &["chart/op", words]);
    }
}

#[test]
fn helms_errors_are_quoted_and_values_are_not_passed_as_arguments() {
    let place = Place::new();
    place.site.write("chart/Chart.yaml", chart_yaml("operator", "1.2.3"));
    place.site.write("chart/templates/a.yaml", "{{ required \"a password is needed\" .Values.password }}\n");
    place.operator("{path: chart}", "");
    assert_contains(
        &place.run(&["lock"]).must(ExitCode::ChartRender).err,
        &["chart/op cannot be rendered", "a password is needed"],
    );
    // A helm that only says how it was called.
    let spy = place.site.write(
        "spy",
        "#!/bin/sh\n[ \"$1\" = version ] && exit 0\necho \"Error: $* $(env | sort | tr '\\n' ' ')\" >&2\nexit 1\n",
    );
    std::fs::set_permissions(&spy, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    place.operator("{path: chart}", ", values: {password: s3cret}");
    let mut command = place.site.program();
    command.args(["lock", "-f", "cluster.yaml", "--zone", "zone.yaml", "--helm"]).arg(&spy).env("AWS_SECRET", "s3cret");
    let reported = end(&mut command).must(ExitCode::ChartRender).err;
    assert_contains(&reported, &["template op", "--include-crds", "--namespace default", "--values", "HELM_PLUGINS="]);
    assert!(
        !reported.contains("s3cret") && !reported.contains("AWS_SECRET") && !reported.contains("KUBEXM_HOME"),
        "{reported}"
    );
}

#[test]
fn a_hostile_chart_never_reaches_helm() {
    let place = Place::new();
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    tar.append_link(&mut header, "operator/values.yaml", "/etc/passwd").unwrap();
    place.site.write("bad.tgz", tar.into_inner().unwrap().finish().unwrap());
    place.operator("{path: bad.tgz}", "");
    assert_contains(&place.run(&["lock"]).must(ExitCode::Config).err, &["bad.tgz", "neither file nor folder"]);
}

#[test]
fn the_images_of_a_locked_chart_are_asked_for_by_a_zone_check_and_named_by_explain() {
    let place = Place::new();
    let (server, _) = repository(None, "files/operator-1.2.3.tgz");
    place.operator(&format!("{{repo: \"{}\", chart: operator, version: 1.2.3}}", server.url("charts")), "");
    let check = |more: &[&str]| {
        let args = ["zone", "check", "-f", "cluster.yaml", "--zone", "zone.yaml"];
        place.site.run(&[&args, more].concat())
    };
    let operator = "chart-image/registry.test/team/operator:1.0";
    let before = check(&["--all"]).must(ExitCode::Ok);
    assert_contains(&before.err, &["the images of chart/op are not asked for"]);
    assert!(!before.out.contains(operator), "{}", before.out);
    assert_eq!(check(&["--json"]).must(ExitCode::Ok).document()["chartsNotRendered"], json!(["chart/op"]));
    let unknown = place.run(&["explain", "team/operator:1.0"]).must(ExitCode::UnknownVersion).err;
    assert_contains(&unknown, &["the images of chart/op are known when"]);

    place.lock();
    // The lock alone knows: the cache of another machine has no rendering.
    std::fs::remove_dir_all(place.site.path("kubexm")).unwrap();
    let after = check(&["--all"]).must(ExitCode::Ok);
    assert_contains(&after.out, &["ok   chart-image/registry.test/team/hook:1.0", &format!("ok   {operator}")]);
    assert_eq!(check(&["--json"]).must(ExitCode::Ok).document()["chartsNotRendered"], json!([]));
    let reported = place.run(&["explain", "registry.test/team/operator"]).must(ExitCode::Ok).out;
    assert_contains(&reported, &[&format!("{operator} is in"), "the rendering of chart/op names it"]);
    // Another place, which has the chart and not its images.
    let rules = format!(
        "- {{match: registry.test/team/operator, to: [\"{}/gone\"], plainHttp: true, only: true}}",
        place.registry.address
    );
    place.site.write("zone.yaml", format!("name: lab\nrules:\n{rules}\n- {}\n", place.zone[0]));
    assert_contains(&check(&[]).must(ExitCode::NoSource).out, &[&format!("GONE {operator}")]);
}

#[test]
fn a_lock_that_lost_an_image_of_a_chart_is_refused_before_anything_is_fetched() {
    let place = Place::new();
    let (server, _) = repository(None, "files/operator-1.2.3.tgz");
    place.operator(&format!("{{repo: \"{}\", chart: operator, version: 1.2.3}}", server.url("charts")), "");
    let mut lock = place.lock();
    lock["items"].as_array_mut().unwrap().retain(|item| item["key"] != "chart-image/registry.test/team/hook:1.0");
    place.site.write("cluster.lock.json", lock.to_string());
    let reported = place.run(&["build", "-o", "out.tar.zst", "--locked"]).must(ExitCode::LockDrift).err;
    assert_contains(
        &reported,
        &["1 difference\n", "chart-image/registry.test/team/hook:1.0 linux/amd64: 1.0 is needed, and not in the lock"],
    );
}
