//! Registries that hand out tokens: they run out, they are limited, logins fail.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use kubexm_spec::{ExitCode, Platform};
use kubexm_transport::{Credentials, ImageCandidate, OciRegistry, Registry};

use crate::images::{MANIFEST, Maker};
use crate::server::{How, Reply, Request, Server, file};
use crate::support::{client, quiet, store};

/// Uses of a token before the registry calls it expired.
const USES: usize = 2;

/// A registry of one image behind a token service, from the blobs of a layout.
fn registry(maker: &Maker, manifest: Vec<u8>) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let root = maker.path().join("blobs/sha256");
    let (issued, used) = (AtomicUsize::new(0), AtomicUsize::new(0));
    move |request| {
        let host = request.header("host").unwrap_or_default();
        let challenge = format!("Bearer realm=\"http://{host}/token\",service=\"test\"");
        let denied = || Reply::new(401, "{\"errors\":[]}").header("www-authenticate", challenge.clone());
        if request.path.starts_with("/token") {
            let basic = base64::engine::general_purpose::STANDARD.encode("builder:sesame");
            if request.header("authorization") != Some(&format!("Basic {basic}")) {
                return Reply::new(401, "wrong password");
            }
            used.store(0, Ordering::SeqCst);
            let number = issued.fetch_add(1, Ordering::SeqCst) + 1;
            return Reply::new(200, format!("{{\"token\": \"t{number}\"}}"));
        }
        let token = format!("Bearer t{}", issued.load(Ordering::SeqCst));
        if request.header("authorization") != Some(&token) || used.fetch_add(1, Ordering::SeqCst) >= USES {
            return denied();
        }
        if request.path.contains("/manifests/") {
            return Reply::new(200, manifest.clone()).header("content-type", MANIFEST);
        }
        let hex = request.path.rsplit(':').next().unwrap_or_default();
        match std::fs::read(root.join(hex)) {
            // Cut once in the middle, so that the token runs out between the two halves.
            Ok(blob) if blob.len() > 1 << 20 && request.offset().is_none() => {
                file(request, &blob, "\"t\"").how(How::Cut(blob.len() / 2))
            }
            Ok(blob) => file(request, &blob, "\"t\""),
            Err(_) => Reply::new(404, ""),
        }
    }
}

fn image(maker: &Maker) -> Vec<u8> {
    let layers = [maker.layer(1, 3 << 20), maker.layer(2, 3 << 20)];
    let manifest = maker.manifest(MANIFEST, "amd64", &layers);
    std::fs::read(maker.blob_path(&manifest.digest)).unwrap()
}

fn credentials(dir: &std::path::Path, registry: &str, entry: serde_json::Value) -> Credentials {
    let config = serde_json::json!({"auths": {registry: entry}});
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
    Credentials::docker_config_dir(dir)
}

fn candidate(server: &Server) -> [ImageCandidate; 1] {
    [ImageCandidate { plain_http: true, ..ImageCandidate::new(server.address(), "team/app") }]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_runs_out_in_the_middle_is_asked_for_again() {
    let maker = Maker::new();
    let manifest = image(&maker);
    let server = Server::start(registry(&maker, manifest)).await;
    let dir = tempfile::tempdir().unwrap();
    let auth = base64::engine::general_purpose::STANDARD.encode("builder:sesame");
    let credentials = credentials(dir.path(), server.address(), serde_json::json!({"auth": auth}));
    let http = kubexm_transport::HttpClient::new(kubexm_transport::HttpOptions {
        // One after the other: the token of this registry counts its uses.
        parallel: 1,
        ..crate::support::options()
    });
    crate::support::provider();
    let registry = OciRegistry::new(http.unwrap(), credentials);
    let image = registry.resolve(&candidate(&server), "v1", None, Platform::LINUX_AMD64).await.unwrap();
    let (_dir, store) = store();
    registry.fetch_blobs(&candidate(&server), &image.blobs(), &store, &quiet).await.unwrap();
    for blob in image.blobs() {
        assert!(store.verify(&blob.digest).unwrap());
    }
    assert!(server.requests().iter().filter(|request| request.path.starts_with("/token")).count() > 1);
}

#[tokio::test]
async fn a_failed_login_is_denied_and_not_treated_as_anonymous() {
    let maker = Maker::new();
    let manifest = image(&maker);
    let server = Server::start(registry(&maker, manifest)).await;
    let dir = tempfile::tempdir().unwrap();
    let entry = serde_json::json!({"username": "builder", "password": "open barley"});
    let registry = OciRegistry::new(client(), credentials(dir.path(), server.address(), entry));
    let error = registry.resolve(&candidate(&server), "v1", None, Platform::LINUX_AMD64).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginDenied, "{error}");
    assert!(error.to_string().contains("the login failed"), "{error}");
    assert!(!format!("{error:?}").contains("barley"));
    assert!(!server.requests().iter().any(|request| request.path.contains("/manifests/")));
}

/// Distribution, "OAuth2 token authentication": the identity token is sent in a body, never in an address.
#[tokio::test]
async fn an_identity_token_is_changed_into_one_that_opens_the_repository() {
    let maker = Maker::new();
    let manifest = maker.manifest(MANIFEST, "amd64", &[maker.layer(1, 100)]);
    let (bytes, root) = (std::fs::read(maker.blob_path(&manifest.digest)).unwrap(), maker.path().join("blobs/sha256"));
    let server = Server::start(move |request| {
        let host = request.header("host").unwrap_or_default();
        if request.path == "/token" {
            let fits = request.body.contains("grant_type=refresh_token")
                && request.body.contains("refresh_token=secret-token")
                && request.body.contains("scope=repository%3Ateam%2Fapp%3Apull");
            return if fits { Reply::new(200, "{\"access_token\": \"open\"}") } else { Reply::new(400, "") };
        }
        if request.header("authorization") != Some("Bearer open") {
            let challenge = format!("Bearer realm=\"http://{host}/token\",service=\"test\"");
            return Reply::new(401, "{}").header("www-authenticate", challenge);
        }
        match request.path.rsplit_once("sha256:").filter(|_| request.path.contains("/blobs/")) {
            Some((_, hex)) => Reply::new(200, std::fs::read(root.join(hex)).unwrap_or_default()),
            None => Reply::new(200, bytes.clone()).header("content-type", MANIFEST),
        }
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let entry = serde_json::json!({"identitytoken": "secret-token"});
    let registry = OciRegistry::new(client(), credentials(dir.path(), server.address(), entry));
    let image = registry.resolve(&candidate(&server), "v1", None, Platform::LINUX_AMD64).await.unwrap();
    assert_eq!(image.manifest.digest, manifest.digest);
    assert!(!server.requests().iter().any(|request| request.path.contains("secret-token")));
}

/// A redirect of the token service (307, 308) asks for the same body again.
#[tokio::test]
async fn an_identity_token_is_sent_to_no_other_host_that_a_redirect_names() {
    let elsewhere = Server::start(|_| Reply::new(200, "{\"access_token\": \"open\"}")).await;
    let other = format!("http://{}/token", elsewhere.address());
    let server = Server::start(move |request| {
        let host = request.header("host").unwrap_or_default();
        if request.path == "/token" {
            return Reply::new(307, "").header("location", &other);
        }
        let challenge = format!("Bearer realm=\"http://{host}/token\",service=\"test\"");
        Reply::new(401, "{}").header("www-authenticate", &challenge)
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let entry = serde_json::json!({"identitytoken": "secret-token"});
    let registry = OciRegistry::new(client(), credentials(dir.path(), server.address(), entry));
    let error = registry.resolve(&candidate(&server), "v1", None, Platform::LINUX_AMD64).await.unwrap_err();
    let asked = elsewhere.requests();
    assert!(
        asked.is_empty(),
        "{} requests with {:?}",
        asked.len(),
        asked.iter().map(|one| &one.body).collect::<Vec<_>>()
    );
    let text = format!("{error} {error:?}");
    assert!(text.contains("no other host") && !text.contains("secret-token"), "{text}");
}

#[tokio::test]
async fn an_identity_token_where_names_are_wanted_is_denied_and_never_reported() {
    let server = Server::start(|_| Reply::new(401, "").header("www-authenticate", "Basic realm=\"r\"")).await;
    let dir = tempfile::tempdir().unwrap();
    let entry = serde_json::json!({"identitytoken": "secret-token"});
    let registry = OciRegistry::new(client(), credentials(dir.path(), server.address(), entry));
    let error = registry.resolve(&candidate(&server), "v1", None, Platform::LINUX_AMD64).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginDenied, "{error}");
    assert!(error.to_string().contains("identity token"), "{error}");
    assert!(!format!("{error} {error:?}").contains("secret-token"));
}

/// What a registry says in `Retry-After` about a manifest is waited for, but not longer than our own limit.
#[tokio::test]
async fn a_retry_after_of_a_registry_is_kept_up_to_a_limit() {
    let maker = Maker::new();
    let manifest = maker.manifest(MANIFEST, "amd64", &[maker.layer(1, 100)]);
    let (bytes, root) = (std::fs::read(maker.blob_path(&manifest.digest)).unwrap(), maker.path().join("blobs/sha256"));
    let manifests = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        if !request.path.contains("/manifests/") {
            let hex = request.path.rsplit(':').next().unwrap_or_default();
            return Reply::new(200, std::fs::read(root.join(hex)).unwrap_or_default());
        }
        match manifests.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::new(429, "{}").header("retry-after", "3600"),
            _ => Reply::new(200, bytes.clone()).header("content-type", MANIFEST),
        }
    })
    .await;
    let registry = OciRegistry::new(client(), Credentials::anonymous());
    let begun = std::time::Instant::now();
    registry.resolve(&candidate(&server), "v1", None, Platform::LINUX_AMD64).await.unwrap();
    let took = begun.elapsed();
    assert!(took >= crate::support::options().backoff_max && took.as_secs() < 60, "{took:?}");
}

#[tokio::test]
async fn too_many_requests_and_server_errors_are_tried_again() {
    let maker = Maker::new();
    let manifest = maker.manifest(MANIFEST, "amd64", &[maker.layer(1, 100)]);
    let root = maker.path().join("blobs/sha256");
    let bytes = std::fs::read(maker.blob_path(&manifest.digest)).unwrap();
    let manifests = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        if !request.path.contains("/manifests/") {
            let hex = request.path.rsplit(':').next().unwrap_or_default();
            return Reply::new(200, std::fs::read(root.join(hex)).unwrap_or_default());
        }
        match manifests.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::new(429, "{\"errors\":[{\"code\":\"TOOMANYREQUESTS\",\"message\":\"slow down\"}]}"),
            1 => Reply::new(502, "<html>bad gateway</html>"),
            _ => Reply::new(200, bytes.clone()).header("content-type", MANIFEST),
        }
    })
    .await;
    let registry = OciRegistry::new(client(), Credentials::anonymous());
    let image = registry.resolve(&candidate(&server), "v1", None, Platform::LINUX_AMD64).await.unwrap();
    assert_eq!(image.manifest.digest, manifest.digest);
}

#[tokio::test]
async fn a_registry_that_answers_with_another_manifest_is_a_mismatch() {
    let maker = Maker::new();
    let other = maker.manifest(MANIFEST, "amd64", &[maker.layer(1, 100)]);
    let bytes = std::fs::read(maker.blob_path(&other.digest)).unwrap();
    let server = Server::start(move |request| match request.path.contains("/manifests/") {
        true => Reply::new(200, bytes.clone()).header("content-type", MANIFEST),
        false => Reply::new(200, "{}"),
    })
    .await;
    let want = kubexm_spec::Digest::of("the one in the lock");
    let registry = OciRegistry::new(client(), Credentials::anonymous());
    let error = registry.resolve(&candidate(&server), "v1", Some(want), Platform::LINUX_AMD64).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginMismatch, "{error}");
    for part in [want.to_string(), other.digest.to_string()] {
        assert!(error.to_string().contains(&part), "{error}");
    }
}
