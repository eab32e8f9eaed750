//! A depot that runs, and a client that trusts it.

use std::collections::BTreeMap;
use std::path::Path;

use kubexm_spec::{Digest, Family, depot};

pub struct Fixture {
    pub client: reqwest::Client,
    pub base: String,
    pub address: std::net::SocketAddr,
    pub index: Digest,
    pub layer: Digest,
    pub folder: tempfile::TempDir,
    pub reload: tokio::sync::mpsc::Sender<()>,
}

pub fn put(store: &Path, bytes: &[u8]) -> Digest {
    let digest = Digest::of(bytes);
    std::fs::create_dir_all(store.join("blobs/sha256")).unwrap();
    std::fs::write(store.join("blobs/sha256").join(digest.hex()), bytes).unwrap();
    digest
}

pub async fn start() -> Fixture {
    start_with(|running| running).await
}

pub async fn start_with(change: impl FnOnce(kubexm_depot::Running) -> kubexm_depot::Running) -> Fixture {
    start_of(|_, _| (), change).await
}

/// With a config that is changed first; its folder is the second argument.
pub async fn start_of(
    configure: impl FnOnce(&mut depot::DepotConfig, &Path),
    change: impl FnOnce(kubexm_depot::Running) -> kubexm_depot::Running,
) -> Fixture {
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
    let mut config = depot::DepotConfig {
        schema: depot::SCHEMA.to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        store: store.display().to_string(),
        tls: depot::Tls {
            cert: file("crt", certified.cert.pem()),
            key: file("key", certified.signing_key.serialize_pem()),
        },
        login: None,
        images: BTreeMap::from([(
            "registry.k8s.io/pause".to_owned(),
            depot::Repository {
                tags: BTreeMap::from([("3.10.1".to_owned(), index)]),
                manifests: [index].into(),
                blobs: [layer].into(),
            },
        )]),
        files: BTreeMap::from([("kubeadm".to_owned(), layer)]),
        packages: Some(packages(folder.path(), &store)),
    };
    configure(&mut config, folder.path());
    let path = folder.path().join("config.json");
    std::fs::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
    let running = kubexm_depot::serve(&path, None).await.unwrap();
    let base = format!("https://localhost:{}", running.address.port());
    let address = running.address;
    let (reload, reloads) = tokio::sync::mpsc::channel(1);
    tokio::spawn(change(running).run_with_reloads(reloads));
    let ca = reqwest::Certificate::from_pem(certified.cert.pem().as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([ca]).no_proxy().build().unwrap();
    Fixture { client, base, address, index, layer, folder, reload }
}

/// Two repositories of packages: one for apt, one for dnf.
fn packages(folder: &Path, store: &Path) -> depot::Packages {
    let metadata = folder.join("metadata");
    let put_all = |folder: &Path, files: &[(&str, &[u8])]| {
        files.iter().map(|(name, bytes)| ((*name).to_owned(), put(folder, bytes))).collect()
    };
    let deb = depot::PackageRepository {
        family: Family::Deb,
        metadata: put_all(&metadata, &[("InRelease", b"signed"), ("Packages", b"listed"), (depot::HOW_TO, b"do this")]),
        packages: put_all(store, &[(DEB, b"a package of Debian")]),
    };
    let rpm = depot::PackageRepository {
        family: Family::Rpm,
        metadata: put_all(&metadata, &[("repodata/repomd.xml", b"<repomd/>")]),
        packages: put_all(store, &[("a-1.rpm", b"one"), ("b-1.rpm", b"another")]),
    };
    depot::Packages {
        url: "https://10.77.0.11:5443/packages".to_owned(),
        metadata: metadata.display().to_string(),
        repositories: BTreeMap::from([("debian-12-amd64".to_owned(), deb), ("rocky-9-amd64".to_owned(), rpm)]),
    }
}

/// A version of a package may hold what a URL cannot.
pub const DEB: &str = "socat_1.7+b1~deb12%x_amd64.deb";
