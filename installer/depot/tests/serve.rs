//! The depot as a client sees it: over TLS, by a real HTTP client that trusts only the cluster's registry CA.

use std::collections::BTreeMap;
use std::path::Path;

use kubexm_spec::{Digest, depot};

struct Fixture {
    client: reqwest::Client,
    base: String,
    index: Digest,
    layer: Digest,
    _folder: tempfile::TempDir,
}

fn put(store: &Path, bytes: &[u8]) -> Digest {
    let digest = Digest::of(bytes);
    std::fs::create_dir_all(store.join("blobs/sha256")).unwrap();
    std::fs::write(store.join("blobs/sha256").join(digest.hex()), bytes).unwrap();
    digest
}

async fn start() -> Fixture {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let layer = put(&store, b"layer bytes");
    // A sparse index: it names a platform that the store does not have.
    let index = put(
        &store,
        br#"{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":1,"digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}]}"#,
    );
    put(&store, b"a blob that no repository names");
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let config = depot::DepotConfig {
        schema: depot::SCHEMA.to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        store: store.display().to_string(),
        tls: depot::Tls {
            cert: file("crt", certified.cert.pem()),
            key: file("key", certified.signing_key.serialize_pem()),
        },
        images: BTreeMap::from([(
            "registry.k8s.io/pause".to_owned(),
            depot::Repository {
                tags: BTreeMap::from([("3.10.1".to_owned(), index)]),
                manifests: [index].into(),
                blobs: [layer].into(),
            },
        )]),
        files: BTreeMap::from([("kubeadm".to_owned(), layer)]),
    };
    let path = folder.path().join("config.json");
    std::fs::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
    let running = kubexm_depot::serve(&path).await.unwrap();
    let base = format!("https://localhost:{}", running.address.port());
    tokio::spawn(running.run());
    let ca = reqwest::Certificate::from_pem(certified.cert.pem().as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([ca]).no_proxy().build().unwrap();
    Fixture { client, base, index, layer, _folder: folder }
}

#[tokio::test]
async fn a_sparse_index_is_served_byte_for_byte_by_tag_and_by_digest() {
    let depot = start().await;
    for reference in ["3.10.1".to_owned(), depot.index.to_string()] {
        let answer = depot
            .client
            .get(format!("{}/v2/registry.k8s.io/pause/manifests/{reference}?ns=registry.k8s.io", depot.base))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/vnd.oci.image.index.v1+json");
        assert_eq!(answer.headers()["docker-content-digest"], depot.index.to_string().as_str());
        assert_eq!(Digest::of(answer.bytes().await.unwrap()), depot.index);
    }
}

#[tokio::test]
async fn a_range_of_a_blob_can_be_fetched_so_downloads_resume() {
    let depot = start().await;
    for path in [
        format!("/v2/registry.k8s.io/pause/blobs/{}", depot.layer),
        format!("/blobs/sha256/{}", depot.layer.hex()),
        "/files/kubeadm".to_owned(),
    ] {
        let answer =
            depot.client.get(format!("{}{path}", depot.base)).header("range", "bytes=6-").send().await.unwrap();
        assert_eq!(answer.status(), 206, "{path}");
        assert_eq!(answer.headers()["content-range"], "bytes 6-10/11");
        assert_eq!(answer.bytes().await.unwrap().as_ref(), b"bytes");
    }
}

#[tokio::test]
async fn what_is_not_named_is_not_served_and_nothing_can_be_written() {
    let depot = start().await;
    let stray = Digest::of(b"a blob that no repository names");
    for path in [
        format!("/v2/registry.k8s.io/pause/blobs/{stray}"),
        format!("/v2/docker.io/pause/manifests/{}", depot.index),
        format!("/blobs/sha256/{}", stray.hex()),
        "/blobs/sha256/..%2f..%2f..%2fkey".to_owned(),
        "/files/..%2fkey".to_owned(),
        "/v2/registry.k8s.io/pause/manifests/latest".to_owned(),
    ] {
        assert_eq!(depot.client.get(format!("{}{path}", depot.base)).send().await.unwrap().status(), 404, "{path}");
    }
    let push =
        depot.client.post(format!("{}/v2/registry.k8s.io/pause/blobs/uploads/", depot.base)).send().await.unwrap();
    assert_eq!(push.status(), 405);
}

#[tokio::test]
async fn a_key_that_does_not_fit_is_an_error_that_names_the_files() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("crt"), "nothing").unwrap();
    std::fs::write(path("key"), "nothing").unwrap();
    let config = depot::DepotConfig {
        schema: depot::SCHEMA.to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        store: path("store"),
        tls: depot::Tls { cert: path("crt"), key: path("key") },
        images: BTreeMap::new(),
        files: BTreeMap::new(),
    };
    std::fs::write(path("config.json"), serde_json::to_vec(&config).unwrap()).unwrap();
    let Err(error) = kubexm_depot::serve(Path::new(&path("config.json"))).await else { panic!("it must not start") };
    assert!(error.to_string().contains(&path("key")), "{error}");
}
