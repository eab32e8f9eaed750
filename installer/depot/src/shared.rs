//! Blobs for the other hosts of a run, while it lasts: read-only, each by its digest, to whoever has a certificate of the run, and
//! nothing else. The depot outlives a run; this ends with the agent that started it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Request, Response};
use axum::routing::get;
use kubexm_spec::Digest;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsAcceptor;

use crate::DepotError;
use crate::connections::{Connections, Limits};
use crate::content::{self, Store};

/// Few take from a host at a time, with a few connections each; it is an agent beside other work of the host.
const CONNECTIONS: usize = 64;
const CONNECTIONS_OF_ONE: usize = 16;
/// As the depot's.
const BACKLOG: u32 = 1024;
/// What an error calls files that are none: both are in memory only.
const OF_THE_RUN: &str = "of this run";

/// What a host shows the others of a run, and whom it believes. All in PEM.
#[derive(Clone, Copy)]
pub struct RunTls<'a> {
    /// The run's own authority: nobody else signs a server or a client.
    pub ca: &'a str,
    /// The host's certificate.
    pub certificate: &'a str,
    /// Its key.
    pub key: &'a [u8],
}

/// The blobs that may be asked for. Clones are the same set.
#[derive(Clone, Debug, Default)]
pub struct Served(Arc<RwLock<BTreeSet<Digest>>>);

impl Served {
    /// Serves these too.
    pub fn add(&self, blobs: impl IntoIterator<Item = Digest>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).extend(blobs);
    }

    fn has(&self, blob: &Digest) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(blob)
    }
}

/// A server that listens; [`SharedBlobs::run`] answers requests.
pub struct SharedBlobs {
    listener: TcpListener,
    tls: TlsAcceptor,
    router: Router,
    /// Where it listens, with the real port when 0 was asked for.
    pub address: SocketAddr,
}

impl SharedBlobs {
    /// Begins to listen for who has a certificate of this run. Must be called in a tokio runtime; the caller has installed rustls'
    /// ring provider.
    pub fn listen(
        at: SocketAddr,
        store: impl Into<PathBuf>,
        tls: RunTls<'_>,
        served: Served,
    ) -> Result<Self, DepotError> {
        let tls = acceptor(tls)?;
        let failed = |source| DepotError::Listen { listen: at.to_string(), source };
        let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(failed)?;
        // Connections of an earlier run may still be closing.
        socket.set_reuseaddr(true).map_err(failed)?;
        socket.bind(at).map_err(failed)?;
        let listener = socket.listen(BACKLOG).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let content = Arc::new(Content { store: Store::at(store), served });
        let router = Router::new().route("/blobs/sha256/{hex}", get(blob)).with_state(content);
        Ok(Self { listener, tls, router, address })
    }

    /// Answers requests until the future is dropped.
    pub async fn run(self) {
        let limits = Limits { most: CONNECTIONS, most_of_one: CONNECTIONS_OF_ONE, ..Limits::default() };
        let connections = Connections::new(limits);
        loop {
            if let Some(connection) = connections.next(&self.listener).await {
                let router = self.router.clone();
                tokio::spawn(connection.answer(self.tls.clone(), move |_| router.clone()));
            }
        }
    }
}

struct Content {
    store: Store,
    served: Served,
}

async fn blob(State(content): State<Arc<Content>>, Path(hex): Path<String>, request: Request<Body>) -> Response<Body> {
    match Digest::from_hex(&hex) {
        Ok(digest) if content.served.has(&digest) => {
            content.store.answer(request, &digest, "application/octet-stream").await
        }
        _ => content::not_here(&hex),
    }
}

fn acceptor(files: RunTls<'_>) -> Result<TlsAcceptor, DepotError> {
    let bad = |reason: String| DepotError::Tls { cert: OF_THE_RUN.to_owned(), key: OF_THE_RUN.to_owned(), reason };
    let certificates = |pem: &str| {
        CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>().map_err(|e| bad(e.to_string()))
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates(files.ca)? {
        roots.add(authority).map_err(|e| bad(e.to_string()))?;
    }
    let clients = WebPkiClientVerifier::builder(Arc::new(roots)).build().map_err(|e| bad(e.to_string()))?;
    let key =
        PrivateKeyDer::from_pem_slice(files.key).map_err(|_| bad("the key is not a PEM private key".to_owned()))?;
    let mut config = ServerConfig::builder()
        .with_client_cert_verifier(clients)
        .with_single_cert(certificates(files.certificate)?, key)
        .map_err(|e| bad(e.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
