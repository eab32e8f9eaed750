//! Files of this machine that say how registries are spoken to: helpers, registries.conf.

use std::os::unix::fs::PermissionsExt;

use kubexm_spec::{ExitCode, Platform};
use kubexm_transport::{
    Credentials, ImageCandidate, OciRegistry, RawManifest, RegistriesConf, Registry, TransportError,
};

use crate::images::{MANIFEST, Maker};
use crate::server::{Reply, Request, Server};
use crate::support::{client, quiet, store};

/// An image behind `builder:sesame`.
fn guarded(maker: &Maker) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let manifest = maker.manifest(MANIFEST, "amd64", &[maker.layer(1, 1000)]);
    let bytes = std::fs::read(maker.blob_path(&manifest.digest)).unwrap();
    let root = maker.path().join("blobs/sha256");
    move |request| {
        if request.header("authorization") != Some("Basic YnVpbGRlcjpzZXNhbWU=") {
            return Reply::new(401, "{}").header("www-authenticate", "Basic realm=\"test\"");
        }
        match request.path.rsplit_once("/blobs/sha256:") {
            Some((_, hex)) => Reply::new(200, std::fs::read(root.join(hex)).unwrap_or_default()),
            None => Reply::new(200, bytes.clone()).header("content-type", MANIFEST),
        }
    }
}

fn candidate(registry: &str) -> [ImageCandidate; 1] {
    [ImageCandidate { plain_http: true, ..ImageCandidate::new(registry, "team/app") }]
}

/// A folder with a helper of `builder:sesame`, which writes down what it was asked in `asked`, and with a config.json that names it for
/// a registry.
fn with_helper(registry: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let helper = dir.path().join("docker-credential-kubexm-test");
    let script = format!(
        "#!/bin/sh\nread -r server\necho \"$1 $server\" >> {}\necho '{{\"Username\": \"builder\", \"Secret\": \"sesame\"}}'\n",
        dir.path().join("asked").display()
    );
    std::fs::write(&helper, script).unwrap();
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = serde_json::json!({"credHelpers": {registry: "kubexm-test"}});
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    dir
}

/// Runs a test of this file in a process of its own, so that `PATH` is its own; returns what the helper was asked.
async fn child(test: &str, dir: &tempfile::TempDir, registry: &str) -> String {
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let output = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("registry_files::{test}"), "--nocapture"])
        .env("PATH", path)
        .env("KUBEXM_TRANSPORT_TEST_REGISTRY", format!("{} {registry}", dir.path().display()))
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(dir.path().join("asked")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_helper_opens_its_registry_and_is_asked_once() {
    let maker = Maker::new();
    let server = Server::start(guarded(&maker)).await;
    let dir = with_helper(server.address());
    let asked = child("a_child_that_asks_a_registry", &dir, server.address()).await;
    assert_eq!(asked, format!("get {}\n", server.address()));
}

#[tokio::test]
async fn a_credential_helper_gives_the_password_of_its_user_alone() {
    let dir = with_helper("r.test:5000");
    let asked = child("a_child_that_asks_for_a_password", &dir, "r.test:5000").await;
    assert_eq!(asked, "get r.test:5000\n".repeat(2));
}

/// Run by the test above; without its variable there is nothing to do.
#[test]
fn a_child_that_asks_for_a_password() {
    let Ok(arguments) = std::env::var("KUBEXM_TRANSPORT_TEST_REGISTRY") else { return };
    let (dir, registry) = arguments.split_once(' ').unwrap();
    let credentials = Credentials::file(format!("{dir}/config.json"));
    assert_eq!(credentials.password(registry, "builder").unwrap().as_str(), "sesame");
    let error = credentials.password(registry, "robot").unwrap_err().to_string();
    assert!(error.contains("another user than robot") && !error.contains("sesame"), "{error}");
}

/// Run by a test above; without its variable there is nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_asks_a_registry() {
    let Ok(arguments) = std::env::var("KUBEXM_TRANSPORT_TEST_REGISTRY") else { return };
    let (dir, registry) = arguments.split_once(' ').unwrap();
    let client = OciRegistry::new(client(), Credentials::docker_config_dir(dir));
    let candidates = candidate(registry);
    let image = client.resolve(&candidates, "v1", None, Platform::LINUX_AMD64).await.unwrap();
    let (_dir, store) = store();
    client.fetch_blobs(&candidates, &image.blobs(), &store, &quiet).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_of_registries_conf_is_asked_first_with_its_own_credentials_and_upstream_when_it_has_nothing() {
    let maker = Maker::new();
    let (full, empty) = (Server::start(guarded(&maker)).await, Server::start(|_| Reply::new(404, "{}")).await);
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("registries.conf");
    let mirror =
        |server: &Server| format!("[[registry.mirror]]\nlocation = \"{}\"\ninsecure = true\n", server.address());
    let text = format!("[[registry]]\nprefix = \"upstream.invalid\"\n{}{}", mirror(&empty), mirror(&full));
    std::fs::write(&conf, text).unwrap();
    let auths = serde_json::json!({"auths": {full.address(): {"username": "builder", "password": "sesame"}}});
    std::fs::write(dir.path().join("auth.json"), auths.to_string()).unwrap();
    let client = OciRegistry::new(client(), Credentials::file(dir.path().join("auth.json")))
        .with_registries(RegistriesConf::read(&[conf], true).unwrap());
    let candidates = [ImageCandidate::new("upstream.invalid", "team/app")];
    let image = client.resolve(&candidates, "v1", None, Platform::LINUX_AMD64).await.unwrap();
    assert_eq!(image.answered_by, format!("{}/team/app", full.address()));
    let (_dir, store) = store();
    client.fetch_blobs(&candidates, &image.blobs(), &store, &quiet).await.unwrap();
    assert!(empty.requests().iter().any(|request| request.path == "/v2/team/app/manifests/v1"));
    assert!(!empty.requests().iter().any(|request| request.header("authorization").is_some()));
}

#[tokio::test]
async fn what_registries_conf_blocks_is_not_asked() {
    let server = Server::start(|_| Reply::new(500, "")).await;
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("registries.conf");
    std::fs::write(&conf, format!("[[registry]]\nlocation = \"{}\"\nblocked = true\n", server.address())).unwrap();
    let registries = RegistriesConf::read(&[conf], true).unwrap();
    let client = OciRegistry::new(client(), Credentials::anonymous()).with_registries(registries);
    let error = client.resolve(&candidate(server.address()), "v1", None, Platform::LINUX_AMD64).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginDenied, "{error}");
    assert!(error.to_string().contains("registries.conf"), "{error}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn the_manifest_of_a_chart_is_asked_of_mirrors_first_and_never_of_what_is_blocked() {
    let manifest = |_: &Request| Reply::new(200, "{\"layers\": []}").header("content-type", MANIFEST);
    let (blocked, mirror) = (Server::start(manifest).await, Server::start(manifest).await);
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("registries.conf");
    let text = format!(
        "[[registry]]\nlocation = \"{}\"\nblocked = true\n[[registry]]\nprefix = \"upstream.invalid\"\n[[registry.mirror]]\n\
         location = \"{}\"\ninsecure = true\n",
        blocked.address(),
        mirror.address()
    );
    std::fs::write(&conf, text).unwrap();
    let registries = RegistriesConf::read(&[conf], true).unwrap();
    let client = OciRegistry::new(client(), Credentials::anonymous()).with_registries(registries);
    let place = |place: &str, _: RawManifest| Ok(place.to_owned());
    let tried = client.tagged(&candidate(blocked.address()), "1.0.0", place).await.unwrap_err();
    assert_eq!(tried.len(), 1);
    assert!(tried[0].to_string().contains("registries.conf"), "{}", tried[0]);
    let error = client.digest_of(&candidate(blocked.address())[0], "1.0.0").await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginDenied, "{error}");
    assert!(blocked.requests().is_empty());
    let upstream = ImageCandidate::new("upstream.invalid", "charts/app");
    let answered = client.tagged(&[upstream], "1.0.0", place).await.unwrap();
    assert_eq!(answered, format!("{}/charts/app", mirror.address()));
}

#[tokio::test]
async fn a_tag_whose_manifest_is_not_what_is_wanted_is_asked_of_the_next_place() {
    let server = Server::start(|request| match request.path.contains("/none/") {
        true => Reply::new(404, "{}"),
        false => Reply::new(200, "{}").header("content-type", MANIFEST),
    })
    .await;
    let at = |name: &str| ImageCandidate { plain_http: true, ..ImageCandidate::new(server.address(), name) };
    let client = OciRegistry::new(client(), Credentials::anonymous());
    let refuse = |place: &str, _: RawManifest| -> Result<(), TransportError> {
        Err(TransportError::NotTheFile { origin: place.to_owned(), found: "something else".to_owned() })
    };
    let tried = client.tagged(&[at("none/a"), at("some/b")], "v1", refuse).await.unwrap_err();
    let [missing, other] = tried.as_slice() else { panic!("{tried:?}") };
    assert!(
        matches!(missing, TransportError::Missing { .. }) && missing.to_string().contains("no such tag"),
        "{missing}"
    );
    assert!(other.to_string().contains("some/b sent something else"), "{other}");
}
