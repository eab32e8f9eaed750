//! Where artifacts are from travels beside the manifest: the same content behind two mirrors is one manifest, and nobody has to
//! show the addresses of a site.

use std::path::PathBuf;

use kubexm_archive::{Bundle, Documents};
use kubexm_spec::{ExitCode, Sources};
use serde_json::Value;

use crate::images::two_platforms;
use crate::registry::{Registry, Setup};
use crate::server::{Server, nobody};
use crate::site::{Site, assert_contains, noise, wanted};

const TOOL: &str = "tools/tool.bin";
const IMAGE: &str = "registry.test/team/app:v1";

/// A file and an image whose own origins nobody can reach, and two sites with a mirror of their own each.
struct Mirrored {
    site: Site,
    origin: String,
    mirrors: [(Server, Registry); 2],
}

impl Mirrored {
    fn new() -> Self {
        let (site, body, origin) = (Site::new(), noise(1, 300_000), nobody());
        let (pushed, ..) = two_platforms(site.path("made"), "v1");
        let mirror = |folder: &str| {
            let registry = Registry::start(Setup::default());
            registry.push(pushed.path(), &format!("{folder}/team/app"), "v1");
            (Server::files(vec![(TOOL, body.clone())]), registry)
        };
        let mirrors = [mirror("one"), mirror("another/path")];
        site.write("notes.txt", "read me\n");
        site.extras(&format!(
            "platforms: [linux/amd64]\nextraFiles:\n{}\n- {{path: notes.txt}}\nextraImages:\n- {{name: \"{IMAGE}\"}}",
            wanted(&format!("http://{origin}/{TOOL}"), &body)
        ));
        let mirrored = Self { site, origin, mirrors };
        for (number, folder) in ["one", "another/path"].into_iter().enumerate() {
            let (files, registry) = &mirrored.mirrors[number];
            mirrored.site.write(
                &format!("zone{number}.yaml"),
                format!(
                    "name: site{number}\nrules:\n- {{match: \"{}\", to: [\"http://{}\"], only: true}}\n\
                     - {{match: registry.test, to: [\"{}/{folder}\"], plainHttp: true, only: true}}\n",
                    mirrored.origin,
                    files.address(),
                    registry.address,
                ),
            );
        }
        mirrored
    }

    /// Locks and builds behind one of the mirrors, with a cache of its own.
    fn built(&self, number: usize, out: &str, more: &[&str]) -> PathBuf {
        let (zone, cache, lock) =
            (format!("zone{number}.yaml"), format!("cache{number}"), format!("{number}.lock.json"));
        let site = ["-f", "cluster.yaml", "--zone", &zone, "--cache", &cache];
        self.site.run(&[&["lock", "-o", &lock][..], &site].concat()).must(ExitCode::Ok);
        let build = ["build", "-o", out, "--locked", "--lock", &lock];
        self.site.run(&[&build[..], &site, more].concat()).must(ExitCode::Ok);
        self.site.path(out)
    }

    fn sources(&self, bundle: &str) -> Option<Sources> {
        Bundle::open(&self.site.path(bundle)).unwrap().sources().unwrap()
    }
}

#[test]
fn the_same_content_locked_behind_two_mirrors_is_one_manifest_and_without_sources_one_file() {
    let mirrored = Mirrored::new();
    mirrored.built(0, "0.tar.zst", &[]);
    mirrored.built(1, "1.tar.zst", &[]);
    let [one, other] = ["0.tar.zst", "1.tar.zst"].map(|name| Bundle::open(&mirrored.site.path(name)).unwrap());
    assert_eq!(one.manifest_digest(), other.manifest_digest());
    let [first, second] = ["0.tar.zst", "1.tar.zst"].map(|name| mirrored.sources(name).unwrap());
    assert_eq!((first.zone.as_str(), second.zone.as_str()), ("site0", "site1"));
    for (sources, (files, registry)) in [first, second].iter().zip(&mirrored.mirrors) {
        let of = |key: &str| sources.artifacts.iter().find(|one| one.key.to_string() == key).unwrap();
        let tool = of("file/tool.bin");
        assert_eq!(tool.asked.as_deref(), Some(format!("http://{}/{TOOL}", mirrored.origin).as_str()));
        assert_eq!((&tool.from, &tool.candidates), (&vec![files.url(TOOL)], &vec![files.url(TOOL)]));
        let image = of(&format!("extra-image/{IMAGE}"));
        assert_eq!(image.asked.as_deref(), Some(IMAGE));
        assert!(image.from.len() == 1 && image.from[0].starts_with(&registry.address), "{image:?}");
        assert!(of("file/notes.txt").asked.is_none() && of("file/notes.txt").from.is_empty());
    }
    for name in ["0.tar.zst", "1.tar.zst"] {
        mirrored.site.run(&["verify", name]).must(ExitCode::Ok);
    }

    let bytes = [0, 1].map(|number| {
        let name = format!("without{number}.tar.zst");
        std::fs::read(mirrored.built(number, &name, &["--no-sources"])).unwrap()
    });
    assert!(bytes[0] == bytes[1], "not the same file");
    let bundle = Bundle::open(&mirrored.site.path("without0.tar.zst")).unwrap();
    assert_eq!((bundle.manifest_digest(), bundle.sources().unwrap()), (one.manifest_digest(), None));
    for name in [&["inspect"][..], &["sbom", "--format", "cyclonedx"], &["sbom", "--format", "spdx"], &["provenance"]] {
        let text = mirrored.site.run(&[name, &["without0.tar.zst"]].concat()).must(ExitCode::Ok).out;
        for (files, registry) in &mirrored.mirrors {
            assert!(!text.contains(files.address()) && !text.contains(&registry.address), "{name:?}: {text}");
        }
    }
}

#[test]
fn a_zone_that_cluster_yaml_names_is_content_and_the_one_that_is_used_is_not() {
    let mirrored = Mirrored::new();
    let yaml = std::fs::read_to_string(mirrored.site.path("cluster.yaml")).unwrap();
    mirrored.site.write("cluster.yaml", yaml.replace("platforms:", "zone: zone0.yaml\n    platforms:"));
    mirrored.built(0, "0.tar.zst", &[]);
    mirrored.built(1, "1.tar.zst", &[]);
    let [one, other] = ["0.tar.zst", "1.tar.zst"].map(|name| Bundle::open(&mirrored.site.path(name)).unwrap());
    assert_eq!(one.manifest_digest(), other.manifest_digest());
    let site = ["-f", "cluster.yaml", "--zone", "zone0.yaml", "--cache", "cache0"];
    let build = |more: &[&str]| {
        mirrored.site.run(&[&["build", "-o", "x.tar.zst"][..], &site, more].concat()).must(ExitCode::Ok)
    };
    assert_contains(&build(&["--no-sources"]).err, &["spec.bundle.zone: zone0.yaml", "KMZONE"]);
    assert!(!build(&[]).err.contains("spec.bundle.zone"));
}

#[test]
fn a_second_build_from_the_cache_knows_where_its_blobs_are_from_and_is_the_same_file() {
    let mirrored = Mirrored::new();
    let first = std::fs::read(mirrored.built(0, "0.tar.zst", &[])).unwrap();
    assert!(first == std::fs::read(mirrored.built(0, "again.tar.zst", &["--offline"])).unwrap());
}

#[test]
fn lock_inspect_sbom_and_provenance_agree_on_sources() {
    let mirrored = Mirrored::new();
    mirrored.built(0, "0.tar.zst", &[]);
    let json = |args: &[&str]| mirrored.site.run(args).must(ExitCode::Ok).document();
    let shown = json(&["inspect", "--json", "0.tar.zst"]);
    let lock: Value = serde_json::from_slice(&std::fs::read(mirrored.site.path("0.lock.json")).unwrap()).unwrap();
    let cyclonedx = json(&["sbom", "--format", "cyclonedx", "0.tar.zst"]);
    let spdx = json(&["sbom", "--format", "spdx", "0.tar.zst"]);
    let statement = json(&["provenance", "0.tar.zst"]);
    let dependencies = &statement["predicate"]["buildDefinition"]["resolvedDependencies"];
    let mut seen = 0;
    for artifact in shown["artifacts"].as_array().unwrap() {
        let key = artifact["key"].as_str().unwrap();
        let item = lock["items"].as_array().unwrap().iter().find(|item| item["key"] == key).unwrap();
        let Some(from) = artifact["from"].as_array().filter(|from| !from.is_empty()) else { continue };
        seen += 1;
        assert_eq!(artifact["sources"], item["sources"], "{key}");
        assert!(from.iter().all(|one| item["sources"].as_array().unwrap().contains(one)), "{key}: {from:?}");
        let asked = artifact["asked"].as_str().unwrap();
        let is_it = |one: &&Value, field: &str| one[field].as_str().is_some_and(|id| id.starts_with(key));
        let component = cyclonedx["components"].as_array().unwrap().iter().find(|one| is_it(one, "bom-ref")).unwrap();
        let reported: Vec<&Value> = component["properties"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|property| property["name"] == "kubexm:from")
            .map(|property| &property["value"])
            .collect();
        assert_eq!(reported, from.iter().collect::<Vec<_>>(), "{key}");
        assert!(component["externalReferences"][0]["url"].as_str().unwrap().ends_with(asked), "{key}");
        let dependency = dependencies.as_array().unwrap().iter().find(|one| is_it(one, "name")).unwrap();
        assert_eq!(dependency["annotations"]["from"], artifact["from"], "{key}");
        assert!(dependency["downloadLocation"].as_str().unwrap().ends_with(asked), "{key}");
        let text = spdx.to_string();
        assert!(from.iter().all(|one| text.contains(&format!("fetched from: {}", one.as_str().unwrap()))), "{text}");
    }
    assert_eq!(seen, 2);
    assert_contains(
        &mirrored.site.run(&["inspect", "0.tar.zst"]).must(ExitCode::Ok).out,
        &["zone      site0", &mirrored.mirrors[0].0.url(TOOL)],
    );
}

#[test]
fn sources_go_with_volumes_deltas_and_registries_to_the_same_bytes() {
    let mirrored = Mirrored::new();
    let site = &mirrored.site;
    let whole = std::fs::read(mirrored.built(0, "0.tar.zst", &[])).unwrap();
    site.write("notes.txt", "before\n");
    mirrored.built(0, "base.tar.zst", &[]);
    site.write("notes.txt", "read me\n");
    mirrored.built(0, "delta.tar.zst", &["--base", "base.tar.zst"]);
    site.run(&["merge", "base.tar.zst", "delta.tar.zst", "-o", "merged.tar.zst"]).must(ExitCode::Ok);
    assert!(std::fs::read(site.path("merged.tar.zst")).unwrap() == whole);
    let registry = &mirrored.mirrors[1].1;
    let to = format!("oci://{}/bundles/x:1", registry.address);
    site.run(&["push", "--plain-http", "0.tar.zst", &to]).must(ExitCode::Ok);
    site.run(&["pull", "--plain-http", &to, "-o", "pulled.tar.zst"]).must(ExitCode::Ok);
    assert!(std::fs::read(site.path("pulled.tar.zst")).unwrap() == whole);
}
