//! What users read a seeded registry with: helm, crane, oras and cosign, as `scripts/lab build` makes them.

use std::path::Path;
use std::process::{Command, Output};

use kubexm_spec::{Digest, Platform};
use serde_json::{Value, json};

use crate::bundles::{Maker, noise};
use crate::registry::{PASSWORD, Registry, Setup, USER, lab_program};
use crate::site::{options_for, run};

const ONE: [Platform; 1] = [Platform::LINUX_AMD64];
const SETUP: Setup = Setup { tls: true, password: true, read_only: false };

/// A program of the lab in a folder, which is its home, too.
fn program(name: &str, home: &Path) -> Command {
    let path = lab_program(name);
    assert!(path.exists(), "{} is needed (scripts/lab build)", path.display());
    let mut command = Command::new(path);
    command.current_dir(home).env("HOME", home).env("DOCKER_CONFIG", home).env("COSIGN_PASSWORD", "");
    command
}

fn well(output: Output) -> Vec<u8> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The login that docker would keep for the registry.
fn log_in(home: &Path, registry: &Registry) {
    use base64::Engine as _;
    let login = base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let auths = json!({"auths": {&registry.address: {"auth": login}}});
    std::fs::write(home.join("config.json"), auths.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn crane_reads_an_index_and_its_blobs() {
    let registry = Registry::start(SETUP);
    let folder = tempfile::tempdir().unwrap();
    let layer = noise(1, 70_000);
    let mut maker = Maker::new(&[Platform::LINUX_AMD64, Platform::LINUX_ARM64]);
    let app = maker.image("quay.io/team/app:v1", std::slice::from_ref(&layer), 0);
    let bundle = maker.bundle(folder.path());
    run(&bundle, &options_for(folder.path(), &registry, SETUP)).await.unwrap();
    log_in(folder.path(), &registry);
    let name = format!("{}/mirror/quay.io/team/app", registry.address);
    let crane = |arguments: &[&str]| {
        let output = program("crane", folder.path()).args(arguments).env("SSL_CERT_FILE", registry.ca()).output();
        well(output.unwrap())
    };
    let digest = String::from_utf8(crane(&["digest", &format!("{name}:v1")])).unwrap();
    assert_eq!(digest.trim(), app.target.digest.to_string());
    let manifest = crane(&["manifest", "--platform", "linux/arm64", &format!("{name}:v1")]);
    assert_eq!(Digest::of(manifest), app.manifests[&Platform::LINUX_ARM64].digest);
    assert_eq!(crane(&["blob", &format!("{name}@{}", Digest::of(&layer))]), layer);
    assert_eq!(crane(&["ls", &name]), b"v1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn oras_pulls_a_file_and_finds_what_is_attached_to_an_image() {
    let registry = Registry::start(SETUP);
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&ONE);
    let app = maker.image("quay.io/team/app:v1", &[noise(1, 7000)], 0);
    let attached = maker.attach("quay.io/team/app:v1", &app.target, false);
    maker.file("notes.txt", b"hello");
    let bundle = maker.bundle(folder.path());
    run(&bundle, &options_for(folder.path(), &registry, SETUP)).await.unwrap();
    log_in(folder.path(), &registry);
    let oras = |arguments: &[&str]| {
        let mut oras = program("oras", folder.path());
        well(oras.args(arguments).arg("--ca-file").arg(registry.ca()).output().unwrap())
    };
    oras(&["pull", &format!("{}/mirror/kubexm/files:notes.txt", registry.address)]);
    assert_eq!(std::fs::read(folder.path().join("notes.txt")).unwrap(), b"hello");
    let name = format!("{}/mirror/quay.io/team/app:v1", registry.address);
    let found: Value = serde_json::from_slice(&oras(&["discover", "--format", "json", &name])).unwrap();
    assert_eq!(found["manifests"][0]["digest"], attached.to_string(), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cosign_verifies_a_signature_that_was_seeded_with_its_image() {
    let registry = Registry::start(SETUP);
    let folder = tempfile::tempdir().unwrap();
    let cosign = |arguments: &[&str]| program("cosign", folder.path()).args(arguments).output().unwrap();
    well(cosign(&["generate-key-pair"]));
    let mut maker = Maker::new(&ONE);
    let app = maker.image("quay.io/team/app:v1", &[noise(1, 7000)], 0);
    // As cosign writes it for `cosign sign`.
    let payload = json!({
        "critical": {
            "identity": {"docker-reference": "quay.io/team/app"},
            "image": {"docker-manifest-digest": app.target.digest},
            "type": "cosign container image signature",
        },
        "optional": null,
    });
    let payload = payload.to_string();
    std::fs::write(folder.path().join("payload"), &payload).unwrap();
    let signed = cosign(&["sign-blob", "--yes", "--key", "cosign.key", "--tlog-upload=false", "payload"]);
    let signature = String::from_utf8(well(signed)).unwrap();
    maker.sign("quay.io/team/app:v1", &app.target, payload.as_bytes(), signature.trim());
    maker.image("quay.io/team/other:v1", &[noise(2, 7000)], 0);
    let bundle = maker.bundle(folder.path());
    run(&bundle, &options_for(folder.path(), &registry, SETUP)).await.unwrap();
    log_in(folder.path(), &registry);
    let verify = |name: &str| {
        let (name, ca) = (format!("{}/mirror/quay.io/team/{name}:v1", registry.address), registry.ca());
        let options = ["verify", "--key", "cosign.pub", "--insecure-ignore-tlog=true", "--registry-cacert"];
        cosign(&[options.as_slice(), &[ca.to_str().unwrap(), &name]].concat())
    };
    let verified: Value = serde_json::from_slice(&well(verify("app"))).unwrap();
    let of = &verified[0]["critical"]["image"]["docker-manifest-digest"];
    assert_eq!(*of, app.target.digest.to_string());
    assert!(!verify("other").status.success(), "nobody has signed it");
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_pulls_a_chart_with_its_version_from_where_it_was_seeded() {
    let registry = Registry::start(SETUP);
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new(&ONE);
    let chart = maker.chart("web", "1.2.3+4");
    let bundle = maker.bundle(folder.path());
    run(&bundle, &options_for(folder.path(), &registry, SETUP)).await.unwrap();
    let pulled = program("helm", folder.path())
        .arg("pull")
        .arg(format!("oci://{}/mirror/kubexm/charts/web", registry.address))
        .args(["--version", "1.2.3+4", "--username", USER, "--password", PASSWORD, "--ca-file"])
        .arg(registry.ca())
        .output()
        .unwrap();
    well(pulled);
    let archive = std::fs::read(folder.path().join("web-1.2.3+4.tgz")).unwrap();
    assert_eq!(Digest::of(archive), chart);
}
