//! Images from real registries: Debian's docker-registry 2.8, and distribution 3 where the lab has built it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use kubexm_spec::lock::Descriptor;
use kubexm_spec::{Digest, ExitCode, Platform};
use kubexm_transport::{Credentials, ImageCandidate, OciRegistry, Registry, TransportError};

use crate::images::{INDEX, MANIFEST, Maker};
use crate::server::Server;
use crate::support::{bytes, client, files, quiet, store};

const PROGRAM: &str = "/usr/bin/docker-registry";
const USER: &str = "builder";
const PASSWORD: &str = "open sesame";
/// `PASSWORD` by bcrypt, the only kind the registry takes.
const HTPASSWD: &str = "builder:$2b$04$8SvDOsjR11p6PDa.WrKwY.HRPBGLwjtvekovrD84a8IKfLm19u5DG\n";

/// A registry program on a port of its own choice; killed at the end.
struct Running {
    child: Child,
    address: String,
    dir: tempfile::TempDir,
    ca: Option<PathBuf>,
    password: bool,
}

#[derive(Clone, Copy, Default)]
struct Setup {
    tls: bool,
    password: bool,
}

impl Running {
    fn start(program: &str, setup: Setup) -> Self {
        assert!(Path::new(program).exists(), "{program} is needed (Debian package docker-registry)");
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mut config = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\n",
            at("data").display()
        );
        if setup.password {
            std::fs::write(at("htpasswd"), HTPASSWD).unwrap();
            config.push_str(&format!("auth:\n  htpasswd: {{realm: test, path: {}}}\n", at("htpasswd").display()));
        }
        config.push_str("http:\n  addr: 127.0.0.1:0\n  secret: unguarded\n");
        let ca = setup.tls.then(|| {
            let ca = certificates(dir.path());
            config.push_str(&format!(
                "  tls: {{certificate: {}, key: {}}}\n",
                at("leaf.pem").display(),
                at("leaf.key").display()
            ));
            ca
        });
        std::fs::write(at("config.yml"), config).unwrap();
        let mut child = Command::new(program)
            .arg("serve")
            .arg(at("config.yml"))
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let rest = line.split_once("listening on ")?.1;
                Some(rest.split(['"', ',']).next()?.to_owned())
            })
            .expect("the registry ended before it listened");
        // Its log must be read on, or the pipe fills up.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { child, address, dir, ca, password: setup.password }
    }

    fn candidate(&self, repository: &str) -> ImageCandidate {
        ImageCandidate {
            plain_http: self.ca.is_none(),
            ca_file: self.ca.clone(),
            ..ImageCandidate::new(&self.address, repository)
        }
    }

    fn push(&self, maker: &Maker, repository: &str, tag: &str) {
        let mut command = Command::new("skopeo");
        command.args(["copy", "--all", "--preserve-digests", "--insecure-policy", "--quiet"]);
        match &self.ca {
            Some(ca) => command.arg("--dest-cert-dir").arg(ca.parent().unwrap()),
            None => command.arg("--dest-tls-verify=false"),
        };
        if self.password {
            command.arg("--dest-creds").arg(format!("{USER}:{PASSWORD}"));
        }
        let status = command
            .arg(format!("oci:{}", maker.path().display()))
            .arg(format!("docker://{}/{repository}:{tag}", self.address))
            .stdin(Stdio::null())
            .status()
            .expect("skopeo is needed (Debian package skopeo)");
        assert!(status.success(), "skopeo could not push");
    }

    /// The file that the registry serves a blob from.
    fn data(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.dir.path().join("data/docker/registry/v2/blobs/sha256").join(&hex[..2]).join(&hex).join("data")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A CA of our own in `ca/ca.crt`, and a leaf for 127.0.0.1.
fn certificates(dir: &Path) -> PathBuf {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(rcgen::DnType::CommonName, "test CA");
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&leaf_key, &Issuer::new(ca, ca_key)).unwrap();
    std::fs::create_dir_all(dir.join("ca")).unwrap();
    let path = dir.join("ca/ca.crt");
    std::fs::write(&path, ca_pem).unwrap();
    std::fs::write(dir.join("leaf.pem"), leaf.pem()).unwrap();
    std::fs::write(dir.join("leaf.key"), leaf_key.serialize_pem()).unwrap();
    path
}

fn docker_config(dir: &Path, registry: &str, password: &str) -> Credentials {
    let config = serde_json::json!({"auths": {registry: {"username": USER, "password": password}}});
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
    Credentials::docker_config_dir(dir)
}

fn anonymous() -> OciRegistry {
    OciRegistry::new(client(), Credentials::anonymous())
}

/// Resolves and fetches one platform and compares with what was made.
async fn comes_whole(
    registry: &OciRegistry,
    candidate: &ImageCandidate,
    (index, manifest): (&Descriptor, &Descriptor),
    platform: Platform,
) {
    let (_dir, store) = store();
    let image = registry.resolve(std::slice::from_ref(candidate), "v1", None, platform).await.unwrap();
    assert_eq!((&image.target, &image.manifest), (index, manifest));
    assert_eq!(image.answered_by, format!("{}/{}", candidate.registry, candidate.repository));
    image.keep(&store).unwrap();
    let seen = AtomicU64::new(0);
    let reported = |done, total| {
        assert_eq!(total, Some(image.blobs().iter().map(|blob| blob.size).sum()));
        seen.store(done, Ordering::Relaxed);
    };
    registry.fetch_blobs(std::slice::from_ref(candidate), &image.blobs(), &store, &reported).await.unwrap();
    for blob in image.blobs().iter().chain([index, manifest]) {
        assert!(store.holds(&blob.digest, blob.size).unwrap() && store.verify(&blob.digest).unwrap());
    }
    assert_eq!(files(&store, "blobs/sha256").len(), 5, "index, manifest, config and two layers, nothing else");
    assert!(seen.load(Ordering::Relaxed) > 0);
}

async fn both_platforms_come(program: &str, setup: Setup) {
    let running = Running::start(program, setup);
    let maker = Maker::new();
    let (index, amd64, arm64) = maker.two_platforms(2 << 20);
    maker.finish(&[("v1", &index)]);
    running.push(&maker, "team/app", "v1");
    let dir = tempfile::tempdir().unwrap();
    let credentials = match setup.password {
        true => docker_config(dir.path(), &running.address, PASSWORD),
        false => Credentials::anonymous(),
    };
    let registry = OciRegistry::new(client(), credentials);
    let candidate = running.candidate("team/app");
    comes_whole(&registry, &candidate, (&index, &amd64), Platform::LINUX_AMD64).await;
    comes_whole(&registry, &candidate, (&index, &arm64), Platform::LINUX_ARM64).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_comes_from_debians_registry_over_http() {
    both_platforms_come(PROGRAM, Setup::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_comes_over_tls_of_an_own_ca() {
    both_platforms_come(PROGRAM, Setup { tls: true, ..Setup::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_comes_with_a_password_over_tls() {
    both_platforms_come(PROGRAM, Setup { tls: true, password: true }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_comes_from_distribution_3_where_it_is_built() {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let built = cache.map(|cache| cache.join("kubexm-lab/bin/registry")).filter(|path| path.exists());
    // The lab builds it; without the lab, the other tests here have a real registry too.
    if let Some(program) = built {
        both_platforms_come(program.to_str().unwrap(), Setup::default()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_or_missing_password_is_denied_and_never_reported() {
    let running = Running::start(PROGRAM, Setup { password: true, ..Setup::default() });
    let dir = tempfile::tempdir().unwrap();
    let wrong = docker_config(dir.path(), &running.address, "not sesame");
    for credentials in [wrong, Credentials::anonymous()] {
        let registry = OciRegistry::new(client(), credentials);
        let candidates = [running.candidate("app")];
        let error = registry.resolve(&candidates, "v1", None, Platform::LINUX_AMD64).await.unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::OriginDenied, "{error}");
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_an_unknown_ca_is_refused_at_once_with_how_to_mend_it() {
    let running = Running::start(PROGRAM, Setup { tls: true, ..Setup::default() });
    let stranger = ImageCandidate { ca_file: None, ..running.candidate("app") };
    let error = anonymous().resolve(&[stranger], "v1", None, Platform::LINUX_AMD64).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginDown);
    assert!(error.to_string().contains("caFile"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_tag_repository_or_digest_is_missing_and_the_next_candidate_serves() {
    let (empty, full) = (Running::start(PROGRAM, Setup::default()), Running::start(PROGRAM, Setup::default()));
    let maker = Maker::new();
    let (index, ..) = maker.two_platforms(1000);
    maker.finish(&[("v1", &index)]);
    full.push(&maker, "app", "v1");
    let registry = anonymous();
    let amd64 = Platform::LINUX_AMD64;
    for (candidate, reference, want) in [
        (full.candidate("app"), "v2", None),
        (full.candidate("nothing"), "v1", None),
        (full.candidate("app"), "v1", Some(Digest::of("no such manifest"))),
    ] {
        let error = registry.resolve(&[candidate], reference, want, amd64).await.unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::OriginMissing, "{error}");
    }
    let candidates = [empty.candidate("app"), full.candidate("app")];
    let image = registry.resolve(&candidates, "v1", Some(index.digest), amd64).await.unwrap();
    assert_eq!(image.answered_by, format!("{}/app", full.address));
    let (_dir, store) = store();
    registry.fetch_blobs(&candidates, &image.blobs(), &store, &quiet).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_digest_comes_although_the_tag_has_moved() {
    let running = Running::start(PROGRAM, Setup::default());
    let (old, new) = (Maker::new(), Maker::new());
    let (locked, ..) = old.two_platforms(1000);
    old.finish(&[("v1", &locked)]);
    running.push(&old, "app", "v1");
    let moved = new.manifest(MANIFEST, "amd64", &[new.layer(99, 1000)]);
    new.finish(&[("v1", &moved)]);
    running.push(&new, "app", "v1");
    let (registry, candidates) = (anonymous(), [running.candidate("app")]);
    let amd64 = Platform::LINUX_AMD64;
    assert_eq!(registry.resolve(&candidates, "v1", None, amd64).await.unwrap().target.digest, moved.digest);
    let image = registry.resolve(&candidates, "v1", Some(locked.digest), amd64).await.unwrap();
    assert_eq!(image.target.digest, locked.digest);
    let by_digest = registry.resolve(&candidates, &locked.digest.to_string(), None, amd64).await.unwrap();
    assert_eq!(by_digest, image);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_entry_that_lies_about_its_platform_is_refused() {
    let running = Running::start(PROGRAM, Setup::default());
    let maker = Maker::new();
    let arm64 = maker.manifest(MANIFEST, "arm64", &[maker.layer(1, 1000)]);
    let index = maker.index(INDEX, &[(Some("linux/amd64"), arm64)]);
    maker.finish(&[("v1", &index)]);
    running.push(&maker, "liar", "v1");
    let error = anonymous().resolve(&[running.candidate("liar")], "v1", None, Platform::LINUX_AMD64).await.unwrap_err();
    assert!(error.to_string().contains("linux/arm64, as its config says"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_damaged_in_the_registry_is_named_and_does_not_get_into_the_store() {
    let running = Running::start(PROGRAM, Setup::default());
    let maker = Maker::new();
    let layer = maker.layer(1, 300_000);
    let manifest = maker.manifest(MANIFEST, "amd64", std::slice::from_ref(&layer));
    maker.finish(&[("v1", &manifest)]);
    running.push(&maker, "app", "v1");
    std::fs::write(running.data(&layer.digest), bytes(2, 300_000)).unwrap();
    let (registry, candidates) = (anonymous(), [running.candidate("app")]);
    let image = registry.resolve(&candidates, "v1", None, Platform::LINUX_AMD64).await.unwrap();
    let (_dir, store) = store();
    let error = registry.fetch_blobs(&candidates, &image.blobs(), &store, &quiet).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginMismatch, "{error}");
    assert!(error.to_string().contains(&running.address), "{error}");
    assert!(!store.contains(&layer.digest));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_is_resumed_where_a_killed_build_left_it() {
    let running = Running::start(PROGRAM, Setup::default());
    let maker = Maker::new();
    let body = bytes(1, 3 << 20);
    let layer = maker.layer(1, body.len());
    let manifest = maker.manifest(MANIFEST, "amd64", std::slice::from_ref(&layer));
    maker.finish(&[("v1", &manifest)]);
    running.push(&maker, "app", "v1");
    let (_dir, store) = store();
    let mut partial = store.partial(&layer.digest.hex()).unwrap();
    partial.write(&body[..2 << 20], None).unwrap();
    drop(partial);
    let least = AtomicU64::new(u64::MAX);
    let reported = |done, _| {
        least.fetch_min(done, Ordering::Relaxed);
    };
    let blobs = std::slice::from_ref(&layer);
    anonymous().fetch_blobs(&[running.candidate("app")], blobs, &store, &reported).await.unwrap();
    // What is there is reported first.
    assert!(least.load(Ordering::Relaxed) >= 2 << 20, "it began again from the first byte");
    assert!(store.verify(&layer.digest).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_of_two_images_fetched_at_the_same_time_is_fetched_once() {
    let maker = Maker::new();
    let layer = maker.layer(1, 500_000);
    let body = std::fs::read(maker.blob_path(&layer.digest)).unwrap();
    let server = Server::start(move |request| match request.path.contains("/blobs/") {
        true => crate::server::file(request, &body, "\"t\""),
        false => crate::server::Reply::new(200, "{}"),
    })
    .await;
    let candidate = |name| ImageCandidate { plain_http: true, ..ImageCandidate::new(server.address(), name) };
    let (one, two) = ([candidate("one")], [candidate("two")]);
    let (_dir, store) = store();
    let registry = anonymous();
    let twice = [layer.clone(), layer.clone()];
    let (first, second) = tokio::join!(
        registry.fetch_blobs(&one, &twice, &store, &quiet),
        registry.fetch_blobs(&two, &twice, &store, &quiet)
    );
    first.unwrap();
    second.unwrap();
    assert_eq!(server.requests().iter().filter(|request| request.path.contains("/blobs/")).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_of_an_index_is_asked_once_for_all_platforms_though_they_are_resolved_at_the_same_time() {
    let maker = Maker::new();
    let [amd64, arm64] = ["amd64", "arm64"].map(|arch| maker.manifest(MANIFEST, arch, &[maker.layer(1, 1000)]));
    let index = maker.index(INDEX, &[(Some("linux/amd64"), amd64), (Some("linux/arm64"), arm64)]);
    let (root, tag) = (maker.path().join("blobs/sha256"), index.digest.hex());
    let server = Server::start(move |request| {
        let hex = request.path.rsplit_once("sha256:").map_or(tag.as_str(), |(_, hex)| hex);
        crate::server::Reply::new(200, std::fs::read(root.join(hex)).unwrap_or_default())
    })
    .await;
    let candidates = [ImageCandidate { plain_http: true, ..ImageCandidate::new(server.address(), "app") }];
    let registry = anonymous();
    let [one, two] = Platform::ALL.map(|platform| registry.resolve(&candidates, "v1", None, platform));
    let (one, two) = tokio::join!(one, two);
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!((one.target, one.manifest == two.manifest), (two.target, false));
    let tags: Vec<_> =
        server.requests().into_iter().filter(|request| request.path.ends_with("/manifests/v1")).collect();
    assert_eq!(tags.len(), 1, "{tags:?}");
}

#[tokio::test]
async fn names_no_registry_could_have_are_refused_before_anything_is_asked() {
    for (repository, reference) in [("UPPER", "v1"), ("a/../b", "v1"), ("app", "bad tag"), ("app", "sha256:12")] {
        let candidates = [ImageCandidate::new("registry.invalid", repository)];
        let error = anonymous().resolve(&candidates, reference, None, Platform::LINUX_AMD64).await.unwrap_err();
        let TransportError::AllFailed { tried, .. } = error else { panic!("{error}") };
        assert!(matches!(tried[..], [TransportError::Setting { .. }]), "{tried:?}");
    }
}
