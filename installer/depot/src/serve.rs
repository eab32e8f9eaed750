//! Listening: TLS with the certificate of the cluster's registry CA, until told to stop.

use std::net::SocketAddr;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Request, Response};
use axum::middleware;
use axum::routing::{any, get};
use axum::{Extension, Router};
use kubexm_spec::{Digest, depot};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::DepotError;
use crate::config::{read, read_config};
use crate::connections::{Connections, Limits};
use crate::content::{self, Store};
use crate::earlier;
use crate::guesses::{self, Guesses};
use crate::login::{self, Login};
use crate::paced::Pace;
use crate::packages;
use crate::registry::{self, Registry};

/// Names of certificate and key in a folder of their own, as systemd's `LoadCredential=` makes it.
const CERT: &str = "tls.crt";
const KEY: &str = "tls.key";
/// Name of the login in the same folder.
const LOGIN: &str = "htpasswd";

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A depot that listens; [`Running::run`] answers requests.
pub struct Running {
    config: PathBuf,
    /// Folder of certificate and key, if they are not where the config says.
    tls_folder: Option<PathBuf>,
    /// As the config says it: its port may be 0.
    listen: SocketAddr,
    listener: TcpListener,
    tls: TlsAcceptor,
    router: Router,
    limits: Limits,
    guesses: Guesses,
    /// Where it listens, with the real port when the config said 0.
    pub address: SocketAddr,
}

/// Reads the config file and begins to listen. `tls_folder` has `tls.crt` and `tls.key`, if they are not where the config says:
/// a user other than root cannot read the key there. The caller has installed rustls' ring provider.
pub async fn serve(config_path: &FilePath, tls_folder: Option<&FilePath>) -> Result<Running, DepotError> {
    let Loaded { config, tls, login } = load(config_path, tls_folder).await?;
    let listen = config.listen;
    let (listener, address) = bind(listen)?;
    let router = router(config, login);
    Ok(Running {
        config: config_path.to_owned(),
        tls_folder: tls_folder.map(FilePath::to_owned),
        listen,
        listener,
        tls,
        router,
        limits: Limits::default(),
        guesses: Guesses::at_most(guesses::MOST),
        address,
    })
}

/// Reads all that a start or a reload would, and serves nothing: the error is the one they would end with.
pub async fn check(config_path: &FilePath, tls_folder: Option<&FilePath>) -> Result<(), DepotError> {
    load(config_path, tls_folder).await.map(drop)
}

/// As [`check`], without certificate, key and login.
pub async fn check_config(config_path: &FilePath) -> Result<(), DepotError> {
    read_config(config_path).await.map(drop)
}

/// Everything that a depot reads before it serves.
struct Loaded {
    config: depot::DepotConfig,
    tls: TlsAcceptor,
    login: Option<Login>,
}

async fn load(config_path: &FilePath, tls_folder: Option<&FilePath>) -> Result<Loaded, DepotError> {
    let mut config = read_config(config_path).await?;
    earlier::add(&mut config, config_path).await?;
    if let Some(folder) = tls_folder {
        let at = |name| folder.join(name).display().to_string();
        config.tls = depot::Tls { cert: at(CERT), key: at(KEY) };
        config.login = config.login.map(|_| at(LOGIN));
    }
    let tls = tls(&config.tls).await?;
    let login = match config.login.take() {
        // Without what it should demand it serves nobody.
        Some(path) => Some(read_login(path).await?),
        None => None,
    };
    Ok(Loaded { config, tls, login })
}

async fn read_login(path: String) -> Result<Login, DepotError> {
    let text = read(&path).await?;
    let login = std::str::from_utf8(&text).map_err(|_| "it is no text").and_then(Login::parse);
    login.map_err(|reason| DepotError::Login { path, reason })
}

fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), DepotError> {
    let failed = |source| DepotError::Listen { listen: listen.to_string(), source };
    let socket = if listen.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(failed)?;
    socket.set_reuseaddr(true).map_err(failed)?;
    // A reload from one address to all of them, or back, listens on the new ones before it leaves the old. Only programs of the
    // same user share a port like that.
    socket.set_reuseport(true).map_err(failed)?;
    socket.bind(listen).map_err(failed)?;
    let listener = socket.listen(BACKLOG).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

impl Running {
    /// Lets silent clients go after another time than 20 s.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { limits: Limits { patience, ..self.limits }, ..self }
    }

    /// Demands that clients take at least so many bytes within a time of waiting for them, instead of 1 MiB in 120 s.
    #[must_use]
    pub fn pace(self, bytes: u64, within: Duration) -> Self {
        Self { limits: Limits { pace: Pace { bytes, within }, ..self.limits }, ..self }
    }

    /// Other limits than 400 connections in all and 32 from one address.
    #[must_use]
    pub fn limits(self, most: usize, most_of_one: usize) -> Self {
        Self { limits: Limits { most, most_of_one, ..self.limits }, ..self }
    }

    /// Another limit than 20 wrong logins of one address within a minute.
    #[must_use]
    pub fn wrong_logins(self, most: u32) -> Self {
        Self { guesses: Guesses::at_most(most), ..self }
    }

    /// Answers requests until the future is dropped. One bad client never ends it.
    pub async fn run(self) {
        let (_never, reloads) = mpsc::channel(1);
        self.run_with_reloads(reloads).await;
    }

    /// As [`Running::run`]. Whenever something comes from `reloads`, config, certificate and key are read again: connections
    /// from then on have the new ones, those that are open end with the old. Where something is wrong with the new ones the
    /// old stay, and the log says why.
    pub async fn run_with_reloads(mut self, mut reloads: mpsc::Receiver<()>) {
        let connections = Connections::new(self.limits);
        loop {
            let next = tokio::select! {
                next = connections.next(&self.listener) => next,
                Some(()) = reloads.recv() => {
                    self.reload().await;
                    continue;
                }
            };
            let Some(connection) = next else { continue };
            let router = self.router.clone().layer(Extension(self.guesses.client(connection.client())));
            tokio::spawn(connection.answer(self.tls.clone(), router));
        }
    }
}

impl Running {
    async fn reload(&mut self) {
        match self.reloaded().await {
            Ok(()) => tracing::info!(address = %self.address, "reloaded"),
            Err(error) => {
                tracing::error!(error = %kubexm_spec::error_chain(&error), "not reloaded; the earlier content is \
                                                                            still served");
            }
        }
    }

    /// All of it, or nothing.
    async fn reloaded(&mut self) -> Result<(), DepotError> {
        let Loaded { config, tls, login } = load(&self.config, self.tls_folder.as_deref()).await?;
        if config.listen != self.listen {
            (self.listener, self.address) = bind(config.listen)?;
            self.listen = config.listen;
        }
        self.tls = tls;
        self.router = router(config, login);
        Ok(())
    }
}

fn router(mut config: depot::DepotConfig, login: Option<Login>) -> Router {
    let mut known: std::collections::BTreeSet<Digest> = config.files.values().copied().collect();
    for repository in config.images.values() {
        known.extend(repository.manifests.iter().chain(&repository.blobs));
    }
    let store = Store::at(&config.store);
    let repositories = config.packages.take().map(|served| packages::router(served, store.clone())).unwrap_or_default();
    let registry = Arc::new(Registry { store, config, known });
    let open = Router::new()
        .route("/v2/", get(registry::version))
        .route("/v2/{*path}", any(registry::below))
        .route("/blobs/sha256/{hex}", get(blob))
        .route("/files/{name}", get(file))
        .with_state(registry)
        .merge(repositories);
    match login {
        // What is not there needs the login as well: without it nobody learns what is.
        Some(login) => open.layer(middleware::from_fn_with_state(Arc::new(login), login::demand)),
        None => open,
    }
}

async fn blob(
    State(registry): State<Arc<Registry>>,
    Path(hex): Path<String>,
    request: Request<Body>,
) -> Response<Body> {
    match Digest::from_hex(&hex) {
        Ok(digest) if registry.known.contains(&digest) => {
            registry.store.answer(request, &digest, "application/octet-stream").await
        }
        _ => content::not_here(&hex),
    }
}

async fn file(
    State(registry): State<Arc<Registry>>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> Response<Body> {
    match registry.config.files.get(&name) {
        Some(digest) => registry.store.answer(request, digest, "application/octet-stream").await,
        None => content::not_here(&name),
    }
}

async fn tls(files: &depot::Tls) -> Result<TlsAcceptor, DepotError> {
    let bad = |reason: String| DepotError::Tls { cert: files.cert.clone(), key: files.key.clone(), reason };
    let (cert, key) = (read(&files.cert).await?, read(&files.key).await?);
    let chain = CertificateDer::pem_slice_iter(&cert).collect::<Result<Vec<_>, _>>().map_err(|e| bad(e.to_string()))?;
    // The parser's error text never holds the key's bytes, but it says nothing useful either.
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| bad("the key is not a PEM private key".to_owned()))?;
    let mut config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).map_err(|e| bad(e.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
