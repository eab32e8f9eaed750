//! A whole cluster's bundle, of small programs and images that a mirror inside serves under upstream's names.

use flate2::{Compression, write::GzEncoder};
use kubexm_spec::{Digest, ExitCode};
use serde_json::Value;

use crate::images::two_platforms;
use crate::registry::{Registry, Setup};
use crate::server::{Server, file};
use crate::site::{Ended, Site, assert_contains};
use crate::verify::rewrite;

/// containerd of a known minor and an unknown patch: its digest is what is published beside it.
pub const SPEC: &str = "  kubernetes: {version: v1.34.4}\n  runtime: {version: 2.2.99}\n  bundle: {exclude: [helm]}\n";

/// What the mirror serves under a path: a program, or the checksum file of one.
pub fn body(path: &str) -> Vec<u8> {
    match path.strip_suffix(".sha256sum").or_else(|| path.strip_suffix(".sha256")) {
        Some(of) => {
            let name = of.rsplit('/').next().unwrap_or(of);
            format!("{}  {name}\n", Digest::of(format!("program {of}")).hex()).into_bytes()
        }
        None => format!("program {path}").into_bytes(),
    }
}

/// Options that every verb of a lab gets.
pub const SETUP: [&str; 6] = ["--zone", "zone.yaml", "--catalogue", "overlay.yaml", "--installer", "kubexm-install"];

pub struct Lab {
    pub site: Site,
    pub server: Server,
    _registry: Registry,
}

impl Lab {
    /// Everything that the dry run names is made: programs pinned by an overlay, images pushed under upstream's tags.
    pub fn new() -> Self {
        Self::of(SPEC, body)
    }

    /// The same of another cluster, and another server of its files.
    pub fn of(spec: &str, body: fn(&str) -> Vec<u8>) -> Self {
        Self::with(spec, body, |_| ())
    }

    /// The same with files of the user beside cluster.yaml.
    pub fn with(spec: &str, body: fn(&str) -> Vec<u8>, files_of_user: impl Fn(&Site)) -> Self {
        let (site, registry) = (Site::new(), Registry::start(Setup::default()));
        let server = Server::start(move |request| file(request, &body(&request.path)));
        let head = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: lab}\nspec:\n";
        site.write("cluster.yaml", format!("{head}{spec}"));
        files_of_user(&site);
        let rule =
            |host: &str, to: &str| format!("- {{match: {host}, to: [\"{to}/{host}\"], plainHttp: true, only: true}}\n");
        let files =
            ["dl.k8s.io", "github.com", "get.helm.sh", "download.docker.com"].map(|host| rule(host, server.address()));
        let images = ["registry.k8s.io", "ghcr.io"].map(|host| rule(host, &registry.address));
        site.write("zone.yaml", format!("name: lab\nrules:\n{}{}", files.concat(), images.concat()));
        let mut header = b"\x7fELF\x02\x01".to_vec();
        header.resize(18, 0);
        header.extend([62, 0]);
        header.extend(kubexm_spec::program_mark!("0.9.9").bytes());
        site.write("kubexm-install", &header);

        let (made, ..) = two_platforms(site.path("made"), "v1");
        let mut components = String::new();
        let planned = site.build(&["--zone", "zone.yaml", "--dry-run", "--json"]).must(ExitCode::Ok).document();
        for item in planned["items"].as_array().unwrap() {
            let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
            let (key, version) = (text("key"), text("version"));
            let source = item["sources"][0].as_str().unwrap_or_default();
            if let Some(name) = key.strip_prefix("binary/").filter(|name| *name != "containerd") {
                let path = source.split_once(server.address()).unwrap().1.trim_start_matches('/');
                let sha256 = Digest::of(body(path)).hex();
                components
                    .push_str(&format!("  {name}: {{versions: {{{version}: {{amd64: {{sha256: {sha256}}}}}}}}}\n"));
            } else if key.starts_with("image/") {
                registry.push(made.path(), source.split_once('/').unwrap().1, &version);
            }
        }
        let schema = "schema: kubexm.io/catalogue/v1\nname: own builds\ncomponents:\n";
        site.write("overlay.yaml", format!("{schema}{components}"));
        Self { site, server, _registry: registry }
    }

    pub fn build(&self) -> Ended {
        self.site.build(&SETUP)
    }
}

#[test]
fn a_clusters_bundle_is_complete_by_its_own_catalogue_and_says_why_each_digest_is_trusted() {
    let lab = Lab::new();
    lab.build().must(ExitCode::Ok);
    let site = &lab.site;
    site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);
    let shown = site.run(&["inspect", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    assert_eq!(shown["cluster"]["kubernetes"], "v1.34.4");
    assert_eq!(shown["cluster"]["runtime"], "containerd 2.2.99");
    let trust = |key: &str| -> Value {
        let found = shown["artifacts"].as_array().unwrap().iter().find(|artifact| artifact["key"] == key);
        found.map_or(Value::Null, |artifact| artifact["trust"].clone())
    };
    assert_eq!(trust("binary/kubeadm"), "overlay");
    // Only the mirror has said what these are.
    assert_eq!(trust("binary/containerd"), "mirror");
    assert_eq!(trust("image/pause"), "mirror");
    assert_eq!(trust("installer/kubexm-install"), "self-built");
    assert_eq!(trust("binary/helm"), Value::Null, "what is excluded is not there");

    let folder = site.unpack(&site.path("out.tar.zst"));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_contains(
        &read("index.json"),
        &["kubexm/binary/kubeadm:1.34.4-linux-amd64", "registry.k8s.io/kube-proxy:v1.34.4"],
    );
    assert_contains(&read("catalogue.json"), &["own builds", "2.2.99"]);

    let asked = lab.server.requests().len();
    let first = std::fs::read(site.path("out.tar.zst")).unwrap();
    lab.build().must(ExitCode::Ok);
    assert_eq!(std::fs::read(site.path("out.tar.zst")).unwrap(), first);
    let again: Vec<String> = lab.server.requests().split_off(asked).into_iter().map(|request| request.path).collect();
    assert!(again.iter().all(|path| path.contains("sha256")), "programs are fetched again: {again:?}");
}

/// Harbor's offline installer with one image, which is not one of Harbor's.
fn harbor() -> Vec<u8> {
    let tgz = |name: &str, content: &[u8]| {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, content).unwrap();
        tar.into_inner().unwrap().finish().unwrap()
    };
    let images = tgz("manifest.json", br#"[{"RepoTags": ["other.test/team/app:v1"]}]"#);
    tgz("harbor/harbor.v2.10.2.tar.gz", &images)
}

#[test]
fn harbors_image_list_is_compared_with_the_catalogue_also_with_a_cold_cache() {
    let served = |path: &str| if path.contains("harbor-offline") { harbor() } else { body(path) };
    let lab = Lab::of(&format!("{SPEC}  registry: {{type: harbor}}\n"), served);
    let lock = lab.site.run(&[&["lock", "-f", "cluster.yaml"], &SETUP[..]].concat()).must(ExitCode::Ok);
    assert!(!lock.err.contains("other.test"), "a lock fetches no installer: {}", lock.err);
    for cache in ["cold", "cold"] {
        let built = lab.site.build(&[&SETUP[..], &["--locked", "--cache", cache]].concat()).must(ExitCode::Ok);
        assert_contains(
            &built.err,
            &["binary/harbor", "in the installer only: other.test/team/app:v1", "goharbor/harbor-core"],
        );
    }
    let asked = lab.server.requests().into_iter().filter(|r| r.method == "GET" && r.path.contains("harbor-offline"));
    assert_eq!(asked.count(), 1, "it is fetched once");
}

#[test]
fn a_clusters_bundle_without_one_of_its_artifacts_is_incomplete() {
    let lab = Lab::new();
    lab.build().must(ExitCode::Ok);
    rewrite(&lab.site, &lab.site.path("less.tar.zst"), None, |manifest| {
        manifest.artifacts.retain(|artifact| artifact.key.to_string() != "image/pause");
    });
    let text = lab.site.run(&["verify", "less.tar.zst"]).must(ExitCode::BundleIncomplete).err;
    assert_contains(&text, &["image/pause 3.10.1", "kubeadm 1.34.4"]);
}
