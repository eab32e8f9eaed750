//! `sbom` and `provenance`, compared with the formats' own schemas and readers (`scripts/test` installs them from PyPI).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kubexm_spec::ExitCode;
use serde_json::{Value, json};

use crate::cluster::Lab;
use crate::contents::sample;
use crate::images::Maker;
use crate::site::{Site, digest, noise};

/// Where `scripts/lab` and `scripts/test` put what tests need.
pub fn lab() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || set("XDG_CACHE_HOME").unwrap_or_else(|| set("HOME").unwrap_or_default().join(".cache"));
    set("KUBEXM_LAB").unwrap_or_else(|| cache().join("kubexm-lab"))
}

/// The Python that has what tests need.
fn python() -> PathBuf {
    let python = lab().join("python/bin/python");
    assert!(python.exists(), "{} is needed: scripts/test makes it", python.display());
    python
}

fn asked(format: &str, file: &Path) -> Output {
    let referee = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bundle/referee.py");
    Command::new(python()).arg(referee).arg(format).arg(file).output().unwrap()
}

#[track_caller]
fn judged(format: &str, file: &Path) {
    let output = asked(format, file);
    assert!(output.status.success(), "{format}: {}", String::from_utf8_lossy(&output.stderr));
}

fn read(site: &Site, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(site.path(name)).unwrap()).unwrap()
}

fn by<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|entry| entry[field] == value);
    found.unwrap_or_else(|| panic!("no {field} {value} in {list}"))
}

#[test]
fn a_clusters_bill_of_materials_passes_the_schemas_and_names_everything() {
    let lab = Lab::new();
    lab.build().must(ExitCode::Ok);
    let site = &lab.site;
    for format in ["cyclonedx", "spdx"] {
        let name = format!("sbom.{format}.json");
        site.run(&["sbom", "out.tar.zst", "--format", format, "-o", &name]).must(ExitCode::Ok);
    }
    judged("cyclonedx", &site.path("sbom.cyclonedx.json"));
    judged("spdx", &site.path("sbom.spdx.json"));

    let shown = site.run(&["inspect", "--json", "out.tar.zst"]).document();
    let (cyclonedx, spdx) = (read(site, "sbom.cyclonedx.json"), read(site, "sbom.spdx.json"));
    let artifacts = shown["artifacts"].as_array().unwrap();
    assert_eq!(cyclonedx["components"].as_array().unwrap().len(), artifacts.len());
    assert_eq!(spdx["packages"].as_array().unwrap().len(), artifacts.len() + 1, "the bundle is one too");
    for artifact in artifacts {
        let text = |field: &str| artifact[field].as_str().unwrap_or_default();
        let digest = artifact["manifest"].as_str().unwrap_or(text("digest")).trim_start_matches("sha256:");
        let id = format!("{}@{}", text("key"), text("platform"));
        let component = by(&cyclonedx["components"], "bom-ref", &id);
        assert_eq!(component["hashes"][0]["content"], digest);
        // The manifest has none for the installer: the program carries its own.
        let version = if text("key") == "installer/kubexm-install" { "0.9.9" } else { text("version") };
        assert_eq!(component["version"].as_str().unwrap_or_default(), version);
        assert_eq!(component["licenses"][0]["license"]["id"], "Apache-2.0", "{id}");
        let purl = component["purl"].as_str().unwrap();
        let is_it = |package: &&Value| package["externalRefs"][0]["referenceLocator"] == purl;
        let package = spdx["packages"].as_array().unwrap().iter().find(is_it).unwrap();
        assert_eq!(
            (&package["checksums"][0]["checksumValue"], &package["licenseDeclared"]),
            (&digest.into(), &"Apache-2.0".into())
        );
    }
    // Where upstream has it, not where this site's mirror has.
    let kubeadm = by(&cyclonedx["components"], "bom-ref", "binary/kubeadm@linux/amd64");
    let origin = "https://dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubeadm";
    assert_eq!(kubeadm["externalReferences"][0]["url"], origin);
    assert_eq!(by(&spdx["packages"], "name", "kubeadm")["downloadLocation"], origin);
    let purl = kubeadm["purl"].as_str().unwrap();
    assert!(purl.starts_with("pkg:generic/kubeadm@1.34.4?arch=amd64&checksum=sha256:"), "{purl}");
    let pause = by(&cyclonedx["components"], "bom-ref", "image/pause@linux/amd64");
    assert_eq!(
        (&pause["type"], &pause["externalReferences"][0]["url"]),
        (&"container".into(), &"oci://registry.k8s.io/pause:3.10.1".into())
    );
    assert!(pause["purl"].as_str().unwrap().ends_with("?arch=amd64&repository_url=registry.k8s.io/pause&tag=3.10.1"));
    assert_eq!(cyclonedx["metadata"]["component"]["version"], "v1.34.4");

    site.run(&["provenance", "out.tar.zst", "-o", "statement.json"]).must(ExitCode::Ok);
    judged("intoto", &site.path("statement.json"));
    let statement = read(site, "statement.json");
    let build = &statement["predicate"]["buildDefinition"];
    let dependency = by(&build["resolvedDependencies"], "name", "binary/kubeadm@linux/amd64");
    assert_eq!(
        (&dependency["downloadLocation"], &dependency["annotations"]["trust"]),
        (&origin.into(), &"overlay".into())
    );
    assert_eq!(build["resolvedDependencies"].as_array().unwrap().len(), artifacts.len());
    assert_eq!(build["externalParameters"]["zone"], "lab");
    let cluster = digest(&site.path("cluster.yaml"));
    assert_eq!(build["externalParameters"]["cluster"]["digest"]["sha256"], cluster.hex());
}

#[test]
fn documents_are_the_same_bytes_each_time_and_others_for_another_bundle() {
    let site = sample();
    let all = |bundle: &str| {
        let run = |args: &[&str]| site.run(args).must(ExitCode::Ok).out;
        [
            run(&["sbom", bundle, "--format", "cyclonedx"]),
            run(&["sbom", bundle, "--format", "spdx"]),
            run(&["provenance", bundle]),
        ]
    };
    let first = all("out.tar.zst");
    // The name of the file and the time are in none of them.
    std::fs::copy(site.path("out.tar.zst"), site.path("copy.tar.zst")).unwrap();
    assert_eq!(all("copy.tar.zst"), first);
    site.write("a.txt", "another text");
    site.built(&[]);
    let other = all("out.tar.zst");
    let serial = |text: &str| serde_json::from_str::<Value>(text).unwrap()["serialNumber"].clone();
    assert!(first.iter().zip(&other).all(|(one, two)| one != two));
    assert_ne!(serial(&first[0]), serial(&other[0]));
}

#[test]
fn provenance_names_manifest_and_file_by_digest() {
    let site = sample();
    let statement = site.run(&["provenance", "out.tar.zst", "--files"]).must(ExitCode::Ok).document();
    let manifest = site.run(&["inspect", "--json", "out.tar.zst"]).document()["manifest"].clone();
    let subject = |name: &str| by(&statement["subject"], "name", name)["digest"]["sha256"].as_str().unwrap().to_owned();
    assert_eq!(format!("sha256:{}", subject("manifest.json")), manifest.as_str().unwrap());
    assert_eq!(subject("out.tar.zst"), digest(&site.path("out.tar.zst")).hex());
    let without = site.run(&["provenance", "out.tar.zst"]).must(ExitCode::Ok).document();
    assert_eq!(without["subject"].as_array().unwrap().len(), 1);
}

/// cosign takes the statement as it is, and finds manifest.json, and no other file, to be its subject. It runs without a network.
#[test]
fn cosign_attests_the_provenance_of_a_bundle() {
    let site = sample();
    site.run(&["provenance", "out.tar.zst", "-o", "statement.json"]).must(ExitCode::Ok);
    site.write("manifest.json", site.run(&["cat", "out.tar.zst", "manifest.json"]).must(ExitCode::Ok).out);
    site.write("other.json", "{}");
    let program = lab().join("bin/cosign");
    assert!(program.exists(), "{} is needed: scripts/lab build makes it", program.display());
    let cosign = |line: &str| {
        let mut unshare = Command::new("unshare");
        unshare.arg("-n").arg(&program).args(line.split(' ')).current_dir(site.path(""));
        let output = unshare.env("COSIGN_PASSWORD", "").env("HOME", site.path("home")).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let must = |line: &str| assert!(cosign(line).0, "cosign {line}: {}", cosign(line).1);
    must("generate-key-pair --output-key-prefix key");
    must("attest-blob --key key.key --statement statement.json --tlog-upload=false --output-signature attested --yes");
    let verify =
        "verify-blob-attestation --key key.pub --insecure-ignore-tlog --type slsaprovenance1 --signature attested";
    must(&format!("{verify} manifest.json"));
    let (taken, said) = cosign(&format!("{verify} other.json"));
    assert!(!taken && said.contains("no matching subject digest"), "{said}");
}

#[test]
fn items_that_users_add_have_no_invented_licence() {
    let site = sample();
    for format in ["cyclonedx", "spdx"] {
        let name = format!("sbom.{format}.json");
        site.run(&["sbom", "out.tar.zst", "--format", format, "-o", &name]).must(ExitCode::Ok);
        judged(format, &site.path(&name));
    }
    let cyclonedx = read(&site, "sbom.cyclonedx.json");
    assert!(cyclonedx["components"].as_array().unwrap().iter().all(|component| component.get("licenses").is_none()));
    let spdx = read(&site, "sbom.spdx.json");
    assert!(spdx["packages"].as_array().unwrap().iter().all(|package| package["licenseDeclared"] == "NOASSERTION"));
}

/// The referees refuse what they should: else the tests above could not fail.
#[test]
fn the_schema_validators_refuse_a_spoiled_document() {
    let site = sample();
    let good = |args: &[&str]| site.run(args).must(ExitCode::Ok).out;
    let (cyclonedx, spdx, statement) = (
        good(&["sbom", "out.tar.zst", "--format", "cyclonedx"]),
        good(&["sbom", "out.tar.zst", "--format", "spdx"]),
        good(&["provenance", "out.tar.zst"]),
    );
    let spoiled = [
        ("cyclonedx", cyclonedx.replacen("\"SHA-256\"", "\"SHA-257\"", 1)),
        ("cyclonedx", cyclonedx.replacen("pkg:generic/a.txt?", "pkg:generic/a%2etxt?", 1)),
        ("spdx", spdx.replacen("\"SPDXRef-DOCUMENT\"", "\"DOCUMENT\"", 1)),
        ("spdx", spdx.replacen("\"CONTAINS\"", "\"HOLDS\"", 1)),
        ("intoto", statement.replacen("\"predicateType\"", "\"predicate_kind\"", 1)),
        ("intoto", statement.replacen("\"resolvedDependencies\"", "\"dependencies\"", 1)),
    ];
    for (number, (format, text)) in spoiled.iter().enumerate() {
        let good = [&cyclonedx, &spdx, &statement];
        assert!(good.iter().all(|good| *good != text), "{number} was not spoiled");
        let file = site.write("spoiled.json", text);
        assert!(!asked(format, &file).status.success(), "{format} {number} passed");
    }
}

#[test]
fn an_image_has_the_licence_that_it_declares_and_no_assertion_only_where_nothing_is_known() {
    let site = Site::new();
    let maker = Maker::new(site.path("layout"));
    let manifest = |seed: u64, labels: Value, annotations: Value| {
        let layer = maker.blob("application/vnd.oci.image.layer.v1.tar", &noise(seed, 1000));
        let config = maker.json(
            "application/vnd.oci.image.config.v1+json",
            &json!({"architecture": "amd64", "os": "linux", "config": {"Labels": labels},
                    "rootfs": {"type": "layers", "diff_ids": [layer.digest.to_string()]}}),
        );
        let media_type = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer],
                              "annotations": annotations});
        maker.json(media_type, &manifest)
    };
    let key = "org.opencontainers.image.licenses";
    let images = [
        ("one", manifest(1, json!({}), json!({key: "Apache-2.0"})), "Apache-2.0"),
        ("two", manifest(2, json!({key: "MIT AND BSD-3-Clause"}), json!({})), "MIT AND BSD-3-Clause"),
        ("three", manifest(3, json!({key: "see the file LICENSE"}), json!({})), "NOASSERTION"),
        ("four", manifest(4, Value::Null, json!({})), "NOASSERTION"),
    ];
    let names = images.each_ref().map(|(name, ..)| format!("local.test/{name}:1"));
    let named: Vec<_> = names.iter().map(String::as_str).zip(images.iter().map(|(_, manifest, _)| manifest)).collect();
    maker.finish(&named);
    let extra: Vec<String> = names.iter().map(|name| format!("{{name: \"{name}\", from: \"oci:layout\"}}")).collect();
    site.extras(&format!("extraImages: [{}]", extra.join(", ")));
    site.built(&[]);
    for format in ["cyclonedx", "spdx"] {
        let name = format!("sbom.{format}.json");
        site.run(&["sbom", "out.tar.zst", "--format", format, "-o", &name]).must(ExitCode::Ok);
        judged(format, &site.path(&name));
    }
    let (cyclonedx, spdx) = (read(&site, "sbom.cyclonedx.json"), read(&site, "sbom.spdx.json"));
    for (name, _, licence) in &images {
        assert_eq!(by(&spdx["packages"], "name", name)["licenseDeclared"], *licence, "{name}");
        let component = by(&cyclonedx["components"], "name", name);
        let declared =
            component["licenses"][0]["license"]["id"].as_str().or(component["licenses"][0]["expression"].as_str());
        assert_eq!(declared.unwrap_or("NOASSERTION"), *licence, "{name}");
    }
}
