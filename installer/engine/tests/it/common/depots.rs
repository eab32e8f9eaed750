//! Real depots of one cluster, over TLS.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use kubexm_plan::op::Depots;
use kubexm_spec::{Digest, depot};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// One cluster: its CA and, in a folder, a node's store and what its depots serve.
pub struct Site {
    pub folder: tempfile::TempDir,
    ca: CertifiedIssuer<'static, KeyPair>,
    runtime: tokio::runtime::Runtime,
}

pub fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

impl Site {
    pub fn new() -> Self {
        // As the program does; another test was first when it fails.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let ca = authority();
        std::fs::write(folder.path().join("ca.crt"), ca.pem()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { folder, ca, runtime }
    }

    /// A depot that serves these bytes under these digests, which may be others'.
    pub fn depot_of(&self, name: &str, blobs: &[(Digest, &[u8])]) -> SocketAddr {
        self.depot_by(&self.ca, name, blobs)
    }

    pub fn depot(&self, name: &str, blobs: &[&[u8]]) -> SocketAddr {
        self.depot_of(name, &blobs.iter().map(|bytes| (Digest::of(bytes), *bytes)).collect::<Vec<_>>())
    }

    pub fn depot_by(&self, ca: &CertifiedIssuer<'_, KeyPair>, name: &str, blobs: &[(Digest, &[u8])]) -> SocketAddr {
        self.depot_with(ca, name, blobs, None)
    }

    /// A depot that demands the login of a line of htpasswd.
    pub fn depot_demanding(&self, name: &str, blobs: &[&[u8]], htpasswd: &str) -> SocketAddr {
        let blobs: Vec<_> = blobs.iter().map(|bytes| (Digest::of(bytes), *bytes)).collect();
        self.depot_with(&self.ca, name, &blobs, Some(htpasswd))
    }

    fn depot_with(
        &self,
        ca: &CertifiedIssuer<'_, KeyPair>,
        name: &str,
        blobs: &[(Digest, &[u8])],
        htpasswd: Option<&str>,
    ) -> SocketAddr {
        let folder = self.folder.path().join(name);
        std::fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
        for (digest, bytes) in blobs {
            std::fs::write(blob_path(&folder, digest), bytes).unwrap();
        }
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, ca).unwrap();
        let file = |name: &str, text: String| {
            std::fs::write(folder.join(name), text).unwrap();
            folder.join(name).display().to_string()
        };
        let config = depot::DepotConfig {
            schema: depot::SCHEMA.to_owned(),
            listen: "127.0.0.1:0".parse().unwrap(),
            store: folder.display().to_string(),
            tls: depot::Tls { cert: file("crt", cert.pem()), key: file("key", key.serialize_pem()) },
            login: htpasswd.map(|text| file("htpasswd", text.to_owned())),
            images: BTreeMap::new(),
            files: blobs.iter().map(|(digest, _)| (digest.hex(), *digest)).collect(),
            packages: None,
        };
        let path = file("config.json", serde_json::to_string(&config).unwrap());
        let running = self.runtime.block_on(kubexm_depot::serve(Path::new(&path), None)).unwrap();
        let address = running.address;
        self.runtime.spawn(running.run());
        address
    }

    pub fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub fn depots(&self, at: &[SocketAddr]) -> Depots {
        let urls = at.iter().map(|address| format!("https://{address}")).collect();
        Depots { urls, ca: self.folder.path().join("ca.crt").display().to_string(), login: None }
    }
}

pub fn blob_path(store: &Path, digest: &Digest) -> PathBuf {
    store.join("blobs/sha256").join(digest.hex())
}

pub fn wanted(blobs: &[&[u8]]) -> BTreeMap<Digest, u64> {
    blobs.iter().map(|bytes| (Digest::of(bytes), bytes.len() as u64)).collect()
}
