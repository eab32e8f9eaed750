//! The file-system layout as the real registry reads it: distribution v3 of the lab, over TLS, read-only.

#![allow(clippy::expect_used, clippy::panic, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use crate::common::Host;
use kubexm_ops::real::RealSystem;
use kubexm_ops::{Machine, dispatch, probe};
use kubexm_plan::Probe;
use kubexm_plan::op::{Op, RegistryLayout};
use kubexm_spec::Digest;
use kubexm_spec::depot::Repository;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

const DATA: &str = "/mnt/registry";

fn program() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    let lab = std::env::var_os("KUBEXM_LAB").map_or_else(|| cache.join("kubexm-lab"), PathBuf::from);
    let program = lab.join("bin/registry");
    assert!(program.is_file(), "{} is needed: run `scripts/lab build`", program.display());
    program
}

/// An index that names a platform of which nothing was carried.
fn sparse_image(host: &Host) -> Repository {
    let put = |bytes: &str| {
        let digest = Digest::of(bytes);
        host.put(&format!("/var/lib/kubexm/store/blobs/sha256/{}", digest.hex()), bytes);
        digest
    };
    let (config, layer) = (put("{}"), put("a layer"));
    let manifest = put(&format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\
         \"config\":{{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"digest\":\"{config}\",\"size\":2}},\
         \"layers\":[{{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"{layer}\",\"size\":7}}]}}"
    ));
    let child = |digest: Digest, arch: &str| {
        format!(
            "{{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"{digest}\",\"size\":9,\
             \"platform\":{{\"os\":\"linux\",\"architecture\":\"{arch}\"}}}}"
        )
    };
    let index = put(&format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.index.v1+json\",\"manifests\":[{},{}]}}",
        child(manifest, "amd64"),
        child(Digest::of("never carried"), "arm64")
    ));
    Repository {
        tags: [("3.10.1".to_owned(), index)].into(),
        manifests: [index, manifest].into(),
        blobs: [config, layer].into(),
    }
}

struct Server {
    child: Child,
    url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(host: &Host) -> Server {
    serve_with(host, "")
}

/// With further settings of the registry.
fn serve_with(host: &Host, settings: &str) -> Server {
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA");
    let key = KeyPair::generate().expect("a key");
    let cert = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
    let cert = cert.signed_by(&key, &ca).expect("a certificate");
    host.put("/etc/ca.crt", ca.pem());
    host.put("/etc/tls.crt", cert.pem());
    host.put("/etc/tls.key", key.serialize_pem());
    let at = |path: &str| host.machine.path(path).display().to_string();
    host.put(
        "/etc/registry.yml",
        format!(
            "version: 0.1\nstorage:\n  filesystem: {{rootdirectory: {}}}\n  maintenance: {{readonly: {{enabled: true}}}}\n\
             http:\n  addr: 127.0.0.1:0\n  tls: {{certificate: {}, key: {}}}\n{settings}",
            at(DATA),
            at("/etc/tls.crt"),
            at("/etc/tls.key")
        ),
    );
    let mut child = Command::new(program())
        .args(["serve", &at("/etc/registry.yml")])
        .env("OTEL_TRACES_EXPORTER", "none")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a registry");
    let (said, addresses) = std::sync::mpsc::channel();
    let log = BufReader::new(child.stderr.take().expect("its log"));
    // Read to its end: a program whose log nobody takes any more dies of SIGPIPE in the middle of an answer.
    std::thread::spawn(move || {
        for line in log.lines().map_while(Result::ok) {
            if let Some(at) = line.find("listening on 127.0.0.1:") {
                let address = line[at + "listening on ".len()..].split([' ', ',', '"']).next().unwrap_or_default();
                let _ = said.send(address.to_owned());
            }
        }
    });
    let address = addresses.recv_timeout(std::time::Duration::from_secs(60)).ok();
    Server { child, url: format!("https://{}", address.expect("it listens")) }
}

fn laid_out() -> (Host, RegistryLayout) {
    let host = Host::fresh();
    let repositories = [("registry.k8s.io/pause".to_owned(), sparse_image(&host))].into();
    let layout = RegistryLayout { data_dir: DATA.to_owned(), repositories };
    dispatch::converge(&Op::from(layout.clone()), &host.machine).unwrap_or_else(|e| panic!("{}", e.full()));
    (host, layout)
}

/// The audit, asked by the real client of a machine rooted in the test's folder.
fn audit(host: &Host, server: &Server, layout: &RegistryLayout) -> kubexm_plan::ProbeAnswer {
    audit_as(host, server, layout, None)
}

/// As a client whose login is in this file of the machine.
fn audit_as(host: &Host, server: &Server, layout: &RegistryLayout, login: Option<&str>) -> kubexm_plan::ProbeAnswer {
    let machine = Machine::with_system(host.machine.root(), Arc::new(RealSystem));
    let asked = Probe::RegistryServes {
        url: server.url.clone(),
        ca: "/etc/ca.crt".to_owned(),
        login: login.map(str::to_owned),
        repositories: layout.repositories.clone(),
    };
    probe::look(&asked, &machine).expect("an answer")
}

#[test]
fn the_real_registry_serves_a_sparse_index_and_every_blob_from_the_layout() {
    let (host, layout) = laid_out();
    let answer = audit(&host, &serve(&host), &layout);
    assert!(answer.holds, "{}", answer.seen);
    assert!(answer.seen.contains("all 5 references"), "{}", answer.seen);
}

#[test]
fn the_audit_names_what_the_real_registry_does_not_serve() {
    let (host, layout) = laid_out();
    let server = serve(&host);
    let layer = Digest::of("a layer");
    let data = format!("{DATA}/docker/registry/v2/blobs/sha256/{}/{}/data", &layer.hex()[..2], layer.hex());
    std::fs::remove_file(host.machine.path(data)).expect("gone");
    let answer = audit(&host, &server, &layout);
    assert!(!answer.holds, "{}", answer.seen);
    assert!(answer.seen.contains("1 of 5 references and blobs"), "{}", answer.seen);
    assert!(answer.seen.contains(&format!("blobs/{layer} answers 404")), "{}", answer.seen);
}

/// `user:hunter2`, hashed by libxcrypt (crypt(5), `$2b$`).
const HTPASSWD: &str = "user:$2b$08$abcdefghijklmnopqrstuubrRm36/PDk26QhAv8UvDI2bBcBcJSqe";

#[test]
fn the_real_registry_demands_the_login_of_its_htpasswd_and_the_audit_shows_it() {
    let (host, layout) = laid_out();
    host.put("/etc/htpasswd", HTPASSWD);
    host.put("/etc/login", "Basic dXNlcjpodW50ZXIy");
    host.put("/etc/wrong", "Basic dXNlcjpodW50ZXIz");
    let path = host.machine.path("/etc/htpasswd");
    let server = serve_with(&host, &format!("auth:\n  htpasswd: {{realm: KubeXM, path: {}}}\n", path.display()));
    let right = audit_as(&host, &server, &layout, Some("/etc/login"));
    assert!(right.holds, "{}", right.seen);
    for (login, seen) in [
        (None, "answers 401"),
        (Some("/etc/wrong"), "answers 401"),
        (Some("/etc/absent"), "the login file /etc/absent is not there"),
    ] {
        let answer = audit_as(&host, &server, &layout, login);
        assert!(!answer.holds && answer.seen.contains(seen), "{}", answer.seen);
    }
    // One that asks nobody is not what was ordered.
    let open = audit_as(&host, &serve(&host), &layout, Some("/etc/login"));
    assert!(!open.holds && open.seen.contains("without the login"), "{}", open.seen);
}

#[test]
fn blobs_are_not_there_twice() {
    let (host, _) = laid_out();
    let blob = host.machine.blob(&Digest::of("a layer"));
    assert_eq!(blob.metadata().expect("the blob").nlink(), 2);
}

#[test]
fn a_blob_that_does_not_match_its_name_is_not_laid_out_and_is_sent_again() {
    let host = Host::fresh();
    let layer = Digest::of("a layer");
    host.put(&format!("/var/lib/kubexm/store/blobs/sha256/{}", layer.hex()), "another");
    let repository = Repository { blobs: [layer].into(), ..Repository::default() };
    let op: Op = RegistryLayout { data_dir: DATA.into(), repositories: [("a".to_owned(), repository)].into() }.into();
    let error = dispatch::converge(&op, &host.machine).expect_err("an error").full();
    assert!(error.contains("run again"), "{error}");
    assert!(!host.machine.blob(&layer).exists());
}
